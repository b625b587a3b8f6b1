"""The figure of every row next to the paper's: no row is left out, and it shows the numbers of the presets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import rows
from dura.reproduction.cells import cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def test_every_row_that_ran_is_drawn_with_its_number_and_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, dict[str, set[float]]] = {}

    def look(drawn: Figure, path: Path) -> Path:
        for panel in drawn.axes:
            names = [label.get_text() for label in panel.get_yticklabels()]
            marks = seen.setdefault(panel.get_title(), {name: set() for name in names})
            for line in panel.lines:
                x, y = np.atleast_1d(line.get_xdata()), np.atleast_1d(line.get_ydata())
                if len(x) == 1:  # a mark, not a rule or the cap of a band
                    marks[names[int(y[0])]].add(float(x[0]))
        return path

    monkeypatch.setattr(rows, "save", look)
    assert rows.draw(tmp_path / "rows.png") == tmp_path / "rows.png"
    ran = [
        cell for cell in cells(laptop=True, only=rows.MODELS) if cell.band is not None and "small" not in cell.tables
    ]
    assert len(ran) == 58
    for cell in ran:
        assert cell.expected is not None
        assert seen[cell.graph][cell.system] >= {cell.expected, cell.paper["mrr"]}
