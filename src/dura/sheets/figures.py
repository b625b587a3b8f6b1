"""Figures: one style for all of them, safe for colour-blind readers and readable in print."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dura.records import write_atomic
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette without yellow, which is hard to see on white; blue and vermillion first, they differ most."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
"""Colour is never the only difference: a grey copy must be readable too."""
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++")
GREY = "#999999"
MANY = 20
"""A curve with more points has about this many markers instead of one per point."""
LEGEND_LINE = 0.2
"""Inches that each line of a legend below a figure adds to its height."""
LETTERS, KEY_LETTERS = 11, 7
"""Letters of a legend per inch, and how many of them the mark next to a name takes."""
DPI = 150
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "svg.hashsalt": "dura",
}


@contextmanager
def figure(rows: int = 1, columns: int = 1, *, width: float = 4.6, height: float = 3.4) -> Iterator[tuple[Figure, Any]]:
    """A figure with a grid of axes in our style (`width` and `height` of each in inches); it needs no screen."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DuraError("figures need matplotlib; install it with: pip install 'dura-kge[studies]'") from None
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, drawn.subplots(rows, columns, squeeze=False)


@contextmanager
def panels(number: int, *, width: float = 3.8, height: float = 3.4) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with this many panels, three in a line (four of them: two in a line)."""
    columns = 2 if number == 4 else min(3, number)
    with figure(math.ceil(number / columns), columns, width=width, height=height) as (drawn, axes):
        places = list(axes.flat)
        for panel in places[number:]:
            panel.set_visible(False)
        yield drawn, places[:number]


def curves(
    axes: Axes,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    title: str = "",
) -> None:
    """Named curves of (xs, ys) that differ in colour, line and marker."""
    for i, (name, (xs, ys)) in enumerate(lines.items()):
        style: dict[str, Any] = {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": LINES[_turned(i)],
            "marker": MARKERS[_turned(i)],
            "markevery": max(1, len(xs) // MANY),
        }
        axes.plot(list(xs), list(ys), label=name, **style)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    if len(lines) > 1:
        axes.legend()


def bars(axes: Axes, groups: Mapping[str, Mapping[str, float]], *, y: str, title: str = "") -> None:
    """Bars side by side: `groups[series][place]`, one colour and hatch per series; a place that a series lacks stays empty."""
    places = list(dict.fromkeys(place for heights in groups.values() for place in heights))
    width = 0.8 / len(groups)
    for i, (series, heights) in enumerate(groups.items()):
        at = [place + (i - (len(groups) - 1) / 2) * width for place in range(len(places))]
        hatch = HATCHES[_turned(i)]
        colour = COLOURS[i % len(COLOURS)]
        tops = [heights.get(place, math.nan) for place in places]
        axes.bar(at, tops, width, label=series, color=colour, hatch=hatch, edgecolor="white")
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(y)
    axes.set_title(title)
    if len(groups) > 1:
        axes.legend()


def _turned(i: int) -> int:
    """The index of the line, marker or hatch of series i; when a colour comes again, it goes with another one."""
    return (i + i // len(COLOURS)) % len(COLOURS)


def legend_below(drawn: Figure, *places: Axes) -> None:
    """Move the legend of panels with the same names below the figure, where it hides no curve; the figure grows by its height."""
    handles, names = places[0].get_legend_handles_labels()
    legends = [legend for panel in places if (legend := panel.get_legend()) is not None]
    if legends:
        for legend in legends:
            legend.remove()
        names, columns = fitted(names, drawn.get_figwidth())
        lines = sum(name.count("\n") + 1 for name in names)
        drawn.set_figheight(drawn.get_figheight() + LEGEND_LINE * math.ceil(lines / columns))
        drawn.legend(handles, names, loc="outside lower left", ncols=columns)


def legend_above(drawn: Figure, places: Sequence[Axes]) -> None:
    """One legend above all panels, where it hides nothing."""
    labelled = [panel.get_legend_handles_labels() for panel in places]
    handles = {label: handle for pair in labelled for handle, label in zip(*pair, strict=True)}
    if handles:
        names, columns = fitted(list(handles), drawn.get_figwidth())
        drawn.legend(list(handles.values()), names, loc="outside upper center", ncols=columns)


def fitted(names: Sequence[str], inches: float) -> tuple[list[str], int]:
    """Names for a legend of this width, with line breaks in longer ones, and how many of them fit side by side."""
    room = int(LETTERS * inches)
    broken = [fill(name, room - KEY_LETTERS) for name in names]
    widest = max(len(line) for name in broken for line in name.split("\n"))
    return broken, max(1, min(len(names), room // (widest + KEY_LETTERS)))


def rendered(drawn: Figure, kind: str) -> bytes:
    """The figure as the bytes of a png, svg or pdf file, without a date: the same figure gives the same bytes."""
    if kind not in ("png", "svg", "pdf"):
        raise BadInput(f"a figure can be written as .png, .svg or .pdf, not as {kind!r}")
    metadata = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
    out = io.BytesIO()
    drawn.savefig(out, format=kind, dpi=DPI, metadata=metadata)
    return out.getvalue()


def save(drawn: Figure, path: Path) -> Path:
    """Write the figure completely or not at all; the file's ending (.png, .svg, .pdf) chooses the format."""
    data = rendered(drawn, path.suffix.removeprefix("."))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
    return path
