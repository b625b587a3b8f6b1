"""Run: read a graph, train a model on it, keep it in a run folder, and continue a run that was stopped.

`dura.fit`, `dura train` and `dura demo` call `start_run`; `dura train --resume` calls `resume_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.loading import load_dated, reviewed
from dura.data.readers import ColumnChoice
from dura.models import restore
from dura.records import RunFolder, best_epoch, curve
from dura.runs.auto import settle, settle_precision
from dura.runs.build import Parts, complete, torch_settings
from dura.runs.choices import Choices
from dura.runs.fitting import Clock, fitted
from dura.runs.processes import agree_on, fitting, folder_of, interrupted, job_of, join_for, refuse_auto
from dura.runs.store import check_checkpoints, read_graph, read_settings, write_graph
from dura.runs.texts import encode_ahead
from dura.runs.trackers import Tracker, open_trackers, run_name, tracking
from dura.runs.trained import Trained, open_run
from dura.runs.training import Start, best_mrr, built, tell, trainer_of
from dura.tables.table import flushing
from dura.training.checkpoint import Checkpoints
from dura.training.display import display
from dura.training.progress import Interrupted, Listener, Progress
from dura.training.trainer import Trainer
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    pass

Stopping = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""Entered while a model is trained; gives a function that says whether training should stop."""

MOST_TEXT = 1000
"""At most this many characters of a failure are recorded: torch may add a page about its allocator."""


@contextmanager
def never_stop() -> Iterator[Callable[[], bool]]:
    """Train to the end."""
    yield lambda: False


def start_run(
    graph: Graph | None,
    choices: Choices,
    *,
    time: int | ColumnChoice | None = None,
    out: Path | Callable[[str], Path] | None = None,
    progress: bool = True,
    track: str | Sequence[str | Tracker] = (),
    notify: Callable[[str], None] | None = None,
    stopping: Stopping = never_stop,
    minutes: float | None = None,
) -> Trained:
    """Read the graph that the choices name, unless there is one already, and train a model on it.

    `time` names the column of times, or the columns of begin and end. `out` is the run folder to make, or a function that names
    one for GRAPH-MODEL-REGULARIZER; without it the run stays in memory. `notify` is called with what is worth knowing about the
    graph's files and the choice of settings. `minutes` is how long all of it may take.
    """
    trackers = open_trackers(track if world.leads() else ())
    join_for(choices.start)
    clock, job = world.together(lambda: Clock(minutes)), job_of(choices)
    if again := interrupted(out, job):
        return resume_run(again, progress=progress, track=track, stopping=stopping)
    graph, experiment = world.together(lambda: _prepared(graph, choices, time, notify))
    folder = world.together(lambda: folder_of(out, run_name(graph.name, experiment)))
    if folder is not None:
        world.by_leader(lambda: RunFolder.check_free(folder))
    say = notify if notify is not None and world.leads() else lambda _: None
    with stopping() as stopped:
        tried = partial(best_mrr, stopped=stopped)
        experiment, said = world.together(lambda: fitted(experiment, graph, choices, clock, tried, say))
        with _listening(experiment, graph.name, graph.name, folder, progress, trackers) as listeners:
            tell(listeners if progress and world.leads() else (), *said)
            return train(experiment, graph, folder, listeners=listeners, stopped=stopped, job=job, said=said)


def _prepared(
    graph: Graph | None,
    choices: Choices,
    time: int | ColumnChoice | None,
    notify: Callable[[str], None] | None,
) -> tuple[Graph, Experiment]:
    """The graph that the choices name, unless there is one already, and all settings."""
    if graph is not None:
        graph = reviewed(graph, choices.start.graph.reviews, notify)
        return graph, choices.experiment(dated=graph.times is not None).with_value("graph.source", graph.name)
    if not choices.start.graph.source:
        ways = "give a preset, or --graph with a catalog name, a folder or a file; e.g. --graph umls"
        raise BadInput(f"which graph? {ways}")
    graph, settings = load_dated(choices.start.graph, time, notify if world.leads() else None)
    return graph, choices.experiment(dated=graph.times is not None, graph=settings)


def resume_run(
    path: Path,
    *,
    progress: bool = True,
    track: str | Sequence[str | Tracker] = (),
    stopping: Stopping = never_stop,
) -> Trained:
    """Continue a run that was stopped, with its own settings."""
    folder, trackers = RunFolder.open(path), open_trackers(track if world.leads() else ())
    if folder.combined:
        raise BadInput(f"{path} is a combination of runs, which is not trained; continue one of its members")
    experiment, graph = read_settings(folder), str(folder.about()["graph"]["name"])
    join_for(fitting(experiment))
    with stopping() as stopped, _listening(experiment, path.name, graph, path, progress, trackers) as listeners:
        return resume(path, listeners=listeners, stopped=stopped)


