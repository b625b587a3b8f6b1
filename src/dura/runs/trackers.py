"""Trackers: send the metrics of each epoch to TensorBoard, MLflow or your own tracker.

A tracker gets the run's records: after a resume it gets each epoch that it does not have yet, once and in order. A tracker that
fails never ends training: it is switched off with a notice.
"""

from __future__ import annotations

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.records import RunFolder, curve
from dura.registry import Registry, Value
from dura.runs.build import complete
from dura.runs.store import read_settings
from dura.training.progress import Listener, Progress
from dura.types import DuraError, __version__

INSTALL = "install it with: pip install 'dura-kge[tracking]'"


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker knows about the run before the first epoch."""

    name: str
    graph: str
    experiment: Experiment
    folder: Path | None
    """None if the run stays in memory."""

    @property
    def settings(self) -> dict[str, Value]:
        """Every setting by its path, such as "model.rank"; lists become text."""
        paths = self.experiment.by_path().items()
        return {path: ", ".join(map(str, value)) if isinstance(value, tuple) else value for path, value in paths}


class Tracker(ABC):
    """Receives the curves of a run. Write `epoch`, and the other methods if you need them.

    The constructor of a tracker that is known by name takes no arguments; it reads what it needs from the environment.
    """

    def begin(self, run: TrackedRun) -> int:  # noqa: ARG002
        """Called before the first epoch of a start or a resume. Returns the last epoch that the tracker has, or 0."""
        return 0

    @abstractmethod
    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Called after each epoch: loss, penalty, facts_per_second, seconds; after a validation also valid/mrr, valid/hits_10, …"""

    def end(self, finished: bool) -> None:  # noqa: B027
        """Called at the end. `finished` is false if training was stopped or failed."""


class TensorBoard(Tracker):
    """Event files in RUN/tensorboard. For a run in memory they are in TensorBoard's default folder."""

    def __init__(self) -> None:
        try:
            import torch.utils.tensorboard
        except ImportError:
            raise DuraError(f"the tracker 'tensorboard' needs the package tensorboard; {INSTALL}") from None
        self.make = torch.utils.tensorboard.SummaryWriter
        self.writer: Any = None  # a SummaryWriter, whose file_writer torch declares as None

    def begin(self, run: TrackedRun) -> int:
        """Start a file of events. It replaces the earlier ones, and all epochs are written again."""
        from torch.utils.tensorboard.summary import hparams

        where = None if run.folder is None else str(run.folder / "tensorboard")
        self.writer = self.make(where, purge_step=0)
        self.writer.add_text("settings", f"```toml\n{run.experiment.to_toml()}```", 0)
        head, start, _ = hparams(run.settings, {"valid/mrr": 0.0})
        for summary in (head, start):
            self.writer.file_writer.add_summary(summary)
        return 0

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def end(self, finished: bool) -> None:  # noqa: ARG002
        """Close the file."""
        if self.writer is not None:
            self.writer.close()


class MLflow(Tracker):
    """A run of MLflow, in the store that MLFLOW_TRACKING_URI names, or in MLflow's default. A resume continues the same run."""

    def __init__(self) -> None:
        # dura uses the network only on request, but MLflow would report how it is used.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            from mlflow import MlflowClient, get_tracking_uri
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise DuraError(f"the tracker 'mlflow' needs the package mlflow-skinny or mlflow; {INSTALL}") from None
        try:
            _check_sqlite(get_tracking_uri())
            self.client = MlflowClient()
        except (ImportError, MlflowException, OSError, sqlite3.Error) as error:
            hint = "set MLFLOW_TRACKING_URI to a store that can be used here, or leave the tracker out"
            raise DuraError(f"the tracker 'mlflow' cannot open its store ({_line(error)}); {hint}") from None
        self.missing: type[Exception] = MlflowException
        self.id = ""

    def begin(self, run: TrackedRun) -> int:
        """Find the MLflow run of an earlier start, or make one with the settings as parameters."""
        self.id = self._earlier(run)
        if self.id:
            self.client.update_run(self.id, status="RUNNING")
            return max((point.step for point in self.client.get_metric_history(self.id, "loss")), default=0)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or f"dura-{run.graph}"
        found = self.client.get_experiment_by_name(name)
        place = found.experiment_id if found is not None else self.client.create_experiment(name)
        self.id = self.client.create_run(place, run_name=run.name, tags={"dura": __version__}).info.run_id
        if run.folder is not None:
            RunFolder(run.folder).append({"kind": "tracker", "name": "mlflow", "id": self.id})
        from mlflow.entities import Param

        self.client.log_batch(self.id, params=[Param(key, str(value)) for key, value in run.settings.items()])
        return 0

    def _earlier(self, run: TrackedRun) -> str:
        """The id in the run's records if this store knows it, or else an empty text."""
        records = [] if run.folder is None else RunFolder(run.folder).records()
        known = [str(r["id"]) for r in records if r.get("kind") == "tracker" and r.get("name") == "mlflow"]
        if not known:
            return ""
        try:
            return str(self.client.get_run(known[-1]).info.run_id)
        except self.missing as error:
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise
            return ""

    def epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Write one point per metric."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.id, metrics=[Metric(name, value, now, epoch) for name, value in metrics.items()])

    def end(self, finished: bool) -> None:
        """Record how training ended."""
        if self.id:
            self.client.set_terminated(self.id, status="FINISHED" if finished else "KILLED")


