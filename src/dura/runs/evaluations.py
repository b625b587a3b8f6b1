"""Evaluations: rank the facts of a run and keep the result in the run's records, where reports find it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dura import world
from dura.records import RunFolder
from dura.runs.trained import open_run
from dura.training.checkpoint import Checkpoints
from dura.types import DuraError, Filter, Split

if TYPE_CHECKING:
    from dura.evaluation import Group, Result


def evaluate_run(
    path: Path,
    split: Split = "test",
    by: Group | Sequence[Group] | None = None,
    *,
    filter: Filter = "time-aware",  # noqa: A002
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Result:
    """Open a run, rank the facts of a split, and append the result to the run's records.

    The options are those of `Trained.evaluate`. `notify` is called with a sentence if the result could not be kept, or
    if the filter changes nothing.
    """
    world.join(device=device)
    trained = world.together(lambda: open_run(path, device))
    if filter == "static" and trained.graph.times is None:
        notify("the facts of this graph have no times, so the static filter is the same as the usual one")
    result = trained.evaluate(split, by, filter=filter, progress=progress)
    if world.leads() and (unkept := keep(path, result)):
        notify(unkept)
    return result


def keep(path: Path, result: Result) -> str:
    """Append a result to the records of its run. Returns why it could not be kept; empty if it was kept.

    It is not an error if the folder is read-only or in use: every run that can be read can be evaluated.
    """
    folder = RunFolder.open(path)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with folder.lock():
            folder.append({"kind": "evaluation", "at": now, "epoch": _epoch(path), **result.to_dict()})
    except DuraError as error:
        cause = error.__cause__
        why = cause.strerror or str(cause) if isinstance(cause, OSError) else str(error)
        return f"the result is not kept in the records of {path}: {why}"
    return ""


def _epoch(path: Path) -> int | None:
    """The epoch of the tables that `open_run` reads. None if a saved model does not have it."""
    checkpoints = Checkpoints(path / "checkpoints")
    best = checkpoints.best()
    if best is not None:
        return best[1].get("epoch")
    newest = checkpoints.newest()
    return None if newest is None else newest[1]["progress"]["epoch"]