@contextmanager
def _listening(
    experiment: Experiment,
    title: str,
    graph: str,
    folder: Path | None,
    progress: bool,
    trackers: Mapping[str, Tracker],
) -> Iterator[tuple[Listener, ...]]:
    """The listeners of a run: the display and the trackers."""
    with (
        display(experiment, title, quiet=not progress) as shown,
        tracking(trackers, experiment, graph, folder, shown.notice) as tracked,
    ):
        yield (shown, *tracked)


def summary(trained: Trained) -> dict[str, Any]:
    """How the training of a run went, from its records, as plain values."""
    assert trained.path is not None
    records = RunFolder.open(trained.path).records()
    epochs, best = curve(records), best_epoch(records)
    kept = next(
        (o.state.get("epoch") for o in Checkpoints(trained.path / "checkpoints").outlines() if "best" in o.path.name),
        None,
    )
    if best is not None and kept not in (None, best["epoch"]):  # the best tables were lost, and others took their place
        best = next((record for record in epochs if record["epoch"] == kept and "valid" in record), None)
    return {
        "run": str(trained.path),
        "graph": trained.graph.name,
        "epochs": len(epochs),
        "best_epoch": best["epoch"] if best else None,
        "valid": best["valid"] if best else None,
        "seconds": epochs[-1]["seconds"] if epochs else 0.0,
    }


@flushing()
def train(
    experiment: Experiment,
    graph: Graph,
    out: Path | None = None,
    *,
    listeners: tuple[Listener, ...] = (),
    stopped: Callable[[], bool] = lambda: False,
    job: str = "",
    said: Sequence[str] = (),
) -> Trained:
    """Train on the graph: with `out` in a run folder that can be resumed, without it in memory.

    `job`, and what was `said` about the choice of settings, are kept in its records.
    """
    experiment, said = complete(experiment), list(said)
    join_for(experiment)
    tell(listeners, *experiment.training.remarks())
    experiment, measured = _settled(experiment, graph, listeners)
    said += measured
    agree_on(experiment, graph)
    started = Start(experiment, graph, listeners, stopped)
    if out is None:
        return _in_memory(started, built(started))
    # The parts belong to these functions alone, so that the tables are gone when the run is opened.
    _into(out, started, built(started), "; ".join(said), job)
    return world.together(lambda: open_run(out, experiment.training.device))


def _settled(experiment: Experiment, graph: Graph, listeners: tuple[Listener, ...]) -> tuple[Experiment, list[str]]:
    """Measure what is "auto", and tell and return what was found."""
    said = []
    if experiment.training.precision == "auto":
        world.together(partial(refuse_auto, "training.precision", "one (--set training.precision=float32)"))
        experiment, measured = settle_precision(experiment, graph.sizes)
        said.append(measured)
    if experiment.training.batch == "auto":
        world.together(partial(refuse_auto, "training.batch", "a number (--batch)"))
        encode_ahead(experiment, graph, partial(tell, listeners))
        experiment, measured = settle(experiment, graph)
        said.append(measured)
    tell(listeners, *said)
    return experiment, said


def _in_memory(start: Start, parts: Parts) -> Trained:
    """Train a run that is not kept."""
    trainer = trainer_of(start, parts, None)
    with torch_settings(start.experiment, parts.model):
        trainer.run()
    if trainer.best_state:
        restore(parts.model, trainer.best_state)
    return Trained(parts.model, start.graph, start.experiment)


def _into(out: Path, start: Start, parts: Parts, said: str, job: str) -> None:
    """Train a new run in a folder."""
    world.by_leader(lambda: RunFolder.create(out))
    folder = RunFolder(out)
    with ExitStack() as stack:
        world.by_leader(lambda: stack.enter_context(folder.lock()))
        stack.enter_context(torch_settings(start.experiment, parts.model))
        world.by_leader(lambda: _begin(folder, start.experiment, start.graph, said, job))
        stack.enter_context(_failing(folder))
        _finish(world.together(lambda: trainer_of(start, parts, folder)), folder)


def _begin(folder: RunFolder, experiment: Experiment, graph: Graph, said: str, job: str) -> None:
    """Write everything that a run folder holds before the first step."""
    folder.write_settings(experiment.to_toml())
    folder.append({"kind": "start"} | ({"auto": said} if said else {}) | ({"job": job} if job else {}))
    write_graph(folder, graph)