TRACKERS: Registry[Tracker] = Registry(
    "tracker", "dura.trackers", {"tensorboard": TensorBoard, "mlflow": MLflow}, Tracker
)


class Guard:
    """The listener around one tracker. It passes on the records, and switches the tracker off if it fails."""

    def __init__(self, name: str, tracker: Tracker, run: TrackedRun, say: Callable[[str], None]) -> None:
        self.name, self.tracker, self.run, self.say = name, tracker, run, say
        self.on = True
        self.told: int | None = None
        """The last epoch that the tracker has; None before its `begin`."""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Steps are not tracked."""

    def notice(self, sentence: str) -> None:
        """Notices are in the records."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Pass on an epoch, after the earlier ones that the tracker does not have."""
        self._try(lambda: self._catch_up([*self._past(record["epoch"]), record]))

    def end(self, finished: bool) -> None:
        """End tracking. If the run was already finished, all its epochs are passed on now."""
        if finished and self.told is None and self.run.folder is not None:
            self._try(self._late)
        if self.told is not None:
            self._try(lambda: self.tracker.end(finished))

    def _late(self) -> None:
        """Pass on a run that had no epoch left to train. The folder is no longer locked by the trainer."""
        assert self.run.folder is not None
        with RunFolder(self.run.folder).lock():
            self._catch_up(self._past())

    def _past(self, before: int | None = None) -> list[dict[str, Any]]:
        """The run's epochs before this one; empty if the tracker has begun, because it already has them."""
        if self.told is not None or self.run.folder is None:
            return []
        records = curve(RunFolder(self.run.folder).records())
        return [record for record in records if before is None or record["epoch"] < before]

    def _catch_up(self, records: Sequence[dict[str, Any]]) -> None:
        if self.told is None:
            self.told = self.tracker.begin(_as_written(self.run))
        for record in records:
            if record["epoch"] > self.told:
                self.tracker.epoch(record["epoch"], tracked(record))
                self.told = record["epoch"]

    def _try(self, act: Callable[[], None]) -> None:
        if not self.on:
            return
        try:
            act()
        except Exception as error:  # noqa: BLE001 - no error of a tracker may end training
            self.on = False
            sentence = f"the tracker {self.name!r} failed and is off from now on: {_line(error)}"
            self.say(sentence)
            if self.run.folder is not None:
                with suppress(DuraError):
                    RunFolder(self.run.folder).append({"kind": "notice", "text": sentence})


def _as_written(run: TrackedRun) -> TrackedRun:
    """The run with the settings in its folder. They are complete, and an automatic batch has become a number."""
    folder = run.folder
    experiment = complete(run.experiment) if folder is None else read_settings(RunFolder(folder))
    return TrackedRun(run.name, run.graph, experiment, folder)


def tracked(record: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of an epoch's record, under names that every tracker accepts. Numbers that are not finite are left out.

    >>> tracked({"epoch": 1, "loss": 2.5, "penalty": None, "valid": {"mrr": 0.5, "hits@10": 0.75}, "best": True})
    {'loss': 2.5, 'valid/mrr': 0.5, 'valid/hits_10': 0.75}
    """
    plain = {key: record.get(key) for key in ("loss", "penalty", "facts_per_second", "seconds")}
    valid = {f"valid/{key.replace('@', '_')}": value for key, value in record.get("valid", {}).items()}
    return {key: float(value) for key, value in {**plain, **valid}.items() if value is not None}


def open_trackers(track: str | Sequence[str | Tracker]) -> dict[str, Tracker]:
    """The trackers by name. An unknown name or a missing package is an error before training begins."""
    opened: dict[str, Tracker] = {}
    for wanted in [track] if isinstance(track, str) else track:
        if isinstance(wanted, str):
            opened[wanted] = TRACKERS.build(wanted, {})
        else:
            opened[type(wanted).__name__] = wanted
    return opened


def run_name(graph: str, experiment: Experiment) -> str:
    """The default name of a run: GRAPH-MODEL-REGULARIZER."""
    return f"{graph}-{experiment.model.name}-{experiment.regularizer.name}"


@contextmanager
def tracking(
    trackers: Mapping[str, Tracker],
    experiment: Experiment,
    graph: str,
    folder: Path | None,
    say: Callable[[str], None],
) -> Iterator[tuple[Listener, ...]]:
    """The listeners that pass a run on to the trackers. `say` is called with a notice if a tracker fails.

    >>> with tracking(open_trackers(["tensorboard"]), experiment, "umls", out, print) as listeners:  # doctest: +SKIP
    ...     train(experiment, graph, out, listeners=listeners)
    """
    name = run_name(graph, experiment) if folder is None else folder.resolve().name
    run = TrackedRun(name, graph, experiment, folder)
    guards = [Guard(kind, tracker, run, say) for kind, tracker in trackers.items()]
    finished = False
    try:
        yield tuple(guards)
        finished = True
    finally:
        for guard in guards:
            guard.end(finished)


def _line(error: Exception) -> str:
    """The error of another program in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _check_sqlite(uri: str) -> None:
    """Try to write to a local database first: MLflow itself would retry for minutes."""
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    if uri.startswith("sqlite:///") and path not in ("", ":memory:"):
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
