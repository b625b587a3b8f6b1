"""The study by relation category: its numbers are those of evaluation, and what its sheets and figure show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import dura
from dura.studies.categories import compute, draw, sheets
from folders import png_size

FOUND: dict[str, Any] = {
    "graph": "tiny",
    "split": "test",
    "protocol": {"filter": "train+valid+test, filtered", "ties": "realistic", "candidates": "all 30 entities"},
    "runs": [
        {
            "label": label,
            "mrr": mrr,
            "category": {"1-N": mrr - 0.1, "N-N": mrr + 0.1},
            "category-side": {"1-N tail": mrr - 0.2, "1-N head": mrr, "N-N tail": mrr, "N-N head": mrr + 0.2},
            "ranks": {"1-N": 20, "N-N": 1020},
        }
        for label, mrr in (("RESCAL none", 0.25), ("RESCAL DURA", 0.5))
    ],
}


def test_categories_are_those_of_evaluation(umls_runs: Path) -> None:
    counted: list[tuple[int, int]] = []
    found = compute([umls_runs / "none", umls_runs / "rescal"], "valid", progress=lambda *at: counted.append(at))
    assert (found["graph"], found["split"]) == ("umls", "valid")
    assert found["protocol"]["data_digest"] == dura.open(umls_runs / "none").graph.digest
    assert counted[-1][0] == counted[-1][1]
    for run, name in zip(found["runs"], ("none", "rescal"), strict=True):
        result = dura.open(umls_runs / name).evaluate("valid", ["category", "category-side"])
        assert run["mrr"] == result.mrr
        assert run["category"] == {place: m.mrr for place, m in result.groups["category"].items()}
        assert run["category-side"] == {place: m.mrr for place, m in result.groups["category-side"].items()}
        ranks = run["ranks"]
        assert sum(ranks.values()) == result.metrics.ranks
        mean = sum(run["category"][place] * count for place, count in ranks.items()) / sum(ranks.values())
        assert mean == pytest.approx(run["mrr"]), "the categories make up the whole"
    json.dumps(found, allow_nan=False)


def test_there_is_a_row_per_run_with_all_facts_last() -> None:
    made = sheets(FOUND)
    assert list(made) == ["categories", "categories-sides"]
    sheet, sides = made.values()
    assert sheet.columns == ["run", "1-N", "N-N", "all"]
    assert sheet.rows[1] == {"run": "RESCAL DURA", "1-N": 0.4, "N-N": 0.6, "all": 0.5}
    assert "1-N 20, N-N 1,020" in sheet.notes[1]
    assert sides.columns == ["run", "1-N tail", "1-N head", "N-N tail", "N-N head", "all"]
    assert "and side" in sides.title


def test_the_figure_names_runs_and_categories(tmp_path: Path) -> None:
    drawn = draw(FOUND, tmp_path / "categories.svg").read_text()
    assert {"RESCAL none", "RESCAL DURA", "1-N", "all"} <= set(re.findall(r"<!-- (.*?) -->", drawn))
    assert png_size(draw({**FOUND, "runs": FOUND["runs"][:1]}, tmp_path / "one.png"))


def test_names_of_runs_take_no_room_from_the_bars(tmp_path: Path) -> None:
    long = [{**FOUND["runs"][0], "label": f"a-rather-long-name-of-a-run-{i}"} for i in range(8)]
    two = png_size(draw(FOUND, tmp_path / "two.png"))
    eight = png_size(draw({**FOUND, "runs": long}, tmp_path / "eight.png"))
    assert (two, eight) == ((960, 540), (960, 510 + 8 * 30))  # lines of 0.2 inches each
