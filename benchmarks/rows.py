"""Draws the test MRR of the laptop presets of the paper's own models next to the paper's, with one panel per graph.

See docs/results/seeds.md. The numbers are those of the presets.

python benchmarks/rows.py --out docs/results/rows.png
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dura.reproduction.cells import Cell, cells
from dura.sheets.figures import COLOURS, figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS = ("cp", "complex", "rescal", "tcomplex", "trescal")
GRAPHS = ("fb15k-237", "wn18rr", "icews14", "icews05-15", "yago15k")


def draw(out: Path) -> Path:
    """Draw every row as a line: our MRR with its band, and the paper's MRR as a hollow square."""
    with figure(2, 3, width=3.6, height=3.9) as (drawn, axes):
        panels = list(axes.flat)
        for panel, graph in zip(panels, GRAPHS, strict=False):
            _panel(panel, cells(laptop=True, only=[graph, *MODELS]))
            panel.set_title(graph)
        panels[-1].axis("off")
        panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center")
        return save(drawn, out)


def _panel(panel: Axes, rows: Sequence[Cell]) -> None:
    rows = sorted(rows, key=lambda cell: (cell.experiment.model.name, cell.expected or 0.0))
    for i, cell in enumerate(rows):
        first = i == 0
        if cell.expected is not None and cell.band is not None:
            reach = [[cell.expected - cell.band[0]], [cell.band[1] - cell.expected]]
            label = "ours, laptop size, with its band" if first else None
            panel.errorbar([cell.expected], [i], xerr=reach, fmt="o", color=COLOURS[0], capsize=2, label=label)
        label = "the paper, full size" if first else None
        panel.plot([cell.paper["mrr"]], [i], "s", mfc="none", mec=COLOURS[1], ls="none", label=label, zorder=3)
        if i and rows[i - 1].experiment.model.name != cell.experiment.model.name:
            panel.axhline(i - 0.5, color="#999999", linewidth=0.6)
    panel.set_yticks(range(len(rows)), [cell.system for cell in rows], fontsize=8)
    panel.locator_params(axis="x", nbins=6)
    panel.set_xlabel("test MRR")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("rows.png"))
    print(draw(parser.parse_args().out))
