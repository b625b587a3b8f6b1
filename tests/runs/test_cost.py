from __future__ import annotations

from pathlib import Path

import pytest

from dura.config import Component, Experiment
from dura.data.doctor import check
from dura.data.memory import from_facts
from dura.models import MODELS
from dura.runs.cost import check_graph, cores, default_size, free_memory, measured_speed, model_size
from dura.types import Sizes


def test_the_doctor_ends_with_the_cost_of_training() -> None:
    graph = from_facts([("a", "r", "b"), ("a", "s", "c")], valid_share=0, test_share=0)
    report = check_graph(graph, speed=1e6)
    assert report.findings[:-1] == check(graph).findings
    cost = report.findings[-1]
    width, entities, relations, questions = 400, 3, 2, 4
    assert (cost.topic, cost.severity) == ("cost", "ok")
    assert cost.text == (
        "training complex with rank 200 takes about 0 MB in addition to torch itself and 0.029 s per epoch on this machine's CPU; "
        "'dura train' chooses 100 epochs"
    )
    assert cost.details == {
        "rank": 200,
        "epochs": 100,
        "bytes": 3 * 4 * width * (entities + 2 * relations) + 4 * 100 * entities,
        "seconds_an_epoch": pytest.approx(3 * 2 * questions * entities * width / 1e6),
        "flops_a_second": 1e6,
        "questions": questions,
    }


def test_facts_with_times_are_estimated_for_a_temporal_model() -> None:
    graph = from_facts([("a", "r", "b", 1), ("a", "r", "c", 2)], valid_share=0, test_share=0)
    cost = check_graph(graph, speed=1e6).findings[-1]
    assert "training tcomplex" in cost.text
    width = 2 * cost.details["rank"]
    assert cost.details["bytes"] == 3 * 4 * width * (3 + 2 + 2) + 4 * 100 * 3


@pytest.mark.parametrize(
    ("model", "sizes", "found"),
    [
        ("complex", Sizes(7, 3), (8 * (7 + 2 * 3), 8, (), True, 0)),
        ("cp", Sizes(7, 3), (4 * (2 * 7 + 2 * 3), 4, (), True, 0)),
        ("rescal", Sizes(7, 3), (4 * 7 + 16 * 2 * 3, 4, (6,), True, 0)),
        ("transe", Sizes(7, 3), (4 * 7 + 4 * 3, 4, (), False, 0)),
        ("trescal", Sizes(7, 3, 5), (4 * 7 + 16 * (2 * 3 + 5), 4, (6, 5), True, 16 * 5)),
    ],
)
def test_the_size_of_a_model(model: str, sizes: Sizes, found: tuple[object, ...]) -> None:
    assert model_size(Component(model, {"rank": 4}), sizes) == found


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_has_a_size_without_memory(name: str) -> None:
    chosen, sizes = Component(name, {"rank": 4}), Sizes(7, 3, 5)
    model = MODELS.build(name, chosen.options, sizes)
    size = model_size(chosen, sizes)
    assert size.numbers == sum(table.numel() for table in model.parameters())
    table = model.target_table
    assert size.width == (4 if table is None else table.shape[1])
    assert size.by_product == model.comparator.by_product


@pytest.mark.parametrize(
    ("experiment", "sizes"), [(Experiment(), Sizes(7, 3)), (Experiment.of_dated_facts(), Sizes(7, 3, 5))]
)
def test_the_sizes_of_the_default_models_are_those_of_the_models(experiment: Experiment, sizes: Sizes) -> None:
    assert default_size(experiment.model, sizes) == model_size(experiment.model, sizes)


def test_speed_is_measured() -> None:
    assert 1e8 < measured_speed(0.01) < 1e15


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    def tell(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert free_memory(tmp_path) is None
    tell("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert free_memory(tmp_path) == 5_120_000
    tell("sys/fs/cgroup/memory.max", "max\n")
    tell("sys/fs/cgroup/memory.current", "3000000\n")
    tell("sys/fs/cgroup/memory.stat", "anon 2000000\ninactive_file 400000\n")
    assert free_memory(tmp_path) == 5_120_000
    tell("sys/fs/cgroup/memory.max", "4000000\n")
    assert free_memory(tmp_path) == 1_400_000
    tell("sys/fs/cgroup/memory/memory.limit_in_bytes", "3500000\n")
    tell("sys/fs/cgroup/memory/memory.usage_in_bytes", "3500001\n")
    assert free_memory(tmp_path) == 0


def test_the_machine_says_what_it_has() -> None:
    assert cores() >= 1
    free = free_memory()
    assert free is None or 10**7 < free < 10**15