@flushing()
def resume(
    path: Path,
    *,
    listeners: tuple[Listener, ...] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> Trained:
    """Continue a stopped run, with the same steps as if it had never stopped."""
    folder = RunFolder.open(path)
    experiment = read_settings(folder)
    join_for(fitting(experiment))
    graph = world.together(lambda: read_graph(folder, trained=True))
    world.together(lambda: check_checkpoints(folder, experiment, graph.sizes))
    agree_on(experiment, graph)
    start = Start(experiment, graph, listeners, stopped)
    _go_on(folder, start, built(start))
    return world.together(lambda: open_run(path, experiment.training.device))


def _go_on(folder: RunFolder, start: Start, parts: Parts) -> None:
    """Train from where a run stopped."""
    with ExitStack() as stack:
        world.by_leader(lambda: stack.enter_context(folder.lock()))
        stack.enter_context(torch_settings(start.experiment, parts.model))
        stack.enter_context(_failing(folder))
        trainer = world.together(lambda: trainer_of(start, parts, folder))
        lost = world.together(lambda: _restore(trainer, folder))
        p = trainer.progress
        world.agree({"the newest checkpoint": f"epoch {p.epoch}, step {p.step}"})
        world.by_leader(lambda: folder.append({"kind": "resume", "epoch": p.epoch, "step": p.step}))
        if lost:
            trainer.notice("the best checkpoint is missing or damaged; the newest takes its place")
            trainer.renew_best()
        tell(start.listeners, _place(p, trainer.steps_in_epoch, start.experiment.training.epochs))
        _finish(trainer, folder)


def _restore(trainer: Trainer, folder: RunFolder) -> bool:
    """Bring the trainer to where the run stopped. A run without a checkpoint starts from the beginning.

    Returns whether the best checkpoint is lost.
    """
    checkpoints = Checkpoints(folder.path / "checkpoints")
    newest = checkpoints.newest(trainer.notice)
    if newest is not None:
        trainer.restore(*newest)
        return bool(trainer.progress.best_epoch and trainer.validate is not None and not checkpoints.best_is_whole())
    kinds = {record.get("kind") for record in folder.records()}
    if (folder.path / "checkpoints" / "best.json").exists() and ("start" not in kinds or "end" in kinds):
        raise BadInput(
            f"{folder.path} holds a trained model without the state of its training, so it cannot be continued"
        )
    trainer.notice("the run has no checkpoint yet, so it starts from the beginning")
    return False


def _finish(trainer: Trainer, folder: RunFolder) -> None:
    try:
        progress = trainer.run()
    except Interrupted as error:
        program = "dura" if world.size() == 1 else f"torchrun --nproc-per-node {world.size()} -m dura"
        raise Interrupted(f"{error}; continue with: {program} train --resume {folder.path}") from None
    end = {"kind": "end", "epoch": progress.epoch, "best_epoch": progress.best_epoch, "seconds": progress.seconds}
    world.by_leader(lambda: folder.append(end))


@contextmanager
def _failing(folder: RunFolder) -> Iterator[None]:
    """Record why training failed. A failure before the first checkpoint leaves a folder that may be used again."""
    try:
        yield
    except Interrupted:
        raise
    except world.Lost as error:
        raise world.Lost(f"{error}; {_afterwards(folder.path)}") from error
    except (DuraError, MemoryError, RuntimeError) as error:  # torch raises a RuntimeError if memory is short
        if world.leads():
            with suppress(DuraError):  # the disk may be full
                folder.append({"kind": "failure", "text": str(error)[:MOST_TEXT]})
        raise


def _afterwards(run: Path) -> str:
    """What can be done after another process was lost."""
    if not any((run / "checkpoints").glob("step-*.json")):
        return "the run has no checkpoint yet, so start the job again"
    again = f"start it again with --resume {run}, or let torchrun do it (--max-restarts)"
    return f"the last checkpoint is intact: {again}"


def _place(p: Progress, steps: int, epochs: int) -> str:
    """Where a run continues, in words."""
    if p.done or p.epoch >= epochs:
        return f"the run has ended after epoch {p.epoch}, so nothing is left to train"
    if p.step >= steps:  # it was stopped between the last step and the end of the epoch
        return f"the run continues with the end of epoch {p.epoch + 1} of {epochs}: all of its steps are done"
    return f"the run continues with step {p.step + 1} of {steps} in epoch {p.epoch + 1} of {epochs}"
