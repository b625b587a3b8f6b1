"""`training.batch = "auto"`: a number is measured, said, written down and kept on resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.config import Experiment
from dura.data import load
from dura.records import RunFolder
from dura.runs import auto
from dura.runs.api import choose
from dura.runs.choices import Choices
from dura.runs.fitting import Clock, fitted
from dura.runs.run import resume, train
from dura.training.trainer import Progress
from dura.types import BadInput, DuraError
from graphs import random_graph


class Ear:
    def __init__(self) -> None:
        self.notices: list[str] = []

    def step(self, progress: Progress, steps_in_epoch: int) -> None: ...

    def epoch(self, record: dict[str, Any]) -> None: ...

    def notice(self, sentence: str) -> None:
        self.notices.append(sentence)


@given(st.dictionaries(st.integers(1, 4096), st.floats(1, 1e6), min_size=1))
def test_the_smallest_batch_near_the_best_speed_is_picked(speeds: dict[int, float]) -> None:
    picked = auto.pick(speeds)
    assert speeds[picked] >= auto.ENOUGH * max(speeds.values())
    assert all(speeds[size] < auto.ENOUGH * max(speeds.values()) for size in speeds if size < picked)


def test_a_run_measures_says_and_writes_its_batch(tmp_path: Path) -> None:
    graph, ear = load("umls"), Ear()
    wanted = choose(None, graph="umls", rank=8, epochs=1, batch="auto")
    train(wanted, graph, tmp_path / "run", listeners=(ear,))
    written = Experiment.from_toml(tmp_path / "run" / "settings.toml")
    assert written.training.batch in (64, 128)  # 1,900 questions: more would leave too few steps an epoch
    said = next(sentence for sentence in ear.notices if sentence.startswith("auto"))
    assert f"batches of {written.training.batch} questions" in said
    assert "64: " in said
    start = RunFolder.open(tmp_path / "run").records()[0]
    assert start["auto"] == said
    ear.notices.clear()
    resume(tmp_path / "run", listeners=(ear,))
    assert not any(sentence.startswith("auto") for sentence in ear.notices)


@pytest.mark.parametrize("draw", ["uniform", "frequency"])
def test_a_sampled_run_learns_nearly_as_much_as_the_whole(draw: str) -> None:
    """UMLS has 135 entities; 50 draws see about 42 of them a step."""
    settings = {"regularizer.weight": 0.01, "training.epochs": 12, "training.batch": 100, "model.rank": 30}
    sampled = {"objective.name": "sampled-cross-entropy", "objective.samples": 50, "objective.draw": draw}
    graph = load("umls")
    whole, part = (train(choose(None, settings=settings | more), graph) for more in ({}, sampled))
    assert whole.evaluate().metrics.mrr > 0.85
    assert part.evaluate().metrics.mrr > whole.evaluate().metrics.mrr - 0.06


def test_a_learning_rate_that_no_table_can_hold_is_one_sentence() -> None:
    """Few rows of CP's heads have a gradient in a step, so the optimizer goes by rows, whose product takes no such number."""
    settings = choose(None, model="cp", rank=4, batch="auto", settings={"optimizer.lr": 1e308})
    with pytest.raises(DuraError, match="the loss became nan .* train again with a smaller learning rate"):
        train(settings, random_graph(entities=300, facts=900))


@pytest.mark.parametrize(("gain", "precision"), [(2.0, "bf16"), (1.1, "float32")])
def test_a_run_has_the_precision_that_is_faster_here(
    gain: float, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "bf16_gain", lambda _: gain)
    graph, ear = random_graph(), Ear()
    wanted = choose(None, rank=8, epochs=1, batch=50, settings={"training.precision": "auto"})
    train(wanted, graph, tmp_path / "run", listeners=(ear,))
    assert Experiment.from_toml(tmp_path / "run" / "settings.toml").training.precision == precision
    said = f"auto chose the precision {precision}: products in bf16 are {gain} times as fast here"
    assert said in ear.notices
    assert RunFolder.open(tmp_path / "run").records()[0]["auto"] == said


def test_distances_keep_full_precision() -> None:
    wanted = choose(None, model="transe", settings={"training.precision": "auto"})
    chosen, said = auto.settle_precision(wanted, random_graph().sizes)
    assert chosen.training.precision == "float32"
    assert "transe does not score by matrix products" in said


def test_the_gain_of_bf16_is_measured() -> None:
    assert 0.001 < auto.bf16_gain() < 1000


def test_minutes_measure_the_precision_unless_it_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs have time enough."""
    monkeypatch.setattr(auto, "bf16_gain", lambda _: 2.0)
    large = random_graph(entities=4500, facts=5000)
    for graph, chosen, precision in (
        (large, {}, "bf16"),
        (random_graph(), {}, "float32"),
        (large, {"training.precision": "float32"}, "float32"),
    ):
        given = Choices(rank=4, settings={"regularizer.weight": 0.01} | chosen)
        fitting, said = fitted(given.experiment(dated=False), graph, given, Clock(1), lambda *_: 0.0)
        assert fitting.training.precision == precision
        assert any("auto chose the precision" in sentence for sentence in said) == (precision == "bf16")


def test_what_was_not_settled_is_no_number() -> None:
    with pytest.raises(BadInput, match="measurement at the start"):
        _ = choose(None, batch="auto").training.questions_a_step
    with pytest.raises(BadInput, match="must be a whole number or 'auto', not the text 'car'"):
        choose(None, batch="car")
