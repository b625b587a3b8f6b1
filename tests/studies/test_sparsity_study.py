"""The study of sparsity: one row per run and share, and what its sheet and figure show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dura
from dura.studies.sparsity import compute, draw, sheets
from dura.types import BadInput
from folders import png_size


def test_there_is_a_row_per_run_and_share(umls_runs: Path) -> None:
    counted: list[tuple[int, int]] = []
    found = compute(
        [umls_runs / "none", umls_runs / "rescal"], [0.0, 0.5], "valid", progress=lambda *at: counted.append(at)
    )
    json.dumps(found, allow_nan=False)
    assert counted == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [(row["run"], row["model"], row["share"]) for row in found["rows"]] == [
        ("none", "complex", 0.0),
        ("none", "complex", 0.5),
        ("rescal", "rescal", 0.0),
        ("rescal", "rescal", 0.5),
    ]
    assert found["rows"][0]["mrr"] == dura.open(umls_runs / "none").evaluate("valid").mrr
    assert found["rows"][1]["zeros"] == pytest.approx(0.5, abs=0.01)


def test_a_run_is_refused_before_the_first_is_ranked(umls_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dura.runs.trained.open_run", lambda *_: pytest.fail("ranked"))
    with pytest.raises(BadInput, match="given more than once"):
        compute([umls_runs / "none", umls_runs / "dura", umls_runs / "none"])
    with pytest.raises(BadInput, match="no run folder"):
        compute([umls_runs / "none", umls_runs / "nowhere"])


def test_curves_are_named_by_what_differs(tmp_path: Path) -> None:
    about = {"graph": "g", "model": "complex", "zeros": 0.0, "mrr": 0.3, "csr": 6, "dense": 4}
    rows = [{"run": "a", "regularizer": "dura", **about}, {"run": "b", "regularizer": "n3", **about}]
    found = {"split": "valid", "rows": rows}
    text = draw(found, tmp_path / "f.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in ("dura", "n3", "valid MRR", "g complex"))
    alike = [{**row, "regularizer": "dura"} for row in rows]
    text = draw({"split": "test", "rows": alike}, tmp_path / "f.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in ("a", "b", "test MRR"))
    assert "valid facts" in sheets(found)["sparsity"].title


def test_the_legend_is_below_both_panels(tmp_path: Path) -> None:
    rows = [
        {"run": run, "graph": "umls", "model": "complex", "regularizer": "dura", "zeros": zeros, "mrr": mrr}
        for run in ("one-run-with-a-rather-long-name", "other-run-with-a-rather-long-name")
        for zeros, mrr in ((0.0, 0.5), (0.5, 0.25))
    ]
    found = {"split": "test", "rows": rows}
    assert png_size(draw(found, tmp_path / "sparsity.png")) == (1380, 510 + 30)
    text = draw(found, tmp_path / "sparsity.svg").read_text()
    assert text.count("<!-- one-run-with-a-rather-long-name -->") == 1
