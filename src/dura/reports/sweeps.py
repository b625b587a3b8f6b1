"""Sweeps: the trials of a search as a sheet and as figures, from plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.sheets.figures import COLOURS, GREY, figure, legend_above, panels, save
from dura.sheets.settings import called, decimals, scale
from dura.sheets.sheet import Plain, Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TrialRow = Mapping[str, Any]
"""A trial: trial, state, valid_mrr, best_epoch, epochs, seconds, failure, and the varied settings as `values` by path."""


def summary(rows: Sequence[TrialRow], title: str, notes: Sequence[str] = ()) -> Sheet:
    """All trials, best first."""
    paths = list(rows[0]["values"]) if rows else []
    lines: list[dict[str, Plain]] = [
        {
            "trial": row["trial"],
            "valid MRR": row["valid_mrr"],
            **{path: row["values"][path] for path in paths},
            "epochs": row["epochs"],
            "best epoch": row["best_epoch"],
            "seconds": float(row["seconds"]),
            "state": row["state"],
        }
        for row in rows
    ]
    digits = {path: decimals([row["values"][path] for row in rows]) for path in paths}
    failures = [f"Trial {row['trial']} failed: {row['failure']}." for row in rows if row["failure"]]
    return Sheet(title, lines, [*notes, *failures], {**digits, "seconds": 1})


def draw_history(rows: Sequence[TrialRow], path: Path) -> Path:
    """Valid MRR of each trial in the order in which they were started, and the best so far."""
    ordered = sorted((row for row in rows if row["valid_mrr"] is not None), key=lambda row: row["trial"])
    with figure(width=6.0) as (drawn, axes):
        panel = axes[0][0]
        numbers = [row["trial"] for row in ordered]
        _dots(panel, numbers, ordered)
        complete = [row["valid_mrr"] if row["state"] == "complete" else -math.inf for row in ordered]
        best = [max(complete[: i + 1]) for i in range(len(complete))]
        panel.step(
            numbers, [b if b > 0 else math.nan for b in best], where="post", color=COLOURS[1], label="best so far"
        )
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_xlabel("trial")
        panel.set_ylabel("valid MRR")
        legend_above(drawn, [panel])
        return save(drawn, path)


def draw_importance(importance: Mapping[str, float], path: Path) -> Path:
    """The share of each setting in the variance of valid MRR, the largest on top."""
    names, shares = [called(name) for name in importance][::-1], list(importance.values())[::-1]
    with figure(width=6.0, height=0.9 + 0.4 * len(names)) as (drawn, axes):
        panel = axes[0][0]
        panel.barh(names, shares, height=0.6, color=COLOURS[0])
        for i, share in enumerate(shares):
            panel.text(share + 0.01, i, f"{share:.2f}", va="center")
        panel.set_xlim(0, max(shares) * 1.12)
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("share of the variance of valid MRR (fANOVA)")
        return save(drawn, path)


def draw_slices(rows: Sequence[TrialRow], path: Path) -> Path:
    """Valid MRR against each varied setting, one panel per setting."""
    shown = [row for row in rows if row["valid_mrr"] is not None]
    paths = list(rows[0]["values"])
    with panels(len(paths)) as (drawn, places):
        for panel, setting in zip(places, paths, strict=True):
            _dots(panel, scale(panel, [row["values"][setting] for row in shown]), shown)
            panel.set_xlabel(called(setting))
            panel.set_ylabel("valid MRR")
        legend_above(drawn, places[:1])
        return save(drawn, path)


def _dots(panel: Axes, at: Sequence[float], rows: Sequence[TrialRow]) -> None:
    """Complete trials as full dots, pruned ones hollow and grey, failed or unfinished ones as squares."""
    other = "failed or unfinished"
    styles = {
        "complete": ("o", COLOURS[0], COLOURS[0]),
        "pruned": ("o", "none", GREY),
        other: ("s", "none", GREY),
    }
    for label, (marker, face, edge) in styles.items():
        chosen = [
            (x, row["valid_mrr"])
            for x, row in zip(at, rows, strict=True)
            if (row["state"] if row["state"] in styles else other) == label
        ]
        if chosen:
            xs, ys = zip(*chosen, strict=True)
            panel.scatter(xs, ys, s=28, marker=marker, facecolors=face, edgecolors=edge, label=label, zorder=3)
