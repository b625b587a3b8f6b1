"""Sweeps on small graphs: what they find, prune, keep, survive and refuse; for signals see tests/cli."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from dura.data.graph import Graph
from dura.data.loading import load_graph
from dura.records import RunFolder, best_epoch, curve
from dura.runs.api import choose
from dura.runs.presets import preset
from dura.runs.run import train
from dura.runs.workers import Crew, Ended
from dura.sweeps import sweep as sweeping
from dura.sweeps.space import Sweep
from dura.sweeps.sweep import Outcome, outcome, resume, sweep
from dura.sweeps.trials import SweepFolder
from dura.training.trainer import Interrupted
from dura.types import BadInput, DuraError

WEIGHTS: dict[str, Any] = {"regularizer.weight": [0.001, 0.01, 3.0]}
TPE: dict[str, Any] = {
    "regularizer.weight": {"low": 0.001, "high": 0.1, "log": True},
    "model.rank": {"low": 2, "high": 6, "step": 2},
}


def plan(space: dict[str, Any] = WEIGHTS, method: Any = "grid", **more: Any) -> Sweep:
    chosen = {"model.rank": 4, "training.epochs": 3, "training.batch": 250, "training.validate_every": 1}
    chosen["training.checkpoint_every"] = 0
    return Sweep(choose("nations/complex-dura", settings=chosen), space, method, **more)


def after(calls: int) -> Callable[[], bool]:
    """Asked between steps: stop after so many."""
    left = [calls]

    def stopped() -> bool:
        left[0] -= 1
        return left[0] < 0

    return stopped


def figures(found: Outcome) -> list[tuple[Any, ...]]:
    """All but the time it took."""
    return [
        (r["trial"], r["state"], r["valid_mrr"], r["best_epoch"], r["epochs"], *r["values"].items()) for r in found.rows
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return sweep(plan(prune=False), tmp_path_factory.mktemp("sweeps") / "grid")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A TPE search of one process that was left in peace."""
    return sweep(plan(TPE, "tpe", trials=5), tmp_path_factory.mktemp("sweeps") / "tpe")


# -- what comes out -----------------------------------------------------------------------------------------------------


def test_a_trial_is_the_run_that_its_settings_mean(found: Outcome, tmp_path: Path) -> None:
    alone = plan().experiment_of(found.best["values"])
    train(alone, load_graph(alone.graph), tmp_path / "alone")
    top = best_epoch(RunFolder(tmp_path / "alone").records())
    assert top is not None
    assert (found.best["valid_mrr"], found.best["best_epoch"]) == (top["valid"]["mrr"], top["epoch"])
    trial, plain = (curve(RunFolder.open(Path(p)).records()) for p in (found.best["run"], tmp_path / "alone"))
    assert [e["valid"] for e in trial] == [e["valid"] for e in plain]


def test_the_best_comes_first_and_becomes_a_preset(found: Outcome) -> None:
    mrrs = [row["valid_mrr"] for row in found.rows]
    assert mrrs == sorted(mrrs, reverse=True)
    assert sorted(row["values"]["regularizer.weight"] for row in found.rows) == WEIGHTS["regularizer.weight"]
    assert found.rows[-1]["values"] == {"regularizer.weight": 3.0}  # collapses
    chosen = preset(str(found.path / "best.toml"))
    assert chosen.regularizer.options["weight"] == found.best["values"]["regularizer.weight"]
    assert chosen.expected["valid_mrr"] == round(found.best["valid_mrr"], 4)
    assert "the test split was not used" in chosen.expected["source"]


def test_only_the_best_tables_are_kept_but_all_settings_and_records(found: Outcome, tmp_path: Path) -> None:
    def kept(outcome: Outcome) -> list[int]:
        return [row["trial"] for row in outcome.rows if any((Path(row["run"]) / "checkpoints").iterdir())]

    assert kept(found) == [found.best["trial"]]
    assert all((Path(row["run"]) / "settings.toml").exists() and row["epochs"] == 3 for row in found.rows)
    two = sweep(plan(prune=False, keep=2), tmp_path / "two")
    assert kept(two) == [row["trial"] for row in two.rows[:2]]
    everything = sweep(plan({"model.rank": [2, 3, 4]}, prune=False, keep=0, trials=2), tmp_path / "all")
    assert kept(everything) == [row["trial"] for row in everything.rows]
    longer = resume(tmp_path / "all", trials=3)  # what is kept is the sweep's own, not the command's
    assert kept(longer) == [row["trial"] for row in longer.rows]
    assert len(longer.rows) == 3


def test_the_test_split_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    real = Graph.asked

    def spy(graph: Graph, split: Any) -> Any:
        asked.add(split)
        return real(graph, split)

    monkeypatch.setattr(Graph, "asked", spy)
    sweep(plan({"model.rank": [2, 3]}), tmp_path / "sweep")
    assert asked == {"train", "valid"}


