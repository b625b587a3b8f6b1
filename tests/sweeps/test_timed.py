"""Sweeps without a file: what they choose, that they keep to their time, continue, and can be used from any folder."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.main import app
from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder, best_epoch
from dura.runs.choices import choose
from dura.runs.presets import preset
from dura.runs.store import read_settings
from dura.runs.weight import part_of_valid
from dura.sweeps import clock, rounds, shape
from dura.sweeps.attempt import attempt as plain_attempt
from dura.sweeps.clock import Clock
from dura.sweeps.found import Found, outcome
from dura.sweeps.journal import Journal
from dura.sweeps.ranges import proposed, space_of
from dura.sweeps.shape import Shape, choose_shape
from dura.sweeps.space import Choice, Range
from dura.sweeps.timed import continue_within, sweep_within
from dura.training.progress import Interrupted
from dura.types import BadInput

SMALL = {"graph.source": "nations", "model.rank": 6, "training.threads": 1}


TICK = 0.005


@contextmanager
def ticking() -> Iterator[None]:
    """A clock that advances by a tick whenever it is read, about once per step: what a sweep does then depends on nothing else."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += TICK
        return now[0]

    def seconds(experiment: Experiment, graph: Graph) -> float:
        return TICK * -(-len(graph.questions) // experiment.training.questions_a_step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "time", SimpleNamespace(monotonic=monotonic))
        for module in (shape, rounds):
            patch.setattr(module, "epoch_seconds", seconds)
            patch.setattr(module, "valid_seconds", lambda *_: 0.0)
        yield


@pytest.fixture
def ticks() -> Iterator[None]:
    with ticking():
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    said: list[str] = []
    with ticking():
        out = sweep_within(0.25, tmp_path_factory.mktemp("timed") / "small", settings=SMALL, tell=said.append)
    assert all(not sentence.endswith(".") for sentence in said)
    return out


# -- what is varied -----------------------------------------------------------------------------------------------------


def test_the_ranges_lie_around_the_defaults_and_leave_out_what_is_fixed() -> None:
    space = space_of(Experiment(), [100, 500], sampled=True, fixed=["regularizer.lambda2"])
    assert space["regularizer.weight"] == Range(0.001, 0.16, log=True)
    assert space["training.batch"] == Choice((100, 500))
    assert space["candidates.draw"] == Choice(("uniform", "frequency"))
    assert "regularizer.lambda2" not in space
    none = choose(None, model="rotate")
    assert not any(path.startswith("regularizer") for path in space_of(none, [500], sampled=False, fixed=[]))


def test_the_first_trial_has_the_defaults_and_the_next_ones_change_the_weight() -> None:
    space = space_of(Experiment(), [100, 500], sampled=False, fixed=[])
    first, second, third = (proposed(space, Experiment(), [], number, 0) for number in range(3))
    assert first == {path: choose(None, settings=first).by_path()[path] for path in first}
    assert {path for path in first if first[path] != second[path]} == {"regularizer.weight"}
    assert float(str(second["regularizer.weight"])) < 0.02 < float(str(third["regularizer.weight"]))


def test_later_trials_follow_what_was_good() -> None:
    """If only heavy weights are good, TPE draws heavier ones than if only light ones are."""
    space = space_of(
        Experiment(), [500], sampled=False, fixed=["optimizer.lr", "regularizer.lambda1", "regularizer.lambda2"]
    )
    weights = [0.0011, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.12]

    def drawn(better: Callable[[float], float]) -> float:
        tried: list[Any] = [({"regularizer.weight": weight}, better(weight)) for weight in weights]
        draws = [proposed(space, Experiment(), tried, number, 0)["regularizer.weight"] for number in range(8, 20)]
        return sum(float(str(draw)) for draw in draws) / len(draws)

    assert drawn(lambda weight: weight) > 3 * drawn(lambda weight: -weight)
    again = [proposed(space, Experiment(), [], 9, seed) for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]


def test_values_at_the_edge_of_a_range_are_inside_of_it() -> None:
    """Values are rounded, and 3.003 was just above an edge. A sweep of an older dura may have tried such values."""
    space = space_of(Experiment(), [500], sampled=False, fixed=["optimizer.lr", "regularizer.lambda1"])
    edge = space["regularizer.lambda2"]
    assert isinstance(edge, Range) and edge.high == 3.0
    tried: list[Any] = [
        ({"regularizer.weight": 0.02, "regularizer.lambda2": value}, value)
        for value in (3.003, 3.0, 2.9999, 2.99, 0.7493)
    ]
    for number in range(8, 30):
        values = proposed(space, Experiment(), tried, number, 0)
        for path, axis in space.items():
            assert isinstance(axis, Range) and axis.low <= float(str(values[path])) <= axis.high
        tried.append((values, float(str(values["regularizer.lambda2"]))))


def test_a_large_graph_with_little_time_is_sampled_and_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(experiment: Experiment, _: Any) -> float:
        sampled = experiment.candidates.name == "sample"
        return float(str(experiment.model.options["rank"])) * (0.1 if sampled else 2.0)

    monkeypatch.setattr(shape, "MANY", 10)
    monkeypatch.setattr(shape, "epoch_seconds", seconds)
    monkeypatch.setattr(shape, "valid_seconds", lambda *_: 30.0)
    graph, ways = dura.load("nations"), {"fixed": [], "left": 1e9}
    little = choose_shape(Experiment(), graph, search=20.0, final=100.0, **ways)  # type: ignore[arg-type]
    assert (little.settings["candidates.name"], little.epochs, little.final_rank) == ("sample", 0, 64)
    assert any("no time for a search" in why for why in little.why)
    much = choose_shape(Experiment(), graph, search=1e6, final=1e6, **ways)  # type: ignore[arg-type]
    assert (much.search_rank, much.epochs, much.valid) == (400, 10, len(graph.valid))
    assert not any("no time" in why for why in much.why)
    fixed = choose_shape(
        Experiment(), graph, search=20.0, final=100.0, fixed=["candidates.name", "model.rank"], left=1e9
    )
    assert (fixed.settings, fixed.final_rank) == ({}, None)


def test_a_slower_batch_gets_fewer_epochs() -> None:
    made = Shape({}, None, None, {"100": 2.0, "500": 1.0}, 6, 10)
    assert [made.epochs_of(batch, 500) for batch in (100, 500, 7)] == [3, 6, 6]


def test_a_part_of_the_valid_facts_is_drawn_once() -> None:
    graph = dura.load("nations")
    some, same = part_of_valid(graph, 50, 3), part_of_valid(graph, 50, 3)
    assert len(some.valid) == 50
    assert some.digest == same.digest
    assert {tuple(fact) for fact in some.valid.tolist()} < {tuple(fact) for fact in graph.valid.tolist()}
    assert part_of_valid(graph, 10**6, 3) is graph


# -- what comes out -----------------------------------------------------------------------------------------------------


def test_the_search_has_rounds_and_the_best_is_trained_longer(found: Found) -> None:
    journal = Journal.open(found.path)
    short, long = journal.trials, journal.finals
    assert len(short) >= 3
    assert long
    assert {len(entry.mrr) for entry in short} >= {1, 2}
    best = read_settings(RunFolder.open(Path(found.best["run"])))
    assert best.training.epochs == 100 or best.training.anneal == 0
    assert best.graph.source == "nations"
    assert found.best["valid_mrr"] == max(row["valid_mrr"] for row in found.rows if row["state"] == "complete")
    assert found.open().evaluate("valid").mrr == pytest.approx(found.best["valid_mrr"])
    assert any("settings were tried" in sentence for sentence in found.choices)


def test_a_trial_of_a_later_round_went_on_with_the_same_run(found: Found) -> None:
    journal = Journal.open(found.path)
    entry = max(journal.trials, key=lambda entry: len(entry.mrr))
    kinds = [record["kind"] for record in RunFolder(found.path / "runs" / entry.name).records()]
    assert kinds.count("start") == 1
    assert "resume" in kinds
    assert entry.mrr == sorted(entry.mrr)


def test_the_time_is_kept(tmp_path: Path) -> None:
    began = time.monotonic()
    sweep_within(0.05, tmp_path / "short", settings={**SMALL, "training.epochs": 100_000})
    assert time.monotonic() - began < 3.0 * 1.1 + 3  # the graph and the last validation under load


def test_the_test_split_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = [], Graph.asked

    def spy(self: Graph, split: Any) -> Any:
        asked.append(split)
        return real(self, split)

    monkeypatch.setattr(Graph, "asked", spy)
    sweep_within(0.02, tmp_path / "one", settings=SMALL)
    assert "valid" in asked
    assert "test" not in asked


@pytest.mark.usefixtures("ticks")
def test_several_models_are_searched(tmp_path: Path) -> None:
    found = sweep_within(0.25, tmp_path / "two", models=["complex", "distmult"], settings=SMALL)
    assert {row["values"]["model.name"] for row in found.rows} == {"complex", "distmult"}


@pytest.mark.usefixtures("ticks")
def test_a_failing_trial_does_not_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = plain_attempt, []

    def attempt(*given: Any, **more: Any) -> str:
        calls.append(1)
        return "the loss became nan" if len(calls) == 2 else real(*given, **more)

    monkeypatch.setattr(rounds, "attempt", attempt)
    found = sweep_within(0.2, tmp_path / "bad", settings=SMALL)
    assert [row["failure"] for row in found.rows if row["state"] == "failed"] == ["the loss became nan"]


# -- stop and continue --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ticks")
def test_a_stopped_sweep_goes_on_and_can_be_made_longer(tmp_path: Path) -> None:
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 100

    with pytest.raises(Interrupted, match="dura sweep --resume"):
        sweep_within(0.2, tmp_path / "sweep", settings=SMALL, stopped=stopped)
    before = Journal.open(tmp_path / "sweep")
    assert 0 < before.spent < 6
    found = continue_within(tmp_path / "sweep")
    after = Journal.open(tmp_path / "sweep")
    assert [entry.values for entry in after.trials[: len(before.trials)]] == [entry.values for entry in before.trials]
    assert after.spent >= 0.5 * before.minutes * 60
    longer = continue_within(tmp_path / "sweep", 0.4)
    assert len(longer.rows) > len(found.rows)
    assert longer.best["valid_mrr"] >= found.best["valid_mrr"]


def test_another_graph_a_damaged_journal_and_a_taken_folder_are_refused(found: Found, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="already holds a sweep"):
        sweep_within(1, found.path, settings=SMALL)
    (tmp_path / "search.json").write_text('{"format": 1, "minutes": 3}')
    with pytest.raises(BadInput, match="is damaged"):
        continue_within(tmp_path)
    (tmp_path / "search.json").write_text('{"format": 7}')
    with pytest.raises(BadInput, match="newer dura"):
        continue_within(tmp_path)
    document = json.loads((found.path / "search.json").read_text())
    (tmp_path / "search.json").write_text(json.dumps({**document, "digest": "other"}))
    with pytest.raises(BadInput, match="the graph has changed"):
        continue_within(tmp_path)
    with pytest.raises(BadInput, match="above 0"):
        Clock(0)
    with pytest.raises(BadInput, match="least squares"):
        sweep_within(1, tmp_path / "als", settings={**SMALL, "optimizer.name": "als"})


# -- from any folder ----------------------------------------------------------------------------------------------------


def facts(path: Path) -> None:
    graph = dura.load("nations")
    entities, relations = list(graph.entities), list(graph.relations)
    lines = [f"{entities[h]}\t{relations[r]}\t{entities[t]}" for h, r, t in graph.train.tolist()]
    path.write_text("\n".join(lines))


def test_the_best_settings_work_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    facts(home / "facts.tsv")
    monkeypatch.chdir(home)
    arguments = ["--graph", "facts.tsv", "--minutes", "0.03", "--set", "model.rank=4", "--set", "training.epochs=3"]
    done = CliRunner().invoke(app, ["sweep", *arguments, "--json", "-q"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["sweep"] == "sweeps/facts-1"
    assert told["choices"]
    monkeypatch.chdir(other)
    for name, given in (("a", home / "sweeps" / "facts-1"), ("b", home / "sweeps" / "facts-1" / "best.toml")):
        done = CliRunner().invoke(app, ["train", str(given), "--out", name, "--json", "-q"], catch_exceptions=False)
        assert done.exit_code == 0
    scores = [best_epoch(RunFolder.open(other / name).records()) for name in ("a", "b")]
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0]["valid"] == scores[1]["valid"]
    assert scores[0]["valid"]["mrr"] == pytest.approx(told["best"]["valid_mrr"], abs=0.2)
    done = CliRunner().invoke(app, ["sweep", "--resume", "../home/sweeps/facts-1", "-q"], catch_exceptions=False)
    assert done.exit_code == 0


def test_a_sweep_of_a_file_keeps_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts(tmp_path / "facts.tsv")
    (tmp_path / "mine.toml").write_text(
        '[graph]\nsource = "./facts.tsv"\n[model]\nname = "complex"\nrank = 3\n[training]\nepochs = 1\n'
        '[sweep]\nmethod = "grid"\n[sweep.space]\n"training.seed" = [0, 1]\n'
    )
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["sweep", "mine.toml", "--out", "mine", "-q"], catch_exceptions=False)
    best = tomllib.loads((tmp_path / "mine" / "best.toml").read_text())
    assert best["graph"]["source"] == str(tmp_path / "facts.tsv")
    assert preset(str(tmp_path / "mine")).graph.source == str(tmp_path / "facts.tsv")


def test_a_graph_from_memory_is_stored_with_the_sweep(tmp_path: Path) -> None:
    said: list[str] = []
    found = dura.sweep(
        dura.load("nations"), minutes=0.02, out=tmp_path / "sweep", settings={"model.rank": 4}, progress=said.append
    )
    assert preset(str(found.path)).graph.source == str(tmp_path / "sweep" / "graph")
    assert dura.load(found.path / "graph").digest == dura.load("nations").digest
    assert any("valid MRR" in sentence for sentence in said)
    assert outcome(found.path).best == found.best
    with pytest.raises(BadInput, match="sweep takes a graph"):
        dura.sweep("nations", minutes=1, out=tmp_path / "no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--graph", "nations", "mine.toml"], "takes no file"),
        (["--graph", "nations", "--jobs", "2"], "takes no --jobs"),
        (["mine.toml", "--minutes", "3"], "--minutes goes with --graph"),
        (["--minutes", "3"], "--minutes goes with --graph"),
        (["--graph", "nations", "--minutes", "-1"], "above 0"),
        (["--graph", "nations", "--model", "complx"], "did you mean 'complex'"),
        (["--resume", "nowhere", "--minutes", "3"], "there is no sweep in nowhere"),
    ],
)
def test_wrong_options_are_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["sweep", *arguments])
    assert isinstance(done.exception, BadInput)
    assert sentence in str(done.exception)
    assert not (tmp_path / "sweeps").exists()
