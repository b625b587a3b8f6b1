"""Curves of one setting, from run folders made of settings and records only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dura.records import RunFolder
from dura.reports.sensitivity import Point, along, centre, chosen_paths, draw, read_points, sheet, varied
from dura.runs.api import choose
from dura.types import BadInput
from folders import TOY
from folders import epoch as recorded


def run(home: Path, mrr: float | None, end: bool = True, name: str = "umls/complex-dura", **settings: Any) -> Path:
    """A run folder with what the study reads of it; `settings` are paths with _ for the point."""
    chosen = {path.replace("_", ".", 1): value for path, value in settings.items()}
    folder = RunFolder.create(home / f"run-{len(list(home.iterdir()))}")
    folder.write_settings(choose(name, settings=chosen).to_toml())
    folder.describe({**TOY, "name": name.partition("/")[0]})
    folder.append({"kind": "start"})
    if mrr is not None:
        for epoch, figure in ((1, mrr / 2), (2, mrr)):
            folder.append(recorded(epoch, figure))
    if end:
        folder.append({"kind": "end", "epoch": 2, "best_epoch": 2, "seconds": 1.0})
    return folder.path


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A cross around (0.01, 50), two seeds in its middle, a point off the cross, and two runs that must not count."""
    return [
        run(tmp_path, 0.8, regularizer_weight=0.01, model_rank=50),
        run(tmp_path, 0.9, regularizer_weight=0.01, model_rank=50, training_seed=1),
        run(tmp_path, 0.6, regularizer_weight=0.001, model_rank=50),
        run(tmp_path, 0.7, regularizer_weight=0.1, model_rank=50),
        run(tmp_path, 0.5, regularizer_weight=0.01, model_rank=20),
        run(tmp_path, 0.4, regularizer_weight=0.1, model_rank=20),
        run(tmp_path, 0.99, end=False, regularizer_weight=0.5, model_rank=50),
        run(tmp_path, None, regularizer_weight=0.6, model_rank=50),
        run(tmp_path, 0.3, name="umls/complex-n3", regularizer_weight=0.01),
        run(tmp_path, 0.2, name="umls/complex-n3", regularizer_weight=0.02),
    ]


def test_a_curve_goes_through_the_runs_that_differ_in_one_setting_from_the_centre(runs: list[Path]) -> None:
    points, left = read_points(runs)
    assert left == runs[6:8]
    assert varied(points) == ["regularizer.weight", "model.rank"]
    line = along(points, "umls complex dura", "regularizer.weight")
    assert [(p.settings["regularizer.weight"], round(p.mrr, 6)) for p in line] == [
        (0.001, 0.6),
        (0.01, 0.85),
        (0.1, 0.7),
    ]
    assert (line[1].low, line[1].high, line[1].runs) == (0.8, 0.9, 2)
    assert [p.settings["model.rank"] for p in along(points, "umls complex dura", "model.rank")] == [20, 50]


def test_the_table_and_the_figure(runs: list[Path], tmp_path: Path) -> None:
    points, _ = read_points(runs)
    table = sheet(points, ["regularizer.weight", "model.rank"], "valid")
    assert len(table.rows) == 3 + 2 + 2  # both families over the weight, one over the rank
    assert [r["value"] for r in table.rows if r["best"]] == [0.01, 0.01, 50]
    assert all(r["alone"] for r in table.rows)
    assert draw(points, varied(points), "valid", tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_runs_that_share_nothing_are_dots(tmp_path: Path) -> None:
    apart = [run(tmp_path, 0.1 * i, regularizer_weight=0.01 * i, model_rank=10 * i) for i in (1, 2, 3)]
    points, _ = read_points(apart)
    table = sheet(points, ["model.rank"], "valid")
    assert [(r["value"], r["alone"]) for r in table.rows] == [(10, False), (20, False), (30, False)]
    assert "No run differs from the centre in model.rank alone" in table.notes[2]
    assert draw(points, ["model.rank"], "valid", tmp_path / "dots.png").exists()


def test_a_cross_has_all_its_curves_though_its_best_point_is_not_the_middle(tmp_path: Path) -> None:
    around = [
        run(tmp_path, 0.5, regularizer_weight=0.01, model_rank=50),
        run(tmp_path, 0.9, regularizer_weight=0.1, model_rank=50),
        run(tmp_path, 0.4, regularizer_weight=0.001, model_rank=50),
        run(tmp_path, 0.6, regularizer_weight=0.01, model_rank=100),
    ]
    table = sheet(read_points(around)[0], ["regularizer.weight", "model.rank"], "valid")
    assert [(r["setting"], r["value"], r["valid MRR"], r["alone"]) for r in table.rows] == [
        ("regularizer.weight", 0.001, 0.4, True),
        ("regularizer.weight", 0.01, 0.5, True),
        ("regularizer.weight", 0.1, 0.9, True),
        ("model.rank", 50, 0.5, True),
        ("model.rank", 100, 0.6, True),
    ]
    assert table.notes == [
        "MRR on the valid split; each setting moves alone, the others stay as in the centre of its family.",
        (
            "The centre of umls complex dura is the run with regularizer.weight 0.01, model.rank 50, from which the most "
            "settings have a curve; the best has regularizer.weight 0.1, model.rank 50 and MRR 0.9000."
        ),
    ]


def test_the_best_of_a_grid_is_its_centre_also_where_a_run_is_missing(tmp_path: Path) -> None:
    grid = [
        run(tmp_path, mrr, regularizer_weight=weight, model_rank=rank)
        for weight, rank, mrr in ((0.01, 50, 0.5), (0.1, 50, 0.7), (0.01, 100, 0.6), (0.1, 100, 0.8), (1.0, 50, 0.3))
    ]
    points, _ = read_points(grid)
    middle = centre(points, "umls complex dura")
    assert (middle.settings["regularizer.weight"], middle.settings["model.rank"]) == (0.1, 100)
    assert [p.mrr for p in along(points, "umls complex dura", "regularizer.weight")] == [0.6, 0.8]
    assert sheet(points, ["model.rank"], "valid").notes[1].endswith("regularizer.weight 0.1, model.rank 100, the best.")


def test_another_judge(runs: list[Path]) -> None:
    points, _ = read_points(runs, lambda path: float(path.name.partition("-")[2]))
    assert max(point.mrr for point in points) == 9.0


def test_what_cannot_be_shown_is_told(runs: list[Path]) -> None:
    points, _ = read_points(runs)
    with pytest.raises(BadInput, match="'optimizer.lr' does not vary in these runs; regularizer.weight, model.rank do"):
        chosen_paths(points, ["optimizer.lr"])
    with pytest.raises(BadInput, match="do not differ in any number"):
        chosen_paths([Point("a", {"model.rank": 3}, 0.5, 0.5, 0.5, 1)], [])
    with pytest.raises(BadInput, match=r"^the runs that ended do not differ .* \(2 did not, or have no figure\)"):
        chosen_paths([Point("a", {"model.rank": 3}, 0.5, 0.5, 0.5, 1)], [], left=2)
    assert chosen_paths(points, []) == varied(points)
    assert chosen_paths(points, ["model.rank"]) == ["model.rank"]


def test_a_whole_number_among_fractions_is_shown_as_one(tmp_path: Path) -> None:
    points = [Point("a", {"regularizer.lambda1": value}, 0.5, 0.5, 0.5, 1) for value in (0.5, 2)]
    table = sheet(points, ["regularizer.lambda1"], "valid")
    assert [table.text(row, "value") for row in table.rows] == ["0.5", "2.0"]
