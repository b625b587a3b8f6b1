"""Sweep: train the trials of a search, in one process or several, and say what came out.

Only validation is ever looked at; the test split is left for the end. A trial is a run like any other, in DIR/runs/trial-N.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.data.graph import Graph
from dura.records import RunFolder, write_atomic
from dura.runs.run import resume as resume_run
from dura.runs.run import train
from dura.runs.store import load_graph, read_settings
from dura.sweeps.space import Sweep
from dura.sweeps.trials import Row, SweepFolder, best_epoch, check_free
from dura.training.trainer import Interrupted, Progress
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from optuna import Trial

Notify = Callable[[Row, int, int], None]
"""Told of each finished trial, with how many are finished and how many there will be."""


@dataclass(frozen=True)
class Outcome:
    """What a sweep found: its trials, the best whole ones first, and each setting's share in their variance."""

    path: Path
    plan: Sweep
    rows: list[Row]
    importance: dict[str, float]

    @property
    def best(self) -> Row:
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
    """Make the trials of a sweep in a new folder, `jobs` at a time.

    >>> from dura.runs.presets import preset
    >>> plan = Sweep(preset("umls/complex-dura"), {"regularizer.weight": [0.003, 0.01, 0.03]}, method="grid")
    >>> sweep(plan, Path("sweeps/umls")).best["values"]  # doctest: +SKIP
    {'regularizer.weight': 0.01}
    """
    _check_extra()
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
    """Go on with a sweep that was stopped or whose process died, or make it one of more `trials`, or of another `keep`."""
    _check_extra()
    folder = SweepFolder.open(path)
    if (plan := folder.plan.changed(trials=trials, keep=keep)) != folder.plan:
        folder.change(plan)
    if folder.done() >= folder.plan.budget:
        return outcome(path)
    graph = _graph(folder.plan)
    folder.plan.check(graph.sizes)
    return _make(folder, graph, jobs, notify, stopped)


def outcome(path: Path) -> Outcome:
    """What a sweep has found so far; the best settings are written as a preset, DIR/best.toml."""
    _check_extra()
    folder = SweepFolder.open(path)
    found = Outcome(path, folder.plan, folder.rows(), folder.importance())
    if not found.rows or found.best["state"] != "complete":
        why = next((f": {row['failure']}" for row in found.rows if row["failure"]), "")
        raise DuraError(f"no trial of the sweep {path} ran to its end{why}")
    _write_best(found)
    return found


def _check_extra() -> None:
    """Ask for what is needed at the end too before the work, not after it."""
    if missing := [name for name in ("optuna", "sklearn", "matplotlib") if find_spec(name) is None]:
        raise DuraError(
            f"sweeps need {' and '.join(missing)}; install what is missing with: pip install 'dura-kge[studies]'"
        )


def _graph(plan: Sweep) -> Graph:
    if not plan.experiment.graph.source:
        raise BadInput("which graph? give the sweep's file a preset or a table [graph] with a source")
    graph = load_graph(plan.experiment.graph)
    if not len(graph.valid):
        raise BadInput(f"a sweep judges by the valid split, and the graph {graph.name!r} has no facts in it")
    return graph


def _write_best(found: Outcome) -> None:
    """The settings of the best trial as a preset, with the figure it reached and where that comes from."""
    best = found.best
    source = (
        f"sweep {found.path.name}: trial {best['trial']}, the best by valid MRR of {len(found.rows)}; "
        "the test split was not looked at"
    )
    known = {"valid_mrr": round(best["valid_mrr"], 4), "best_epoch": best["best_epoch"], "source": source}
    expected = {key: value for key, value in known.items() if value is not None}
    folder = RunFolder(Path(best["run"]))
    there = (folder.path / "run.json").exists()  # else its settings are those that the sweep chose
    settings = read_settings(folder) if there else found.plan.experiment_of(best["values"])
    settings = replace(settings, expected=expected)
    write_atomic(found.path / "best.toml", settings.to_toml().encode())


# -- one process or several -------------------------------------------------------------------------------------------


def _make(folder: SweepFolder, graph: Graph, jobs: int, notify: Notify, stopped: Callable[[], bool]) -> Outcome:
    folder.check_graph(graph.digest)
    jobs = min(jobs, folder.plan.budget - folder.done())

    def tell(row: Row) -> None:
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


