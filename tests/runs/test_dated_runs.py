"""Whole runs on dated graphs: kept, opened, resumed; times drawn inside intervals; what is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.models import MODELS, Model
from dura.records import RunFolder
from dura.runs.api import choose
from dura.runs.build import complete, questions_of
from dura.runs.presets import preset
from dura.runs.run import resume, train
from dura.runs.store import read_graph
from dura.runs.trained import Trained, open_run
from dura.training.trainer import Interrupted
from dura.types import SPLITS, BadInput, DuraError, IntArray
from graphs import dated_graph, random_graph

GRAPHS = {
    "points": dated_graph(),
    "points and no time": dated_graph(untimed=True),
    "intervals": dated_graph(intervals=True, untimed=True),
}
TEMPORAL = [name for name, kind in MODELS.items() if kind.temporal]
every_graph = pytest.mark.parametrize("graph", list(GRAPHS.values()), ids=list(GRAPHS))


def quick(**settings: object) -> Experiment:
    chosen = {
        "model.name": "tcomplex",
        "model.rank": 4,
        "regularizer.name": "dura1",
        "regularizer.weight": 1e-3,
        "smoothness.weight": 0.1,
        "training.epochs": 4,
        "training.batch": 40,
        "training.checkpoint_every": 0.0,
    }
    return choose(None, graph="dated", settings={**chosen, **settings})


def tables(trained: Trained) -> dict[str, torch.Tensor]:
    return {name: table.detach() for name, table in trained.model.named_parameters()}


def same(one: Trained, two: Trained) -> bool:
    return all(torch.equal(table, tables(two)[name]) for name, table in tables(one).items())


# -- the run folder -----------------------------------------------------------------------------------------------------


@every_graph
def test_a_run_keeps_its_times_and_opens_as_it_was(tmp_path: Path, graph: Graph) -> None:
    kept = train(quick(), graph, tmp_path / "run")
    read = read_graph(RunFolder.open(tmp_path / "run"))
    assert graph.times is not None
    assert read.times is not None
    assert read.digest == graph.digest
    assert (read.times.kind, read.times.no_time) == (graph.times.kind, graph.times.no_time)
    np.testing.assert_array_equal(read.times.positions, graph.times.positions)
    for split in SPLITS:
        np.testing.assert_array_equal(read.facts(split), graph.facts(split))
    lines = (tmp_path / "run" / "times.txt").read_text().split("\n")[:-1]
    assert lines == list(graph.times)
    about = json.loads((tmp_path / "run" / "run.json").read_text())["graph"]
    assert about["times"] == len(graph.times)

    opened, inside = open_run(tmp_path / "run"), train(quick(), graph)
    assert same(opened, kept)
    assert same(opened, inside)
    for filtering in ("time-aware", "static"):
        results = [m.evaluate(filter=filtering).to_dict() for m in (opened, inside)]
        assert results[0] == results[1]
    best = max(r["valid"]["mrr"] for r in RunFolder.open(tmp_path / "run").records() if "valid" in r)
    assert opened.evaluate("valid").mrr == pytest.approx(best, abs=1e-12)


def test_times_that_were_changed_or_lost_are_noticed(tmp_path: Path) -> None:
    train(quick(**{"training.epochs": 1}), GRAPHS["points"], tmp_path / "run")
    file = tmp_path / "run" / "times.txt"
    before = file.read_text()
    file.write_text(before.replace("2014-01-02", "2014-02-02"))
    with pytest.raises(DuraError, match=r"times\.txt is damaged: its names are not distinct and sorted"):
        open_run(tmp_path / "run")
    file.unlink()
    with pytest.raises(DuraError, match=r"times\.txt is missing"):
        open_run(tmp_path / "run")
    file.write_text(before)
    open_run(tmp_path / "run")


def test_a_run_folder_from_before_there_were_times_still_opens(tmp_path: Path) -> None:
    """No times.txt, no count of times in run.json, no [smoothness] in settings.toml: as version 0.1 wrote them."""
    graph = random_graph()
    fitted = dura.fit(graph, model="complex", rank=4, epochs=1, progress=False)
    fitted.save(tmp_path / "run")
    assert not (tmp_path / "run" / "times.txt").exists()
    assert "times" not in json.loads((tmp_path / "run" / "run.json").read_text())["graph"]
    settings = tmp_path / "run" / "settings.toml"
    lines = settings.read_text().split("\n")
    at = lines.index("[smoothness]")
    end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("["))
    settings.write_text("\n".join(lines[:at] + lines[end:]))
    opened = dura.open(tmp_path / "run")
    assert opened.graph.digest == graph.digest
    assert opened.evaluate().to_dict() == fitted.evaluate().to_dict()


@pytest.mark.parametrize("model", ["tcomplex", "tntcomplex", "trescal"])
def test_times_that_start_at_ones_leave_relations_as_they_are(model: str) -> None:
    """At first every time asks the same; the other tables start as they would otherwise."""
    made = {}
    for start in ("random", "ones"):
        torch.manual_seed(4)
        made[start] = MODELS.build(model, {"rank": 5, "time_init": start}, GRAPHS["points"].sizes)
    for name, table in made["random"].named_parameters():
        assert torch.equal(table, dict(made["ones"].named_parameters())[name]) == (name != "times")
    head, relation = torch.tensor([0, 0, 0]), torch.tensor([1, 1, 1])
    with torch.no_grad():
        queries = {start: one.query(head, relation, torch.tensor([0, 1, 2])) for start, one in made.items()}
    assert torch.allclose(queries["ones"][0], queries["ones"][2])
    assert not torch.allclose(queries["random"][0], queries["random"][2])


def test_trescal_by_name_starts_at_ones_with_little_smoothness_and_presets_keep_their_own() -> None:
    chosen = choose(None, dated=True, model="trescal")
    assert chosen.model.options == {"rank": 200, "time_init": "ones"}
    assert (chosen.smoothness.weight, choose(None, dated=True).smoothness.weight) == (0.001, 0.2)
    own = choose(None, dated=True, model="trescal", settings={"smoothness.weight": 0.3})
    assert own.smoothness.weight == 0.3
    assert complete(preset("yago15k/trescal-dura1")).smoothness.weight == 1.0
    assert choose(None, dated=True, model="trescal", settings={"model.time_init": "random"}).model.options == {
        "rank": 200,
        "time_init": "random",
    }
    assert complete(preset("yago15k/trescal-dura1")).model.options["time_init"] == "random"
    with pytest.raises(BadInput, match="model.time_init"):
        MODELS.build("trescal", {"time_init": "zeros"}, GRAPHS["points"].sizes)


def test_time_as_a_term_and_smoothness_of_tntcomplex_train_by_settings_alone() -> None:
    chosen = {"model.name": "tntcomplex", "smoothness.weight": 0.01, "smoothness.p": 4, "terms.times": 0.5}
    settings = quick(**chosen).with_component("regularizer", "dura1")
    losses: list[float] = []

    class Ear:
        def step(self, progress: Any, steps: int) -> None: ...
        def notice(self, sentence: str) -> None: ...
        def epoch(self, record: dict[str, Any]) -> None:
            losses.append(record["loss"])

    train(settings, GRAPHS["points"], listeners=(Ear(),))
    assert losses[-1] < losses[0]


# -- resume -------------------------------------------------------------------------------------------------------------


@every_graph
@pytest.mark.parametrize("after", [1, 5, 8, 13])
def test_an_interrupted_run_of_dated_facts_resumes_bit_equal(tmp_path: Path, after: int, graph: Graph) -> None:
    """Also where each epoch asks intervals at other times: the epoch under way is drawn again, the same."""
    whole = train(quick(), graph, tmp_path / "whole")
    calls = iter(range(10_000))
    with pytest.raises(Interrupted, match="continue with: dura train --resume"):
        train(quick(), graph, tmp_path / "cut", stopped=lambda: next(calls) >= after)
    again = resume(tmp_path / "cut")
    assert same(whole, again)
    last = [sorted((tmp_path / run / "checkpoints").glob("step-*.safetensors"))[-1] for run in ("whole", "cut")]
    assert last[0].read_bytes() == last[1].read_bytes()


@pytest.mark.parametrize("model", TEMPORAL)
def test_every_temporal_model_resumes_bit_equal_over_intervals(tmp_path: Path, model: str) -> None:
    settings = quick(**{"model.name": model, "training.anneal": 2, "training.epochs": 3})
    kind = MODELS.get(model)
    settings = settings if kind.adjoint else settings.with_component("regularizer", "fro")
    settings = settings if kind.timeline is not Model.timeline else settings.with_value("smoothness.weight", 0)
    whole = train(settings, GRAPHS["intervals"], tmp_path / "whole")
    calls = iter(range(10_000))
    with pytest.raises(Interrupted):
        train(settings, GRAPHS["intervals"], tmp_path / "cut", stopped=lambda: next(calls) >= 8)
    assert same(whole, resume(tmp_path / "cut"))


@every_graph
def test_the_same_seed_gives_the_same_numbers_and_another_one_others(graph: Graph) -> None:
    one, two, other = (train(quick(**{"training.seed": seed}), graph) for seed in (0, 0, 1))
    assert same(one, two)
    assert not same(one, other)


# -- intervals ----------------------------------------------------------------------------------------------------------


def facts_of(questions: Questions, relations: int) -> set[tuple[int, ...]]:
    """The facts (head, relation, tail, time) of questions for tails."""
    assert questions.time is not None
    rows = zip(
        questions.head[questions.question].tolist(),
        questions.relation[questions.question].tolist(),
        questions.answers.tolist(),
        questions.time[questions.question].tolist(),
        strict=True,
    )
    return {row for row in rows if row[1] < relations}


def inside(facts: IntArray) -> dict[tuple[int, ...], set[int]]:
    """The times at which each (head, relation, tail) holds by its intervals."""
    times: dict[tuple[int, ...], set[int]] = {}
    for *fact, begin, end in facts.tolist():
        times.setdefault(tuple(fact), set()).update(range(begin, end + 1))
    return times


def test_times_are_drawn_inside_their_interval_anew_each_epoch() -> None:
    graph, experiment = GRAPHS["intervals"], quick()
    relations, holds = len(graph.relations), inside(graph.train)
    drawn = [facts_of(questions_of(experiment, graph, epoch), relations) for epoch in range(40)]
    for facts in drawn:
        assert {fact[:3] for fact in facts} == set(holds)
        assert all(fact[3] in holds[fact[:3]] for fact in facts)
    assert all(one != two for one, two in itertools.pairwise(drawn))
    # In forty epochs every time of every interval has its turn (the longest has four: a miss is rarer than one in 1e5).
    seen = set().union(*drawn)
    missed = [(fact, time) for fact, times in holds.items() for time in times if (*fact, time) not in seen]
    assert missed == []
    none = len(graph.times.positions) if graph.times is not None else -1
    untimed = {tuple(fact[:3]) for fact in graph.train.tolist() if fact[3] == none}
    assert untimed
    assert all((*fact, none) in facts for fact in untimed for facts in drawn)


def test_draws_follow_from_seed_and_epoch_alone() -> None:
    graph = GRAPHS["intervals"]

    def draw(seed: int, epoch: int) -> set[tuple[int, ...]]:
        return facts_of(questions_of(quick(**{"training.seed": seed}), graph, epoch), len(graph.relations))

    before = draw(0, 3)
    draw(0, 7)
    assert draw(0, 3) == before
    assert draw(1, 3) != before
    begins = {tuple(fact) for fact in graph.train[:, :4].tolist()}
    assert facts_of(questions_of(quick(), graph), len(graph.relations)) == begins
    points = GRAPHS["points"]
    assert questions_of(quick(), points, 3) is questions_of(quick(), points) is points.questions


def test_by_facts_every_drawn_fact_is_a_question_of_its_own() -> None:
    graph = GRAPHS["intervals"]
    questions = questions_of(quick(**{"training.batching": "facts"}), graph, 2)
    together = questions_of(quick(), graph, 2)
    assert len(questions) == questions.facts == together.facts > len(together)


def test_a_run_trains_on_the_questions_drawn_for_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, asked = GRAPHS["intervals"], list[int | None]()

    def spy(experiment: Experiment, graph: Graph, epoch: int | None = None) -> Questions:
        asked.append(epoch)
        return questions_of(experiment, graph, epoch)

    monkeypatch.setattr("dura.runs.training.questions_of", spy)
    train(quick(**{"training.epochs": 3, "training.patience": 0}), graph)
    assert asked == [None, 0, 1, 2]


# -- smoothness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [name for name in TEMPORAL if MODELS.get(name).timeline is not Model.timeline])
def test_smoothness_brings_neighbouring_times_together_but_not_no_time(model: str) -> None:
    graph = GRAPHS["points and no time"]
    steps = []
    for weight in (0.0, 100.0):
        settings: dict[str, object] = {"model.name": model, "smoothness.weight": weight, "smoothness.p": 2}
        trained = train(quick(**settings, **{"regularizer.name": "fro", "training.patience": 0}), graph)
        assert trained.model.timeline is not None
        rows = trained.model.timeline[0].detach().flatten(1)
        steps.append((rows[1:-1] - rows[:-2]).square().sum(1).mean().item())
        no_time = (rows[-1] - rows[-2]).square().sum().item()
    assert steps[1] < 0.5 * steps[0]
    assert no_time > 2 * steps[1]


# -- refusals -----------------------------------------------------------------------------------------------------------

Refusal = tuple[Callable[[], Graph], dict[str, object], str]
REFUSALS: dict[str, Refusal] = {
    **{
        f"{name} on trescal": (
            dated_graph,
            {"model.name": "trescal", "regularizer.name": name},
            f"the regularizer '{name}' needs relations that act element by element, unlike those of 'trescal'",
        )
        for name in ("n3", "dura2", "dura12")
    },
    **{
        f"{name} on a static model": (
            random_graph,
            {"model.name": "complex", "regularizer.name": name, "smoothness.weight": 0.0},
            f"the regularizer '{name}' needs facts with times, and 'complex' is static",
        )
        for name in ("dura1", "dura2", "dura12")
    },
    "temporal model without times": (
        random_graph,
        {},
        "'tcomplex' is a model for facts with times, but this graph has none",
    ),
    "static model on times": (
        dated_graph,
        {"model.name": "complex", "regularizer.name": "dura", "smoothness.weight": 0.0},
        "the facts of this graph have times, but 'complex' is a static model",
    ),
    "smoothness without times": (
        random_graph,
        {"model.name": "complex", "regularizer.name": "dura"},
        "smoothness.weight is 0.1, but 'complex' has no times",
    ),
    "smoothness of matrices": (
        dated_graph,
        {"model.name": "trescal", "smoothness.p": 3},
        "smoothness.p is 3, but the times of 'trescal' are matrices: only p = 2 is defined for them",
    ),
    "another norm": (dated_graph, {"smoothness.p": 6}, r"smoothness\.p must be .*2, 3, 4 or 5, not .*6"),
    "a negative weight": (dated_graph, {"smoothness.weight": -1.0}, r"smoothness\.weight is -1.* zero|at least 0"),
}


@pytest.mark.parametrize(("graph", "settings", "sentence"), list(REFUSALS.values()), ids=list(REFUSALS))
def test_what_makes_no_sense_is_refused_in_a_sentence_before_any_work(
    tmp_path: Path, graph: Callable[[], Graph], settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence) as error:
        train(quick(**settings), graph(), tmp_path / "never")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "never").exists()
