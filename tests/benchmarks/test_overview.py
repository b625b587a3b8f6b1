"""The figure of the results shows the stored curves to their ends, and how far the presets are from the paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import overview
from dura.runs.presets import preset
from headline import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@pytest.fixture
def panels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    seen: list[Axes] = []

    def look(drawn: Figure, path: Path) -> Path:
        seen.extend(drawn.axes)
        return path

    monkeypatch.setattr(overview, "save", look)
    assert overview.draw(tmp_path / "overview.png") == tmp_path / "overview.png"
    return seen


@pytest.mark.parametrize("graph", overview.TIMED)
def test_curves_are_those_of_the_records(graph: str, panels: list[Axes]) -> None:
    panel = next(panel for panel in panels if panel.get_title().startswith(NAMES[graph]))
    drawn = {str(line.get_label()): line for line in panel.lines}
    runs = json.loads((overview.RECORDS / f"minutes-{graph}.json").read_text("utf-8"))["runs"]
    assert set(drawn) == {overview.LABELS[run["label"]] for run in runs}
    for run in runs:
        line, last = drawn[overview.LABELS[run["label"]]], run["points"][-1]
        assert len(np.atleast_1d(line.get_xdata())) == len(run["points"])
        assert np.atleast_1d(line.get_xdata())[-1] == pytest.approx(last["seconds"] / 60)
        assert np.atleast_1d(line.get_ydata())[-1] == pytest.approx(last["test_mrr"])


def test_every_model_and_graph_is_shown_with_its_numbers_and_the_papers(panels: list[Axes]) -> None:
    panel = panels[-1]
    marks: dict[float, set[float]] = {}
    for line in panel.lines:
        x, y = np.atleast_1d(line.get_xdata()), np.atleast_1d(line.get_ydata())
        if len(x) == 1 and not np.isnan(x[0]):  # a mark, not a rule or the line between two marks
            marks.setdefault(float(y[0]), set()).add(float(x[0]))
    titles = [label.get_text().partition(" (") for label in panel.get_yticklabels()]
    names = [name for name, *_ in titles]
    assert len(names) == len(set(names)) == 12
    pairs = [("complex-dura", "FB15k-237, ComplEx"), ("rescal-dura", "WN18RR, RESCAL"), ("cp-dura", "WN18RR, CP")]
    pairs += [("tcomplex-dura1", "ICEWS14, TComplEx"), ("trescal-dura1", "YAGO15k, TRESCAL")]
    graphs = {name: graph for graph, name in NAMES.items()}
    for stem, name in pairs:
        graph, none = graphs[name.partition(",")[0]], f"{stem.partition('-')[0]}-none"
        shown = [f"{graph}/{row}" for row in (f"{none}-laptop", f"{stem}-laptop", f"{stem}-headline")]
        paper = preset(f"{graph}/{stem}").expected["mrr"]
        assert marks[names.index(name)] == {float(preset(one).expected["mrr"]) - float(paper) for one in shown}
        assert float(titles[names.index(name)][2].rstrip(")")) == paper