def _work(folder: SweepFolder, graph: Graph, tell: Callable[[Row], None], stopped: Callable[[], bool]) -> None:
    """Take trials and train them until there are none left."""
    while not stopped():
        with folder.take() as trial:
            if trial is None:
                return
            state, failure = _train(folder, trial, graph, stopped)
            tell(folder.tell(trial, state, failure))


def _together(folder: SweepFolder, jobs: int, tell: Callable[[Row], None], stopped: Callable[[], bool]) -> None:
    """Workers in processes of their own, each with a pipe: rows and errors come out of it, a word into it asks to stop."""
    import torch

    context = mp.get_context("spawn")
    threads = max(1, torch.get_num_threads() // jobs)
    workers: dict[Connection, SpawnProcess] = {}
    for _ in range(jobs):
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(folder.path, threads, theirs), daemon=True)
        process.start()
        theirs.close()
        workers[ours] = process
    errors: list[DuraError] = []
    lost, asked = 0, False
    while workers:
        if (stopped() or errors) and not asked:
            asked = True
            for pipe in workers:
                _send(pipe, "stop")
        for pipe in [p for p in wait(list(workers), timeout=0.2) if isinstance(p, Connection)]:
            try:
                said: Any = pipe.recv()
            except (EOFError, OSError):
                process = workers.pop(pipe)
                process.join()
                lost += process.exitcode != 0
                continue
            errors.append(said) if isinstance(said, DuraError) else tell(said)
    if errors:
        raise errors[0]
    if folder.done() < folder.plan.budget and lost and not stopped():
        raise DuraError(
            f"{lost} of {jobs} processes of the sweep were killed, perhaps for want of memory; "
            f"continue with fewer --jobs: dura sweep --resume {folder.path}"
        )


def _worker(path: Path, threads: int, pipe: Connection) -> None:
    """What a process of its own does; it stops when asked to, and when the process that started it is gone."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent hands it on
    torch.set_num_threads(threads)
    try:
        folder = SweepFolder.open(path)
        with folder.database():
            _work(folder, _graph(folder.plan), lambda row: _send(pipe, row), pipe.poll)
    except Interrupted:
        pass
    except DuraError as error:
        _send(pipe, error)


def _send(pipe: Connection, what: object) -> None:
    """Say something to whoever is at the other end, if anyone still is."""
    try:
        pipe.send(what)
    except OSError:
        return


# -- one trial --------------------------------------------------------------------------------------------------------


class _Pruned(Exception):
    """The trial is not worth going on with."""


class _Reporter:
    """Tells the study the valid MRR of each epoch, and ends a trial that is behind the others."""

    def __init__(self, trial: Trial, epochs: int) -> None:
        self.trial, self.epochs = trial, epochs
        self.reported = set(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """A resumed run goes over some epochs again: those are known."""
        if "valid" not in record or record["epoch"] in self.reported:
            return
        self.trial.report(record["valid"]["mrr"], record["epoch"])
        if record["epoch"] < self.epochs and self.trial.should_prune():  # after the last there is nothing to save
            raise _Pruned(
                f"pruned after epoch {record['epoch']}: its valid MRR is below the median of the other trials"
            )

    def notice(self, sentence: str) -> None:
        """Stands in the run's records."""


def _train(folder: SweepFolder, trial: Trial, graph: Graph, stopped: Callable[[], bool]) -> tuple[str, str]:
    """Train the trial's run, from where it stopped if it was begun; returns how it ended and, if it failed, why."""
    path, experiment = folder.run(trial.number), folder.plan.experiment_of(trial.params)
    listeners = (_Reporter(trial, experiment.training.epochs),)
    try:
        if (path / "run.json").exists():
            resume_run(path, listeners=listeners, stopped=stopped)
        else:
            train(experiment, graph, path, listeners=listeners, stopped=stopped)
    except _Pruned as why:
        RunFolder(path).append({"kind": "notice", "text": str(why)})
        return "pruned", ""
    except Interrupted:
        raise
    except DuraError as error:
        if isinstance(error.__cause__, OSError):  # a full disk is no fault of this trial
            raise
        return "failed", str(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return "failed", "there was not enough memory"
    if best_epoch(path)[0] is None:
        return "failed", "no epoch was validated"
    return "complete", ""
