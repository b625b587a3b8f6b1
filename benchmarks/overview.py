"""Draws the figure of docs/results.md: how good, how fast, and compared with whom.

Left: test MRR against minutes on two cores, for dura, the literal loop and PyKEEN (docs/results/minutes-*.json, from quality.py).
Right: how far the laptop presets without a regularizer and with DURA, and the presets at full size, are from the paper's rows with
DURA. All are numbers of the presets; one that was never run has no mark.

python benchmarks/overview.py --out docs/results/overview.png
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.reproduction.cells import Cell, cells
from dura.runs.presets import preset
from dura.sheets.figures import COLOURS, GREY, curves, figure, save
from headline import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results"
MODELS = ("cp", "complex", "rescal", "tcomplex", "trescal")
DURA = ("dura", "dura1")
"""The regularizers of the rows to show: DURA, and its form for dated facts that the paper recommends."""
TIMED = ("fb15k-237", "wn18rr")
LABELS = {
    "dura train --minutes": "dura train --minutes N",
    "literal loop": "literal loop",
    "PyKEEN, n3": "PyKEEN",
}


def draw(out: Path) -> Path:
    """Draw the curves of two graphs on the left and the rows of all graphs on the right; each side has its legend below."""
    with figure(2, 2, width=4.6, height=3.3) as (drawn, axes):
        for panel, graph in zip(axes[:, 0], TIMED, strict=True):
            _timed(panel, graph)
        axes[0, 1].remove()
        axes[1, 1].remove()
        right = drawn.add_subplot(axes[0, 0].get_gridspec()[:, 1])
        _rows(right, _compared())
        drawn.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=9)
        drawn.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, fontsize=9)
        return save(drawn, out)


def _timed(panel: Axes, graph: str) -> None:
    record = json.loads((RECORDS / f"minutes-{graph}.json").read_text("utf-8"))
    curves(
        panel,
        {LABELS[run["label"]]: _curve(run["points"]) for run in record["runs"]},
        x="minutes (dura: whole command; others: training)",
        y="test MRR",
        title=f"{NAMES[graph]}, ComplEx",
    )
    panel.set_xlim(0, None)
    panel.set_ylim(0, None)
    if (legend := panel.get_legend()) is not None:
        legend.remove()


def _curve(points: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    return [point["seconds"] / 60 for point in points], [point["test_mrr"] for point in points]


def _compared() -> list[tuple[Cell, Cell]]:
    """For each model on each graph: the row without a regularizer and the row with DURA."""
    pairs = []
    for graph in NAMES:
        ran = {(c.experiment.model.name, c.experiment.regularizer.name): c for c in cells(laptop=True, only=[graph])}
        pairs += [(ran[m, "none"], ran[m, r]) for m in MODELS for r in DURA if (m, r) in ran]
    return pairs


def _rows(panel: Axes, pairs: list[tuple[Cell, Cell]]) -> None:
    for i, (none, ours) in enumerate(pairs):
        full = preset(ours.preset.replace("-laptop", "-headline")).expected.get("mrr")
        shown: list[tuple[Any, str, dict[str, Any]]] = [
            (
                none.expected,
                "no regularizer, laptop size",
                {"marker": "o", "mfc": "white", "mec": GREY, "mew": 1.5},
            ),
            (ours.expected, "DURA, laptop size", {"marker": "o", "color": COLOURS[0]}),
            (full, "DURA, full size", {"marker": "D", "mfc": "none", "mec": COLOURS[3], "mew": 1.5, "ms": 7}),
        ]
        behind = [math.nan if mrr is None else float(mrr) - float(ours.paper["mrr"]) for mrr, *_ in shown]
        panel.plot(behind[:2], [i, i], color=GREY, linewidth=1, zorder=1)
        for mrr, (_, label, style) in zip(behind, shown, strict=True):
            panel.plot([mrr], [i], ls="none", label=None if i else label, **style)
        if i and pairs[i - 1][1].graph != ours.graph:
            panel.axhline(i - 0.5, color=GREY, linewidth=0.6)
    names = [f"{NAMES[ours.graph]}, {ours.system.partition('-')[0]} ({_paper(ours)})" for _, ours in pairs]
    panel.set_yticks(range(len(pairs)), names)
    panel.axvline(0, color=COLOURS[1], linewidth=1.5, zorder=0, label="the paper, DURA")
    panel.invert_yaxis()
    panel.locator_params(axis="x", nbins=5)
    panel.set_xlabel("test MRR minus the paper's")
    panel.set_title("Distance from the paper's MRR")


def _paper(cell: Cell) -> str:
    """The paper's MRR with as many digits as the paper gives."""
    return f"{cell.paper['mrr']:.{2 if cell.experiment.smoothness.weight else 3}f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("overview.png"))
    print(draw(parser.parse_args().out))
