"""Curves of one setting, from run folders made of settings and records only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dura.analysis.sensitivity import Point, along, centre, varied
from dura.records import RunFolder
from dura.runs.api import choose
from dura.sheets.sheet import Sheet
from dura.studies import sensitivity
from dura.studies.sensitivity import compute, draw, sheets
from dura.types import BadInput
from folders import TOY
from folders import epoch as recorded


def run(umls_runs: Path, mrr: float | None, end: bool = True, name: str = "umls/complex-dura", **settings: Any) -> Path:
    """A run folder with what the study reads of it; `settings` are paths with _ for the point."""
    chosen = {path.replace("_", ".", 1): value for path, value in settings.items()}
    folder = RunFolder.create(umls_runs / f"run-{len(list(umls_runs.iterdir()))}")
    folder.write_settings(choose(name, settings=chosen).to_toml())
    folder.describe({**TOY, "name": name.partition("/")[0]})
    folder.append({"kind": "start"})
    if mrr is not None:
        for epoch, reached in ((1, mrr / 2), (2, mrr)):
            folder.append(recorded(epoch, reached))
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


def points(found: dict[str, Any]) -> list[Point]:
    return [Point(**point) for point in found["points"]]


def sheet(found: dict[str, Any]) -> Sheet:
    return sheets(found)["sensitivity"]


def test_a_curve_goes_through_the_runs_that_differ_in_one_setting_from_the_centre(runs: list[Path]) -> None:
    found = compute(runs)
    assert found["remarks"] == ["2 of 10 runs are left out: they were pruned or stopped, or have no MRR."]
    assert found["settings"] == ["regularizer.weight", "model.rank"], "those of the paper in its order"
    assert found["settings"] == sorted(varied(points(found)), reverse=True)
    line = along(points(found), "umls complex dura", "regularizer.weight")
    assert [(p.settings["regularizer.weight"], round(p.mrr, 6)) for p in line] == [
        (0.001, 0.6),
        (0.01, 0.85),
        (0.1, 0.7),
    ]
    assert (line[1].low, line[1].high, line[1].runs) == (0.8, 0.9, 2)
    assert [p.settings["model.rank"] for p in along(points(found), "umls complex dura", "model.rank")] == [20, 50]


def test_the_sheet_and_the_figure(runs: list[Path], tmp_path: Path) -> None:
    found = compute(runs, remarks=["Trial 3 failed."])
    table = sheet(found)
    assert len(table.rows) == 3 + 2 + 2  # both families over the weight, one over the rank
    assert [r["value"] for r in table.rows if r["best"]] == [0.01, 0.01, 50]
    assert all(r["alone"] for r in table.rows)
    assert list(table.notes[-2:]) == ["Trial 3 failed.", found["remarks"][-1]]
    assert draw(found, tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_sheet_can_be_made_from_the_file(runs: list[Path], tmp_path: Path) -> None:
    found = compute(runs)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert sheets(again) == sheets(found)


def test_runs_that_share_nothing_are_dots(tmp_path: Path) -> None:
    apart = [run(tmp_path, 0.1 * i, regularizer_weight=0.01 * i, model_rank=10 * i) for i in (1, 2, 3)]
    found = compute(apart, ["model.rank"])
    table = sheet(found)
    assert [(r["value"], r["alone"]) for r in table.rows] == [(10, False), (20, False), (30, False)]
    assert "No run differs from the centre in model.rank only" in table.notes[2]
    assert draw(found, tmp_path / "dots.png").exists()


def test_a_cross_has_all_its_curves_though_its_best_point_is_not_the_middle(tmp_path: Path) -> None:
    around = [
        run(tmp_path, 0.5, regularizer_weight=0.01, model_rank=50),
        run(tmp_path, 0.9, regularizer_weight=0.1, model_rank=50),
        run(tmp_path, 0.4, regularizer_weight=0.001, model_rank=50),
        run(tmp_path, 0.6, regularizer_weight=0.01, model_rank=100),
    ]
    table = sheet(compute(around))
    assert [(r["setting"], r["value"], r["valid MRR"], r["alone"]) for r in table.rows] == [
        ("regularizer.weight", 0.001, 0.4, True),
        ("regularizer.weight", 0.01, 0.5, True),
        ("regularizer.weight", 0.1, 0.9, True),
        ("model.rank", 50, 0.5, True),
        ("model.rank", 100, 0.6, True),
    ]
    assert table.notes == [
        "MRR on the valid split; each setting changes alone, the others stay as in the centre of its family.",
        (
            "The centre of umls complex dura is the run with regularizer.weight 0.01, model.rank 50, from which the most "
            "settings have a curve; the best has regularizer.weight 0.1, model.rank 50 and MRR 0.9000."
        ),
    ]


def test_the_best_of_a_grid_is_its_centre_also_if_a_run_is_missing(tmp_path: Path) -> None:
    grid = [
        run(tmp_path, mrr, regularizer_weight=weight, model_rank=rank)
        for weight, rank, mrr in ((0.01, 50, 0.5), (0.1, 50, 0.7), (0.01, 100, 0.6), (0.1, 100, 0.8), (1.0, 50, 0.3))
    ]
    found = compute(grid)
    middle = centre(points(found), "umls complex dura")
    assert (middle.settings["regularizer.weight"], middle.settings["model.rank"]) == (0.1, 100)
    assert [p.mrr for p in along(points(found), "umls complex dura", "regularizer.weight")] == [0.6, 0.8]
    assert sheet(found).notes[1].endswith("regularizer.weight 0.1, model.rank 100, the best.")


def test_test_is_ranked_by_the_tables(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, int]] = []
    monkeypatch.setattr(
        sensitivity, "ranking", lambda _, progress: lambda path: progress(1, 2) or float(path.name.partition("-")[2])
    )
    with pytest.raises(BadInput, match="9 of 10 runs have no tables to rank test with, such as .*run-0"):
        compute(runs, split="test")
    for path in runs:
        (path / "checkpoints" / "best.json").write_text("{}")
    found = compute(runs, split="test", progress=lambda *at: counted.append(at))
    assert max(point["mrr"] for point in found["points"]) == 9.0
    assert len(counted) == 9, "the one that did not end is not ranked"


def test_what_cannot_be_shown_is_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'optimizer.lr' does not vary in these runs; regularizer.weight, model.rank do"):
        compute(runs, ["optimizer.lr"])
    with pytest.raises(BadInput, match="^the runs do not differ in any numeric setting, so"):
        compute(runs[:2])
    with pytest.raises(BadInput, match=r"^the runs that ended do not differ .* \(2 did not, or have no MRR\)"):
        compute([runs[0], *runs[6:8]])
    assert compute(runs, ["model.rank"])["settings"] == ["model.rank"]


def test_runs_that_differ_only_in_speed_are_one_point(tmp_path: Path) -> None:
    same: dict[str, Any] = {
        "training_threads": 2,
        "training_checkpoint_every": 7.0,
        "training_seed": 3,
        "graph_source": "umls",
    }
    found = compute([run(tmp_path, 0.5), run(tmp_path, 0.7, **same), run(tmp_path, 0.4, model_rank=3)])
    assert sorted(point["runs"] for point in found["points"]) == [1, 2]


def test_a_whole_number_among_fractions_is_shown_as_one(tmp_path: Path) -> None:
    about = {"family": "a", "mrr": 0.5, "low": 0.5, "high": 0.5, "runs": 1}
    values = [{**about, "settings": {"regularizer.lambda1": value}} for value in (0.5, 2)]
    table = sheet({"split": "valid", "settings": ["regularizer.lambda1"], "points": values, "remarks": []})
    assert [table.text(row, "value") for row in table.rows] == ["0.5", "2.0"]
