"""The study of sparsity: runs into the rows of its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dura.analysis.sparsity import curve
from dura.runs.trained import open_run
from dura.types import Split

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def sparsity_rows(
    run: str | Path,
    shares: Sequence[float] = SHARES,
    split: Split = "test",
    progress: Callable[[int, int], None] | None = None,
    *,
    name: str = "",
) -> list[dict[str, Any]]:
    """One row for each share of the entities' entries made zero: what they are worth then and the bytes they need.

    `name` is what the rows call the run (by default its folder).

    >>> sparsity_rows("runs/fb-dura", [0.0, 0.7])[1]["mrr"]  # doctest: +SKIP
    """
    trained = open_run(run)
    e = trained.experiment
    about = {
        "run": name or Path(run).resolve().name,
        "graph": trained.graph.name,
        "model": e.model.name,
        "regularizer": e.regularizer.name,
    }
    return [
        {
            **about,
            "share": point.share,
            "zeros": point.zeros,
            "threshold": point.threshold,
            "mrr": point.metrics.mrr,
            "hits@10": point.metrics.hits[10],
            "dense": point.dense,
            "csr": point.csr,
            "csc": point.csc,
            "csr saved %": 100 * (1 - point.csr / point.dense),
            "csc saved %": 100 * (1 - point.csc / point.dense),
        }
        for point in curve(trained.model, shares, lambda: trained.evaluate(split).metrics, progress)
    ]
