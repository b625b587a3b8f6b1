"""Sweep: train the trials of a search, in this process or with several workers, and return what was found.

Trials are compared by validation only; the test split is not used. A trial is a run like any other, in DIR/runs/trial-N.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.data.graph import Graph
from dura.data.loading import load_graph
from dura.records import RunFolder, best_epoch, write_atomic
from dura.runs.store import read_settings
from dura.runs.workers import Call, Crew, Limits
from dura.sweeps.attempt import attempt
from dura.sweeps.space import Sweep
from dura.sweeps.trials import SweepFolder, TrialRow, check_free
from dura.training.progress import Interrupted, Progress
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from optuna import Trial

Notify = Callable[[TrialRow, int, int], None]
"""Called with each finished trial, the number of finished trials, and the number of all trials."""


@dataclass(frozen=True)
class Outcome:
    """What a sweep found: its trials, complete ones first and best to worst, and each setting's share in their variance."""

    path: Path
    plan: Sweep
    rows: list[TrialRow]
    importance: dict[str, float]
    choices: tuple[str, ...] = ()
    """A sweep with a file chooses nothing by itself."""

    @property
    def title(self) -> str:
        """What its table is called."""
        return f"Sweep {self.path.name} by {self.plan.method}, {len(self.rows)} trials"

    @property
    def best(self) -> TrialRow:
        """The trial with the best valid MRR."""
        return self.rows[0]


