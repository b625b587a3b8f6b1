"""Sweeps: the trials of a search as a sheet and as figures, from plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.reports.plots import COLOURS, figure, fitted, panels, save
from dura.reports.tables import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TrialRow = Mapping[str, Any]
"""A trial: trial, state, valid_mrr, best_epoch, epochs, seconds, failure, and the varied settings as `values` by path."""

SYMBOLS = {
    "regularizer.weight": "λ",
    **{f"regularizer.lambda{i}": f"λ{'₀₁₂₃₄'[i]}" for i in (1, 2, 3, 4)},
    "smoothness.weight": "smoothness",
    "model.rank": "rank",
    "training.batch": "batch",
    "optimizer.lr": "learning rate",
}
"""The symbols and short names of settings."""
GREY = "#999999"
ROOM = 0.12
"""If neighbouring values are at least this share of the axis apart, each has its own tick."""


def called(path: str) -> str:
    """A setting with its symbol, as the label of an axis.

    >>> called("regularizer.weight"), called("training.epochs")
    ('λ  (regularizer.weight)', 'training.epochs')
    """
    return f"{SYMBOLS[path]}  ({path})" if path in SYMBOLS else path


def decimals(values: Sequence[object]) -> int:
    """How many decimals these numbers need: enough to show them exactly, or three digits of the smallest if that is fewer.

    >>> decimals([0.5, 1.5]), decimals([0.003, 0.01]), decimals([0.0123456, 3.3])
    (1, 3, 4)
    """
    floats = [abs(value) for value in values if isinstance(value, float) and value]
    if not floats:
        return 1
    most = max(1, 2 - math.floor(math.log10(min(floats))))
    return next((d for d in range(1, most) if all(math.isclose(round(v, d), v) for v in floats)), most)


def summary(rows: Sequence[TrialRow], title: str, notes: Sequence[str] = ()) -> Sheet:
    """All trials, best first."""
    paths = list(rows[0]["values"]) if rows else []
    lines: list[dict[str, Any]] = [
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


def legend_above(drawn: Figure, places: Sequence[Axes]) -> None:
    """One legend above all panels, where it hides nothing."""
    labelled = [panel.get_legend_handles_labels() for panel in places]
    handles = {label: handle for pair in labelled for handle, label in zip(*pair, strict=True)}
    if handles:
        names, columns = fitted(list(handles), drawn.get_figwidth())
        drawn.legend(list(handles.values()), names, loc="outside upper center", ncols=columns)


def scale(panel: Axes, values: Sequence[object]) -> list[float]:
    """Set the panel's scale for these values and return their positions: logarithmic over decades, names side by side."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        names = sorted({str(value) for value in values})
        panel.set_xticks(range(len(names)), names)
        panel.margins(x=0.2)
        return [float(names.index(str(value))) for value in values]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    distinct = sorted(set(numbers))
    places, positive = distinct, [number for number in distinct if number > 0]
    if distinct[0] >= 0 and positive and positive[-1] >= 10 * positive[0]:
        # Zero has no place on a logarithmic scale; it is put below the smallest value.
        zero: dict[str, Any] = {"linthresh": positive[0], "linscale": 0.5} if distinct[0] == 0 else {}
        panel.set_xscale("symlog" if zero else "log", **zero)
        places = [math.log10(max(number, positive[0] / 3)) for number in distinct]
    span = places[-1] - places[0]
    if all(after - before >= ROOM * span for before, after in pairwise(places)):
        panel.set_xticks(distinct, [f"{number:g}" for number in distinct])
        panel.set_xticks([], minor=True)
    return numbers


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
