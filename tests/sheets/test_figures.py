"""Figures: what is drawn is what was given, told apart by more than colour, and files do not change by themselves."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from dura.sheets.figures import MANY, bars, curves, figure, legend_below, panels, rendered, save
from dura.types import BadInput, DuraError


def test_curves_are_what_was_given_and_differ_in_more_than_colour() -> None:
    lines = {"a": ([1, 2, 3], [0.1, 0.2, 0.3]), "b": ([1, 2], [0.3, 0.1])}
    with figure() as (_, axes):
        curves(axes[0][0], lines, x="epoch", y="MRR", title="t")
        drawn = axes[0][0].get_lines()
        assert [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn] == [*lines.values()]
        assert len({line.get_marker() for line in drawn}) == len({line.get_linestyle() for line in drawn}) == 2
        assert (axes[0][0].get_xlabel(), axes[0][0].get_ylabel(), axes[0][0].get_title()) == ("epoch", "MRR", "t")
        assert [text.get_text() for text in axes[0][0].get_legend().get_texts()] == ["a", "b"]


@pytest.mark.parametrize(("points", "every"), [(1, 1), (MANY, 1), (100, 5), (1000, 50)])
def test_a_long_curve_has_few_markers(points: int, every: int) -> None:
    with figure() as (_, axes):
        curves(axes[0][0], {"a": (range(points), range(points))}, x="x", y="y")
        assert axes[0][0].get_lines()[0].get_markevery() == every
        assert axes[0][0].get_legend() is None


def test_bars_stand_side_by_side_and_a_missing_one_leaves_its_place() -> None:
    with figure() as (_, axes):
        bars(axes[0][0], {"a": {"1-1": 0.5, "N-N": 0.25}, "b": {"N-N": 0.75, "1-N": 1.0}, "c": {}}, y="MRR")
        boxes = [box for box in axes[0][0].patches if isinstance(box, Rectangle)]
        heights = [box.get_height() for box in boxes]
        assert [None if math.isnan(h) else h for h in heights] == [0.5, 0.25, None, None, 0.75, 1.0, None, None, None]
        centres = [box.get_x() + box.get_width() / 2 for box in boxes[:6]]
        assert centres == pytest.approx([-0.8 / 3, 1 - 0.8 / 3, 2 - 0.8 / 3, 0, 1, 2])
        assert [label.get_text() for label in axes[0][0].get_xticklabels()] == ["1-1", "N-N", "1-N"]
        assert axes[0][0].get_xlim() == (-0.5, 2.5)
        assert len({box.get_hatch() for box in boxes}) == 3


def test_many_series_are_all_different() -> None:
    with figure() as (_, axes):
        curves(axes[0][0], {str(i): ([1], [1]) for i in range(40)}, x="x", y="y")
        looks = {(line.get_color(), line.get_marker()) for line in axes[0][0].get_lines()}
        assert len(looks) == 40


def test_no_panel_stays_empty() -> None:
    for number in range(1, 6):
        with panels(number) as (drawn, places):
            assert len(places) == number
            assert sum(panel.get_visible() for panel in drawn.axes) == number


def test_the_legend_moves_below_the_figure() -> None:
    with figure() as (drawn, axes):
        curves(axes[0][0], {"a": ([1], [1]), "b": ([1], [1])}, x="x", y="y")
        height = drawn.get_figheight()
        legend_below(drawn, axes[0][0])
        assert drawn.get_figheight() == pytest.approx(height + 0.2)
        assert axes[0][0].get_legend() is None
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]


def test_long_names_of_several_panes_get_lines_of_their_own_below_the_figure() -> None:
    names = ["a name of some length", "a-much-longer-name-" * 3, "the third of them"]
    with figure(1, 2, width=2.3) as (drawn, axes):
        for pane in axes[0]:
            curves(pane, {name: ([1], [1]) for name in names}, x="x", y="y")
        height = drawn.get_figheight()
        legend_below(drawn, *axes[0])
        assert drawn.get_figheight() == pytest.approx(height + 4 * 0.2)
        assert [pane.get_legend() for pane in axes[0]] == [None, None]
        [legend] = drawn.legends
        shown = [text.get_text() for text in legend.get_texts()]
        assert shown == [names[0], "a-much-longer-name-a-much-longer-name-a-\nmuch-longer-name-", names[2]]
        drawn.draw_without_rendering()
        assert legend.get_window_extent().x1 <= drawn.bbox.x1


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_figure_is_the_same_file(tmp_path: Path, ending: str, magic: bytes) -> None:
    files = []
    for name in ("one", "two"):
        with figure() as (drawn, axes):
            curves(axes[0][0], {"a": ([1, 2], [1, 4])}, x="x", y="y")
            files.append(save(drawn, tmp_path / name / f"f.{ending}").read_bytes())
    assert files[0] == files[1]
    assert files[0].startswith(magic)


def test_an_unknown_ending_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with figure() as (drawn, _):
        with pytest.raises(BadInput, match=r"\.png, \.svg or \.pdf, not as 'gif'"):
            save(drawn, tmp_path / "new" / "f.gif")
        assert rendered(drawn, "png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DuraError, match=r"pip install 'dura-kge\[studies\]'"), figure():
        pass