def test_trials_behind_the_median_are_pruned(tmp_path: Path) -> None:
    space = {"regularizer.weight": [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 3.0, 4.0, 5.0, 6.0]}
    pruned = [r for r in sweep(plan(space, seed=2), tmp_path / "sweep").rows if r["state"] == "pruned"]
    assert pruned
    assert all(row["epochs"] < 3 for row in pruned)
    assert {row["values"]["regularizer.weight"] for row in pruned} >= {3.0, 4.0, 5.0, 6.0} - _first(
        plan(space, seed=2), 5
    )
    said = RunFolder.open(Path(pruned[0]["run"])).records()[-1]
    assert said["kind"] == "notice"
    assert "below the median" in said["text"]


def test_a_trial_at_its_last_epoch_is_whole(tmp_path: Path) -> None:
    """Nothing is saved by throwing it away, and its figure is as good as the others'."""
    space = {"regularizer.weight": [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 3.0, 4.0]}
    short = plan(space, seed=2)
    short = replace(short, experiment=short.experiment.with_value("training.epochs", 2))
    rows = sweep(short, tmp_path / "sweep").rows
    assert [row["epochs"] for row in rows if row["state"] == "complete"] == [2] * 8


def _first(mine: Sweep, number: int) -> set[Any]:
    return {point["regularizer.weight"] for point in mine.points()[:number]}


def test_importance_finds_what_matters(tmp_path: Path) -> None:
    space = {"regularizer.weight": [0.001, 3.0], "training.seed": [0, 1, 2]}
    importance = sweep(plan(space, prune=False), tmp_path / "sweep").importance
    assert list(importance) == ["regularizer.weight", "training.seed"]
    assert sum(importance.values()) == pytest.approx(1)
    assert importance["regularizer.weight"] > 0.9


def test_a_trial_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    found = sweep(plan({"optimizer.lr": [0.1, 1e30]}), tmp_path / "sweep")
    assert [row["state"] for row in found.rows] == ["complete", "failed"]
    assert "train again with a smaller learning rate" in found.rows[1]["failure"]
    with pytest.raises(DuraError, match="is complete: the loss became"):
        sweep(plan({"optimizer.lr": [1e30, 2e30]}), tmp_path / "none")


# -- stopped, killed, continued -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [2, 27])
def test_stopped_and_resumed_is_as_if_never_stopped(searched: Outcome, tmp_path: Path, steps: int) -> None:
    with pytest.raises(Interrupted, match="continue with: dura sweep --resume"):
        sweep(plan(TPE, "tpe", trials=5), tmp_path / "sweep", stopped=after(steps))
    assert figures(resume(tmp_path / "sweep")) == figures(searched)


def test_trials_of_dead_processes_are_taken_up(searched: Outcome, tmp_path: Path) -> None:
    """A process can die between any two writes: after a trial was made, and after it was queued."""
    mine = plan(TPE, "tpe", trials=5)
    folder = SweepFolder.create(tmp_path / "sweep", mine)
    with folder.take() as trial:
        assert trial is not None
        run = folder.run(trial.number)
        train(mine.experiment_of(trial.params), load_graph(mine.experiment.graph), run)  # all done but telling
        with folder.take() as other:  # this one is held, so the next is a new one
            assert other is not None
            assert other.number == 1
    done = resume(tmp_path / "sweep")
    assert figures(done) == figures(searched)
    grid = SweepFolder.create(tmp_path / "grid", plan(prune=False))
    grid.history.enqueue_trial(grid.plan.points()[0])
    assert [row["state"] for row in resume(tmp_path / "grid").rows] == ["complete"] * 3


def test_a_sweep_can_be_made_longer(searched: Outcome, tmp_path: Path) -> None:
    sweep(plan(TPE, "tpe", trials=2), tmp_path / "sweep")
    assert figures(resume(tmp_path / "sweep", trials=5)) == figures(searched)
    assert SweepFolder.open(tmp_path / "sweep").plan.trials == 5


def test_a_finished_sweep_stays_what_it_is(found: Outcome) -> None:
    assert figures(resume(found.path)) == figures(found) == figures(outcome(found.path))


def test_what_is_stored_is_optuna_s_own_study(found: Outcome) -> None:
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{found.path / 'sweep.sqlite'}")
    assert study.best_value == found.best["valid_mrr"]
    assert [len(trial.intermediate_values) for trial in study.trials] == [3, 3, 3]


# -- several workers ----------------------------------------------------------------------------------------------------


def test_workers_find_what_one_process_finds(found: Outcome, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    both = sweep(plan(prune=False), tmp_path / "both", jobs=2, notify=lambda row, *n: seen.append((row["trial"], *n)))
    assert figures(both) == figures(found)
    assert sorted(trial for trial, *_ in seen) == [0, 1, 2] and {total for *_, total in seen} == {3}
    logged = "".join(path.read_text() for path in (tmp_path / "both" / "logs").iterdir())
    assert sorted(logged.splitlines()) == [f"trial {n}: complete" for n in range(3)]


class Killing(Crew):
    """A crew of which some workers are killed, as by the system when memory runs out, once a trial has begun."""

    victims: tuple[str, ...] = ()
    runs = Path()

    def wait(self, seconds: float = 0.05) -> list[Ended]:
        begun = [run for run in self.runs.glob("*/records.jsonl") if b"epoch" in run.read_bytes()]
        for name in self.victims if len(begun) >= len(self.victims) else ():
            if name in self._workers:
                self._workers[name].process.kill()
        return super().wait(seconds)


@pytest.fixture
def killing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Killing]:
    monkeypatch.setattr(Killing, "runs", tmp_path / "sweep" / "runs")
    monkeypatch.setattr(sweeping, "Crew", Killing)
    return Killing


