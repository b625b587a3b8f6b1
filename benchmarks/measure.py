"""How the benchmarks measure, print and draw: interleaved turns, medians with their spread, printed tables, JSON and plots."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dura

Work = Callable[[], float]
"""One turn of a competitor; returns its pace, in units per second."""
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
"""Colours that colour-blind people can distinguish (Okabe and Ito); those that print well come first."""
HATCHES = ("", "//", "..", "xx", "\\\\", "--")
MARKERS = ("o", "s", "^", "D", "v", "P")
console = Console(width=None if sys.stdout.isatty() else 132)


@dataclass(frozen=True)
class Measured:
    """A median with its spread, (max - min) / median.

    >>> str(Measured.of([2.0, 1.0, 1.5]))
    '1.50 ±67%'
    """

    median: float
    spread: float
    turns: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """The median and the spread of these turns."""
        middle = statistics.median(values)
        return cls(middle, (max(values) - min(values)) / middle, tuple(values))

    def __str__(self) -> str:
        return f"{number(self.median)} ±{self.spread:.0%}"


def number(value: float) -> str:
    """A number with three digits, for people.

    >>> number(123456.0), number(12.345), number(1.0), number(0.01234)
    ('123,456', '12.3', '1.00', '0.0123')
    """
    large = next((i for i, bound in enumerate((100, 10, 1)) if abs(value) >= bound), None)
    return f"{value:.3g}" if large is None else f"{value:,.{large}f}"


def paced(units: float, work: Callable[[], object]) -> Work:
    """A turn that does `units` units of work."""

    def turn() -> float:
        began = time.perf_counter()
        work()
        return units / (time.perf_counter() - began)

    return turn


CLOSE = 0.8
"""A variant stays in the rounds if it has at least this share of the pace of its competitor's best variant."""


def interleaved(works: Mapping[str, Work], repeat: int, seconds: float, least: int = 3) -> dict[str, list[float]]:
    """The paces of each competitor over `repeat` rounds. Each competitor has one turn per round; a first round warms up.

    After `seconds` no further round begins, but at least `least` rounds are measured. The paces of one round have the same
    position in the lists, so their ratio does not depend on what the machine did in other rounds. A competitor may have
    several variants ("PyKEEN, 500 questions"); those that are far behind in the first measured round drop out.
    """
    paces: dict[str, list[float]] = {name: [] for name in works}
    began = time.perf_counter()
    for i in range(repeat + 1):
        if i > least and time.perf_counter() - began > seconds:
            break
        gc.collect()  # between rounds, so that no competitor pays for the garbage of another
        for name, turns in paces.items():
            pace = works[name]()
            if i:
                turns.append(pace)
        if i == 1:
            paces = contenders(paces)
    return paces


