"""Evaluations: the result of ranking a run's facts, kept among the run's records for reports."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dura.records import RunFolder
from dura.training.checkpoint import Checkpoints
from dura.types import DuraError

if TYPE_CHECKING:
    from dura.evaluation import Result


def keep(path: Path, result: Result) -> str:
    """Append a result to the records of the run it is of; where that cannot be, say in a sentence why, else nothing.

    Whoever may read a run may evaluate it, so a folder that is read-only or in use is no error.
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
    """The epoch of the tables that `open_run` reads; None where a saved model does not say."""
    checkpoints = Checkpoints(path / "checkpoints")
    best = checkpoints.best()
    if best is not None:
        return best[1].get("epoch")
    newest = checkpoints.newest()
    return None if newest is None else newest[1]["progress"]["epoch"]
