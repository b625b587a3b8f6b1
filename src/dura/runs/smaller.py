"""Smaller: export a run and measure what that saves and costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.records import RunFolder
from dura.runs.calibrations import again, carry
from dura.runs.export import bytes_of, export, zeros
from dura.runs.trained import Trained, open_run
from dura.tables.packed import NumberType
from dura.types import Split

if TYPE_CHECKING:
    from dura.evaluation import Result


def export_run(
    trained: Trained,
    path: Path,
    *,
    sparse: float | None = None,
    dtype: NumberType = "float32",
    notify: Callable[[str], None] | None = None,
) -> Path:
    """Write a copy of a run. If its tables are the same, it keeps the calibration. `notify` is told if it has to be made again."""
    folder = export(
        trained.model, trained.graph, trained.experiment, path, source=trained.path, sparse=sparse, dtype=dtype
    )
    if sparse is None and dtype == "float32":
        carry(trained, folder.path)
    if notify is not None and (sentence := again(trained, folder.path)):
        notify(sentence)
    return folder.path


def export_and_measure(
    trained: Trained,
    path: Path,
    *,
    sparse: float | None = None,
    dtype: NumberType = "float32",
    splits: Sequence[Split] = ("valid",),
    progress: Callable[[int, int], None] | None = None,
    notify: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Export a run, then measure how much smaller it is and how much its metrics change.

    Returns plain values: the bytes of the tables and of the folder, and the metrics on each split that has facts, all before and
    after. They are also added to the records of the exported run. `notify` is told if the copy has to be calibrated again.
    """
    export_run(trained, path, sparse=sparse, dtype=dtype, notify=notify)
    folder = RunFolder.open(path)
    exported = open_run(path)
    splits = [split for split in splits if len(trained.graph.facts(split))]
    report = {
        "sparse": sparse,
        "dtype": folder.records()[0].get("dtype", dtype),
        "threshold": folder.records()[0].get("threshold"),
        "zeros": None if sparse is None else zeros(exported.model),
        "bytes": {
            "tables": {"before": bytes_of(trained.model), "after": _size(path / "checkpoints", "best-*")},
            "folder": {"before": _size(trained.path, "**/*"), "after": _size(path, "**/*")},
        },
        "figures": {
            split: {
                "before": _metrics(trained.evaluate(split, progress=progress)),
                "after": _metrics(exported.evaluate(split, progress=progress)),
            }
            for split in splits
        },
    }
    folder.append({"kind": "measured", "run": str(trained.path), **report})
    return report


def _metrics(result: Result) -> dict[str, float]:
    return {"mrr": result.mrr, **{f"hits@{k}": share for k, share in result.hits.items()}}


def _size(folder: Path | None, pattern: str) -> int | None:
    """The bytes of the matching files in a folder. None if the model has no folder."""
    return None if folder is None else sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file())
