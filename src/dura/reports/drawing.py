"""Drawing: the figures of a report, each with a caption that says what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dura.reports.blocks import Figure
from dura.reports.runs import Run
from dura.sheets.figures import bars, curves, figure, legend_below, rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = tuple[Sequence[float], Sequence[float]]
BY_MINUTES = 180.0
"""If a run trained for more seconds than this, times are in minutes."""


def one_panel(stem: str, caption: str, draw: Callable[[Axes], None], *, below: bool = False) -> Figure:
    """A figure of one panel; `below` puts the legend below it."""
    with figure() as (drawn, axes):
        draw(axes[0][0])
        if below:
            legend_below(drawn, axes[0][0])
        return Figure(stem, caption, rendered(drawn, "svg"))


def training_figures(run: Run) -> list[Figure]:
    """Loss, penalty and valid metrics by epoch, and the valid MRR by time; nothing if no epoch was recorded."""
    if not run.curve:
        return []
    found = [
        _by_epoch("loss", "Mean loss by epoch", {"": line(run, "loss")}, "loss"),
        _by_epoch("penalty", "Mean penalty by epoch, its weight included", {"": line(run, "penalty")}, "penalty"),
    ]
    if run.best is not None:
        names = {"MRR": "mrr", **{f"Hits@{k}": f"hits@{k}" for k in (1, 3, 10)}}
        lines = {name: line(run, "valid", key) for name, key in names.items()}
        caption = f"Metrics on the valid facts by epoch; the best MRR is that of epoch {run.best['epoch']}"
        found += [_by_epoch("valid", caption, lines, "on valid facts", below=True), valid_by_time([run])]
    return found


def valid_by_epoch(runs: Sequence[Run]) -> Figure:
    """The valid MRR of several runs."""
    lines = {run.name: line(run, "valid", "mrr") for run in runs}
    caption = f"MRR on the valid facts by epoch{_without(lines)}"
    return _by_epoch("valid-mrr-by-epoch", caption, lines, "valid MRR", below=True)


def valid_by_time(runs: Sequence[Run]) -> Figure:
    """The valid MRR by the time spent in steps."""
    longest = max(run.curve[-1]["seconds"] or 0.0 for run in runs if run.curve)
    unit, size = ("minutes", 60.0) if longest > BY_MINUTES else ("seconds", 1.0)
    lines = {run.name: line(run, "valid", "mrr", by="seconds", size=size) for run in runs}
    caption = f"MRR on the valid facts by {unit} of training (time in steps, over all sittings){_without(lines)}"
    return one_panel(
        "valid-mrr-by-time",
        caption,
        lambda axes: curves(axes, lines, x=f"{unit} of training", y="valid MRR"),
        below=True,
    )


def mrr_bars(stem: str, caption: str, groups: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Figure:
    """MRR of groups of ranks side by side: `groups[run][group]` are their numbers."""
    heights = {name: {place: numbers["mrr"] for place, numbers in group.items()} for name, group in groups.items()}
    return one_panel(stem, caption, lambda axes: bars(axes, heights, y="MRR"), below=True)


def _without(lines: Mapping[str, Line]) -> str:
    """Which runs have no curve, for the end of a caption."""
    missing = [name for name, (xs, _) in lines.items() if not xs]
    return f"; without a curve: {', '.join(missing)}" if missing else ""


def line(run: Run, *keys: str, by: str = "epoch", size: float = 1.0) -> Line:
    """One number along a run's curve; epochs without it are left out."""
    points: list[tuple[float, float]] = []
    for record in run.curve:
        value: Any = record
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            points.append((record[by] / size, value))
    return [x for x, _ in points], [y for _, y in points]


def _by_epoch(stem: str, caption: str, lines: Mapping[str, Line], y: str, *, below: bool = False) -> Figure:
    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        curves(axes, lines, x="epoch", y=y)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return one_panel(stem, caption, draw, below=below)