def test_a_killed_worker_costs_no_trial(found: Outcome, tmp_path: Path, killing: type[Killing]) -> None:
    killing.victims = ("worker-0",)  # the other one takes up its trial
    assert figures(sweep(plan(prune=False), tmp_path / "sweep", jobs=2)) == figures(found)


def test_if_all_workers_are_killed_the_sentence_says_how_to_go_on(tmp_path: Path, killing: type[Killing]) -> None:
    killing.victims = ("worker-0", "worker-1")
    endless = plan(prune=False).experiment.with_values({"training.epochs": 10**6, "training.patience": 0})
    with pytest.raises(
        DuraError, match=r"2 of 2 workers of the sweep were killed .*; continue with fewer --jobs: dura s"
    ):
        sweep(replace(plan(prune=False), experiment=endless), tmp_path / "sweep", jobs=2)
    assert [row["state"] for row in SweepFolder.open(tmp_path / "sweep").rows()] == ["running", "running"]


def test_an_error_of_one_worker_ends_all(tmp_path: Path) -> None:
    folder = SweepFolder.create(tmp_path / "sweep", plan(prune=False))
    (folder.path / "runs").rmdir()
    (folder.path / "runs").write_text("no folder")  # nothing can be written: not the fault of a trial
    with pytest.raises(DuraError, match="cannot write trial-. in the folder .*runs: Not a directory"):
        resume(folder.path, jobs=2)


# -- refusals -----------------------------------------------------------------------------------------------------------


def test_folders_that_will_not_do(found: Outcome, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="already holds a sweep; continue it with --resume"):
        sweep(plan(), found.path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")
    with pytest.raises(BadInput, match="is not an empty folder"):
        sweep(plan(), tmp_path / "letters")
    with pytest.raises(BadInput, match="there is no sweep in"):
        resume(tmp_path / "letters")


def test_a_graph_without_valid_facts_or_a_changed_one(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{i}\tr\ta{(i + 1) % 30}\n" for i in range(30)))
    own = {"model.rank": 2, "training.epochs": 1}
    mine = Sweep(choose(None, graph=str(facts), settings=own), {"optimizer.lr": [0.1, 0.2]}, "grid")
    with pytest.raises(BadInput, match="compares trials on the valid split, but the graph 'facts' has no valid facts"):
        sweep(mine.fixed({"graph.valid_share": "0"}), tmp_path / "none")
    with pytest.raises(Interrupted):
        sweep(mine, tmp_path / "sweep", stopped=after(0))
    facts.write_text("".join(f"a{i}\tr\ta{(i + 2) % 30}\n" for i in range(30)))
    with pytest.raises(BadInput, match="the graph has changed since the sweep"):
        resume(tmp_path / "sweep")


def test_a_damaged_database_is_one_sentence(tmp_path: Path) -> None:
    folder = SweepFolder.create(tmp_path / "sweep", plan())
    (folder.path / "sweep.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(DuraError, match="sweep.sqlite cannot be used: file is not a database"):
        resume(folder.path)
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(folder.path / "sweep.sqlite").execute("select 1 from trials")


def test_a_database_that_fails_in_the_middle_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk; what was trained is not lost."""

    def full(*_: object, **__: object) -> None:
        try:
            raise sqlite3.OperationalError("database or disk is full")
        except sqlite3.OperationalError as error:
            raise optuna.exceptions.StorageInternalError("An exception is raised during the commit.") from error

    with monkeypatch.context() as patch:
        patch.setattr(optuna.Trial, "report", full)
        with pytest.raises(
            DuraError, match=r"cannot be used: database or disk is full; fix that and continue with: dura sw"
        ):
            sweep(plan(prune=False), tmp_path / "sweep")
    assert resume(tmp_path / "sweep").rows[0]["state"] == "complete"


def test_a_run_that_is_gone_stays_the_best(tmp_path: Path) -> None:
    first = sweep(plan(prune=False), tmp_path / "sweep")
    shutil.rmtree(first.best["run"])
    again = resume(tmp_path / "sweep")
    assert (again.best["trial"], again.best["valid_mrr"]) == (first.best["trial"], first.best["valid_mrr"])
    chosen = preset(str(tmp_path / "sweep" / "best.toml"))
    assert chosen.expected["valid_mrr"] == round(first.best["valid_mrr"], 4)
    assert chosen.regularizer.options["weight"] == first.best["values"]["regularizer.weight"]


def test_a_missing_extra_is_told_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "find_spec", lambda name: None if name == "optuna" else object())
    with pytest.raises(DuraError, match=r"sweeps need optuna; .* pip install 'dura-kge\[studies\]'"):
        sweep(plan(), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()
