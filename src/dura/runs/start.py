"""Start: what a user chose becomes settings, a graph and a trained model.

`dura.fit`, `dura train` and `dura demo` all call `start_run`; `dura train --resume` calls `resume_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.config import Experiment, GraphSettings
from dura.data.graph import Graph
from dura.data.readers import ColumnChoice, ReadOptions
from dura.records import RunFolder, best_epoch, curve
from dura.runs.presets import preset as read_preset
from dura.runs.store import load_dated, read_settings
from dura.runs.trained import Trained
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.runs.trackers import Tracker
    from dura.training.trainer import Listener

Stopping = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""Entered while a model is trained; gives a function that says whether training should stop."""
_BY_TIMES = ("model", "regularizer", "smoothness")
"""The tables whose defaults depend on whether facts have times."""


class Choices:
    """What a user chose, on top of a preset or the defaults; None is "not chosen". Each choice is applied once.

    `start` holds every choice that means the same for all graphs, so a wrong one is refused before a graph is read.
    `experiment` adds the choices of model, regularizer and smoothness: facts with times have other defaults for these.
    """

    def __init__(
        self,
        preset: str | None = None,
        *,
        graph: str | None = None,
        model: str | None = None,
        rank: int | None = None,
        regularizer: str | None = None,
        epochs: int | None = None,
        batch: int | str | None = None,
        lr: float | None = None,
        seed: int | None = None,
        device: str | None = None,
        columns: ColumnChoice | None = None,
        skip_bad: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "model.name": model,
            "regularizer.name": regularizer,
            "graph.source": graph,
            "graph.columns": ReadOptions(columns).chosen,
            "graph.skip_bad": skip_bad,
            "model.rank": rank,
            "training.epochs": epochs,
            "training.batch": batch,
            "optimizer.lr": lr,
            "training.seed": seed,
            "training.device": device,
            **(settings or {}),
        }
        chosen = {path: value for path, value in given.items() if value is not None}
        self._late = {path: value for path, value in chosen.items() if path.partition(".")[0] in _BY_TIMES}
        self._base = read_preset(preset) if preset else None
        early = {path: value for path, value in chosen.items() if path not in self._late}
        self.start = (self._base or Experiment()).with_values(early)

    def experiment(self, *, dated: bool, graph: GraphSettings | None = None) -> Experiment:
        """All settings; `dated` says whether facts have times, `graph` takes the place of the chosen graph settings."""
        experiment = self.start if graph is None else replace(self.start, graph=graph)
        if dated and self._base is None:
            default = Experiment.of_dated_facts()
            experiment = replace(experiment, **{table: getattr(default, table) for table in _BY_TIMES})
        experiment = experiment.with_values({**self._same_rank(experiment), **self._late})
        # What a preset should reach holds for the preset as it is.
        return experiment if experiment == self._base else replace(experiment, expected={})

    def _same_rank(self, experiment: Experiment) -> dict[str, Any]:
        """Another model keeps the rank of the one it replaces, if it has a rank at all."""
        name, rank = self._late.get("model.name"), experiment.model.options.get("rank")
        if name is None or name == experiment.model.name or rank is None:
            return {}
        from dura.models import MODELS

        return {"model.rank": rank} if "rank" in MODELS.options(name) else {}


def choose(preset: str | None, *, dated: bool = False, **chosen: Any) -> Experiment:
    """The settings that these choices make; `chosen` are those of `Choices`.

    >>> choose("umls/complex-dura", rank=50).model.options["rank"]
    50
    """
    return Choices(preset, **chosen).experiment(dated=dated)


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
) -> Trained:
    """Read the graph that the choices name, unless there is one already, and train a model on it.

    `time` names the column of times, or the columns of begin and end. `out` is the run folder to make, or a function that names
    one for GRAPH-MODEL-REGULARIZER; without it the run stays in memory. `notify` is called with what is worth knowing about the
    graph's files.
    """
    from dura.runs.trackers import open_trackers, run_name

    trackers = open_trackers(track)
    if graph is None:
        if not choices.start.graph.source:
            ways = "give a preset, or --graph with a catalog name, a folder or a file; e.g. --graph umls"
            raise BadInput(f"which graph? {ways}")
        graph, settings = load_dated(choices.start.graph, time, notify)
        experiment = choices.experiment(dated=graph.times is not None, graph=settings)
    else:
        experiment = choices.experiment(dated=graph.times is not None).with_value("graph.source", graph.name)
    from dura.runs.run import train

    folder = out(run_name(graph.name, experiment)) if callable(out) else out
    with _listening(experiment, graph.name, graph.name, folder, progress, trackers, stopping) as (listeners, stopped):
        return train(experiment, graph, folder, listeners=listeners, stopped=stopped)


def resume_run(
    path: Path,
    *,
    progress: bool = True,
    track: str | Sequence[str | Tracker] = (),
    stopping: Stopping = never_stop,
) -> Trained:
    """Continue a run that was stopped, with its own settings."""
    from dura.runs.run import resume
    from dura.runs.trackers import open_trackers

    folder, trackers = RunFolder.open(path), open_trackers(track)
    experiment, graph = read_settings(folder), str(folder.about()["graph"]["name"])
    with _listening(experiment, path.name, graph, path, progress, trackers, stopping) as (listeners, stopped):
        return resume(path, listeners=listeners, stopped=stopped)


@contextmanager
def _listening(
    experiment: Experiment,
    title: str,
    graph: str,
    folder: Path | None,
    progress: bool,
    trackers: Mapping[str, Tracker],
    stopping: Stopping,
) -> Iterator[tuple[tuple[Listener, ...], Callable[[], bool]]]:
    """What hears of a run: the display and the trackers; and what may stop it."""
    from dura.runs.trackers import tracking
    from dura.training.display import display

    with (
        stopping() as stopped,
        display(experiment, title, quiet=not progress) as shown,
        tracking(trackers, experiment, graph, folder, shown.notice) as tracked,
    ):
        yield (shown, *tracked), stopped


def summary(trained: Trained) -> dict[str, Any]:
    """How the training of a run went, from its records, as plain values."""
    assert trained.path is not None
    records = RunFolder.open(trained.path).records()
    epochs, best = curve(records), best_epoch(records)
    return {
        "run": str(trained.path),
        "graph": trained.graph.name,
        "epochs": len(epochs),
        "best_epoch": best["epoch"] if best else None,
        "valid": best["valid"] if best else None,
        "seconds": epochs[-1]["seconds"] if epochs else 0.0,
    }