def contenders(paces: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """All variants except those that are far behind another variant of the same competitor.

    >>> sorted(contenders({"dura, small": [9.5], "dura, large": [10.0], "bound": [12.0], "dura, tiny": [5.0]}))
    ['bound', 'dura, large', 'dura, small']
    """
    best: dict[str, float] = {}
    for name, turns in paces.items():
        best[competitor(name)] = max(best.get(competitor(name), 0.0), turns[0])
    return {name: turns for name, turns in paces.items() if turns[0] >= CLOSE * best[competitor(name)]}


def competitor(variant: str) -> str:
    """The competitor of a variant: the text before the comma."""
    return variant.partition(",")[0]


@dataclass(frozen=True)
class Options:
    """The options of the command line. A `scale` below 1 makes the graphs smaller, to test the program itself."""

    full: bool
    scale: float
    data: list[str]
    out: Path

    def rounds(self, works: dict[str, Work], seconds: float) -> dict[str, list[float]]:
        """Rounds within a time budget."""
        return interleaved(works, repeat=7 if self.full else 5, seconds=(2 if self.full else 1) * seconds)

    def size(self, n: int) -> int:
        """A size, scaled."""
        return max(100, int(self.scale * n))


def ratio(one: Sequence[float], other: Sequence[float], unit: float = 1.0) -> Measured:
    """The pace of one divided by the pace of the other, round by round. A unit of .01 gives percent."""
    return Measured.of([a / b / unit for a, b in zip(one, other, strict=True)])


def fastest(paces: Mapping[str, list[float]], who: str) -> str:
    """The variant of this competitor with the highest median pace; "" if the competitor does not take part."""
    mine = {name: statistics.median(turns) for name, turns in paces.items() if competitor(name) == who}
    return max(mine, key=mine.__getitem__, default="")


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """b of seconds = a·sizeᵇ by least squares over the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def show(
    title: str, rows: Sequence[Mapping[str, object]], notes: Iterable[str] = (), hidden: Sequence[str] = ()
) -> None:
    """Print rows as a table with one column per key that is not hidden."""
    table = Table(title=title, title_justify="left", title_style="bold")
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in hidden))
    for name in columns:
        text = all(isinstance(row.get(name, ""), str) for row in rows)
        table.add_column(name, justify="left" if text else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in columns))
    console.print(table)
    for note in notes:
        console.print(f"  {note}", style="dim", highlight=False, markup=False)
    console.print()


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else number(value) if isinstance(value, float) else str(value)


def machine() -> dict[str, Any]:
    """What the numbers depend on in addition to the code."""
    name = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "memory_gb": round(total_memory() / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "dura": dura.__version__,
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
    }


def total_memory() -> int:
    """Bytes of memory the machine has."""
    return int(importlib.import_module("psutil").virtual_memory().total)


def free_memory() -> int:
    """Bytes of memory that are available without swapping."""
    return int(importlib.import_module("psutil").virtual_memory().available)


def peak() -> int:
    """The peak memory of this process in bytes.

    On Linux, ru_maxrss also counts the memory that the parent held when it started this process. VmHWM does not.
    """
    import resource

    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON together with the description of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), **data}
    path.write_text(json.dumps(document, indent=1, default=_plain, ensure_ascii=False) + "\n", encoding="utf-8")
    console.print(f"written: {path}", highlight=False)


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{value!r} cannot be written as JSON")


def plotting() -> Any:
    """matplotlib's pyplot in our style; None if matplotlib is not installed."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        console.print("no plots: matplotlib is not installed")
        return None
    pyplot.rcParams.update(
        {
            "figure.dpi": 150,
            "figure.figsize": (7.0, 4.0),
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#dddddd",
            "legend.frameon": False,
            "hatch.linewidth": 0.6,
            "axes.prop_cycle": importlib.import_module("cycler").cycler(color=OKABE_ITO),
        }
    )
    return pyplot


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    importlib.import_module("matplotlib.pyplot").close(figure)
    console.print(f"written: {path}", highlight=False)


BARS_A_ROW = 8


def draw_bars(path: Path, groups: Mapping[str, Mapping[str, float]], title: str, label: str) -> None:
    """Groups of bars, a few groups per row, with the same names in each group and a line at 1."""
    pyplot = plotting()
    if pyplot is None or not any(groups.values()):
        return
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    filled = [(group, bars) for group, bars in groups.items() if bars]
    rows = [filled[at : at + BARS_A_ROW] for at in range(0, len(filled), BARS_A_ROW)]
    across = max(5.0, 1.5 + 1.3 * len(rows[0]))
    figure, panels = pyplot.subplots(len(rows), figsize=(across, 1.0 + 3.0 * len(rows)), squeeze=False, sharey=True)
    width = 0.8 / len(names)
    for axes, row in zip(panels[:, 0], rows, strict=True):
        for i, name in enumerate(names):
            places = [(at, bars[name]) for at, (_, bars) in enumerate(row) if name in bars]
            drawn = axes.bar(
                [at + (i - (len(names) - 1) / 2) * width for at, _ in places],
                [height for _, height in places],
                width * 0.95,
                label=name,
                hatch=HATCHES[i % len(HATCHES)],
                edgecolor="white",
            )
            axes.bar_label(drawn, fmt="%.3g", padding=1, fontsize=8)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(row)), [group for group, _ in row], fontsize=8)
        axes.set_xlim(-0.6, len(rows[0]) - 0.4)
        axes.set_ylabel(label)
        axes.grid(visible=False, axis="x")
    panels[0, 0].set_title(title)
    panels[0, 0].legend()
    save(figure, path)


Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Curves by name: (x, y). A name in brackets is a line to compare with, drawn dashed."""


def draw_lines(path: Path, panels: Mapping[str, Lines], y: str, title: str) -> None:
    """Curves over logarithmic axes with one panel per group of curves. A panel is named "x axis: title"."""
    pyplot = plotting()
    if pyplot is None or not panels:
        return
    figure, row = pyplot.subplots(1, len(panels), figsize=(1.0 + 3.6 * len(panels), 3.8), sharey=True, squeeze=False)
    for axes, (panel, lines) in zip(row[0], panels.items(), strict=True):
        for i, (name, (xs, ys)) in enumerate(lines.items()):
            style = "--" if name.startswith("(") else "-"
            colour, marker = OKABE_ITO[i % len(OKABE_ITO)], MARKERS[i % len(MARKERS)]
            axes.plot(xs, ys, style, marker=marker, label=name.strip("()"), color=colour)
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(xs, [f"{x / 1000:g}k" if x >= 1000 else f"{x:g}" for x in xs])
        axes.minorticks_off()
        axes.yaxis.set_major_locator(importlib.import_module("matplotlib.ticker").LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        name, _, about = panel.partition(": ")
        axes.set(title=about, xlabel=name)
        axes.legend(fontsize=8, handlelength=3)
    row[0][0].set_ylabel(y)
    figure.suptitle(title)
    save(figure, path)
