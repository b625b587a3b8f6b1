"""The table and the figure of the study of sparsity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dura.reports.plots import curves, figure, legend_below, save
from dura.reports.tables import Sheet

Rows = Sequence[Mapping[str, Any]]
DIGITS = {"share": 2, "zeros": 3, "threshold": 5, "csr saved %": 1, "csc saved %": 1}
NOTES = (
    "share: of the entities' entries to make zero; zeros: what came out; threshold: λ, entries with |x| < λ are zero.",
    "dense, csr, csc: bytes of the entities' tables with float32 entries and the smallest type that holds an index.",
)


def sheet(rows: Rows, split: str) -> Sheet:
    """The table: one line a run and share."""
    return Sheet(f"λ-sparsity of the entities' embeddings, {split} facts", rows, NOTES, DIGITS)


def draw(rows: Rows, split: str, path: Path) -> Path:
    """The figure: MRR against the share of zeros, and how much of its own MRR each run keeps; one curve a run."""
    names, common = _names(rows)
    lines: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names.values()}
    for row in rows:
        lines[names[row["run"]]].append(row)
    zeros = {name: [100 * row["zeros"] for row in line] for name, line in lines.items()}
    mrr = {name: [row["mrr"] for row in line] for name, line in lines.items()}
    kept = {name: [100 * value / values[0] if values[0] else 0.0 for value in values] for name, values in mrr.items()}
    with figure(1, 2) as (drawn, axes):
        panes = ((axes[0, 0], mrr, f"{split} MRR"), (axes[0, 1], kept, "MRR kept, %"))
        for pane, heights, title in panes:
            curves(pane, {name: (zeros[name], heights[name]) for name in lines}, x="entries that are zero, %", y=title)
            pane.set_ylim(bottom=0)
        legend_below(drawn, *axes[0])
        if common:
            drawn.suptitle(common)
        return save(drawn, path)


def _names(rows: Rows) -> tuple[dict[str, str], str]:
    """How each run is called in the figure (by what tells them apart, else by their folders), and what they have in common."""
    runs = {row["run"]: row for row in rows}
    keys = ("graph", "model", "regularizer")
    apart = [key for key in keys if len({row[key] for row in runs.values()}) > 1]
    common = " ".join(rows[0][key] for key in keys if key not in apart)
    short = {run: " ".join(row[key] for key in apart) for run, row in runs.items()}
    return (short if len(set(short.values())) == len(runs) else {run: run for run in runs}), common