def sweep(
    plan: Sweep,
    out: Path,
    *,
    jobs: int = 1,
    notify: Notify = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run the trials of a sweep in a new folder, `jobs` at a time.

    >>> from dura.runs.presets import preset
    >>> plan = Sweep(preset("umls/complex-dura"), {"regularizer.weight": [0.003, 0.01, 0.03]}, method="grid")
    >>> sweep(plan, Path("sweeps/umls")).best["values"]  # doctest: +SKIP
    {'regularizer.weight': 0.01}
    """
    check_extra()
    check_free(out)
    graph = _graph(plan)
    plan.check(graph.sizes)
    return _make(SweepFolder.create(out, plan), graph, jobs, notify, stopped)


def resume(
    path: Path,
    *,
    trials: int | None = None,
    keep: int | None = None,
    jobs: int = 1,
    notify: Notify = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Continue a sweep that was stopped or whose process died; `trials` and `keep` change its plan."""
    check_extra()
    folder = SweepFolder.open(path)
    if (plan := folder.plan.changed(trials=trials, keep=keep)) != folder.plan:
        folder.change(plan)
    if folder.done() >= folder.plan.budget:
        return outcome(path)
    graph = _graph(folder.plan)
    folder.plan.check(graph.sizes)
    return _make(folder, graph, jobs, notify, stopped)


def outcome(path: Path) -> Outcome:
    """What a sweep has found so far; writes the best settings as a preset, DIR/best.toml."""
    check_extra()
    folder = SweepFolder.open(path)
    found = Outcome(path, folder.plan, folder.rows(), folder.importance())
    if not found.rows or found.best["state"] != "complete":
        why = next((f": {row['failure']}" for row in found.rows if row["failure"]), "")
        raise DuraError(f"no trial of the sweep {path} is complete{why}")
    _write_best(found)
    return found


def check_extra() -> None:
    """Check before the work for every package that is needed, also for those that are needed at its end."""
    if missing := [name for name in ("optuna", "sklearn", "matplotlib") if find_spec(name) is None]:
        raise DuraError(
            f"sweeps need {' and '.join(missing)}; install what is missing with: pip install 'dura-kge[studies]'"
        )


def _graph(plan: Sweep) -> Graph:
    if not plan.experiment.graph.source:
        raise BadInput("which graph? add a preset, or a table [graph] with a source, to the sweep's file")
    graph = load_graph(plan.experiment.graph)
    if not len(graph.valid):
        raise BadInput(f"a sweep compares trials on the valid split, but the graph {graph.name!r} has no valid facts")
    return graph


def _write_best(found: Outcome) -> None:
    """Write the settings of the best trial as a preset, with the valid MRR it reached and where that comes from."""
    top = found.best
    source = (
        f"sweep {found.path.name}: trial {top['trial']}, the best of {len(found.rows)} by valid MRR; "
        "the test split was not used"
    )
    known = {"valid_mrr": round(top["valid_mrr"], 4), "best_epoch": top["best_epoch"], "source": source}
    expected = {key: value for key, value in known.items() if value is not None}
    folder = RunFolder(Path(top["run"]))
    there = (folder.path / "run.json").exists()  # if it was deleted, the settings are those that the sweep chose
    settings = read_settings(folder) if there else found.plan.experiment_of(top["values"])
    settings = replace(settings, expected=expected)
    write_atomic(found.path / "best.toml", settings.to_toml().encode())


# -- in this process, or with workers ---------------------------------------------------------------------------------


def _make(folder: SweepFolder, graph: Graph, jobs: int, notify: Notify, stopped: Callable[[], bool]) -> Outcome:
    folder.check_graph(graph.digest)
    jobs = min(jobs, folder.plan.budget - folder.done())

    def tell(row: TrialRow) -> None:
        notify(row, folder.done(), folder.plan.budget)

    try:
        with folder.database():
            if jobs > 1:
                _together(folder, jobs, tell, stopped)
            else:
                _work(folder, graph, tell, stopped)
    except Interrupted:
        pass
    if stopped() and folder.done() < folder.plan.budget:
        finished = f"{folder.done()} of {folder.plan.budget} trials finished"
        raise Interrupted(f"the sweep was stopped with {finished}; continue with: dura sweep --resume {folder.path}")
    return outcome(folder.path)


def _work(folder: SweepFolder, graph: Graph, tell: Callable[[TrialRow], None], stopped: Callable[[], bool]) -> None:
    """Take trials and train them until none is left."""
    while not stopped():
        with folder.take() as trial:
            if trial is None:
                return
            state, failure = _train(folder, trial, graph, stopped)
            tell(folder.finish(trial, state, failure))


def _together(folder: SweepFolder, jobs: int, tell: Callable[[TrialRow], None], stopped: Callable[[], bool]) -> None:
    """Let workers take trials until none is left; an error of one of them ends all."""
    import torch

    failures: list[str] = []
    killed, stopping = 0, False
    with Crew(Limits(jobs, max(1, torch.get_num_threads() // jobs))) as crew:
        for number in range(jobs):
            name = f"worker-{number}"
            call = Call(work_on, {"sweep": str(folder.path)})
            crew.start(name, call, folder.path / "logs" / f"{name}.log", heard=tell)
        while crew.running:
            stopping = stopping or stopped()
            if stopping or failures:
                crew.stop()
            for ended in crew.wait():
                killed += ended.killed
                if ended.failure and not ended.killed and not (stopping and ended.interrupted):
                    failures.append(ended.failure)
    if failures:
        raise DuraError(failures[0])
    if folder.done() < folder.plan.budget and killed and not stopping:
        raise DuraError(
            f"{killed} of {jobs} workers of the sweep were killed (memory may have run out); "
            f"continue with fewer --jobs: dura sweep --resume {folder.path}"
        )


def work_on(sweep: str, *, stopped: Callable[[], bool], tell: Callable[[TrialRow], None]) -> None:
    """What a worker of a sweep does: take trials and train them; it tells each one that has ended."""

    def ended(row: TrialRow) -> None:
        print(f"trial {row['trial']}: {row['state']} {row['failure'] or ''}".rstrip())  # noqa: T201 (its log)
        tell(row)

    folder = SweepFolder.open(Path(sweep))
    with folder.database():
        with suppress(Interrupted):  # of a trial's run; its sentence would name the run and not the sweep
            _work(folder, _graph(folder.plan), ended, stopped)
        if stopped() and folder.done() < folder.plan.budget:
            raise Interrupted(f"a worker of the sweep was stopped; continue with: dura sweep --resume {sweep}")


# -- one trial --------------------------------------------------------------------------------------------------------


class _Pruned(Exception):
    """The trial is not worth continuing."""


class _Reporter:
    """Reports the valid MRR of each epoch to Optuna, and ends a trial that is behind the others."""

    def __init__(self, trial: Trial, epochs: int) -> None:
        self.trial, self.epochs = trial, epochs
        self.reported = set(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Report the epoch, unless it is known: a resumed run repeats some epochs."""
        if "valid" not in record or record["epoch"] in self.reported:
            return
        self.trial.report(record["valid"]["mrr"], record["epoch"])
        if record["epoch"] < self.epochs and self.trial.should_prune():  # after the last one, nothing is saved by it
            raise _Pruned(
                f"pruned after epoch {record['epoch']}: its valid MRR is below the median of the other trials"
            )

    def notice(self, sentence: str) -> None:
        """Nothing: it is in the run's records."""


def _train(folder: SweepFolder, trial: Trial, graph: Graph, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Train the trial's run, or continue it; returns how it ended and, if it failed, why."""
    path, experiment = folder.run(trial.number), folder.plan.experiment_of(trial.params)
    listeners = (_Reporter(trial, experiment.training.epochs),)
    try:
        failure = attempt(experiment, path, graph, listeners=listeners, stopped=stopped)
    except _Pruned as why:
        RunFolder(path).append({"kind": "notice", "text": str(why)})
        return "pruned", ""
    if failure:
        return "failed", failure
    if best_epoch(RunFolder(path).records()) is None:
        return "failed", "no epoch was validated"
    return "complete", ""
