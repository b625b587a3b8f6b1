"""Exported runs in a report: their form, and what it saves and costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dura.records import exported_as
from dura.reports.comparison import comparison_sheet
from dura.reports.exported import Export
from dura.reports.markdown import page_markdown
from dura.reports.page import read_sources, report
from dura.reports.runs import read_runs
from folders import CURVE, END, evaluation, run_folder

PLAIN = {"kind": "export"}
SPARSE = {"kind": "export", "format": 1, "dtype": "float32", "sparse": 0.7, "threshold": 0.35181}
INT8 = {"kind": "export", "format": 1, "dtype": "int8", "sparse": None, "threshold": None}


def measured(made: Mapping[str, Any], *splits: str, zeros: float | None = None, **more: Any) -> dict[str, Any]:
    """A record of kind "measured", as the export above would leave it."""
    both = {
        "before": {"mrr": 0.9, "hits@1": 0.8, "hits@3": 0.95, "hits@10": 1.0},
        "after": {"mrr": 0.7, "hits@1": 0.5, "hits@3": 0.85, "hits@10": None},
    }
    return {
        **{key: made.get(key) for key in ("sparse", "dtype", "threshold")},
        "kind": "measured",
        "zeros": zeros,
        "bytes": {"tables": {"before": 2_000_000, "after": 500_000}, "folder": {"before": None, "after": 600_000}},
        "figures": dict.fromkeys(splits, both),
        **more,
    }


def page_of(*paths: Path) -> str:
    return page_markdown(report(*read_sources(paths)), "", "figures")


def test_the_page_of_an_exported_run_says_its_form_and_its_price(tmp_path: Path) -> None:
    records = [SPARSE, measured(SPARSE, "valid", zeros=0.7012, run="runs/dura")]
    text = page_of(run_folder(tmp_path / "small", records))
    for said in (
        "# small (70 % zeros)\n",
        "Exported: sparse, 70.1% of the entities' entries zero (\\|x\\| &lt; 0.3518), float32.",
        "| valid MRR, exported | 0.7000 | 0.9000 before, -0.2000 |",
        "- state: an exported model, without records of its training",
        "## Export\n\n- exported from: runs/dura\n- tables: sparse, 70.1% of the entities' entries zero",
        "| bytes of the tables | 2.00 MB | 0.50 MB | -75.0% |",
        "| bytes of the folder |  | 0.60 MB |  |",
        "| valid MRR | 0.9000 | 0.7000 | -0.2000 |",
        "| valid Hits@10 | 1.0000 |  |  |",
        "The settings are those with which the tables were trained.",
        "The test facts have not been ranked.",
    ):
        assert said in text, said
    assert "a saved model" not in text


def test_an_exported_run_is_told_among_others_by_its_form(tmp_path: Path) -> None:
    trained = run_folder(tmp_path / "a" / "umls", [*CURVE, END, evaluation(0.34)])
    small = run_folder(tmp_path / "b" / "umls", [INT8, measured(INT8, "valid", "test"), evaluation(0.24, epoch=None)])
    sheet = comparison_sheet(read_runs([trained, small]))
    told = [{key: row[key] for key in ("run", "test MRR", "valid MRR", "epochs")} for row in sheet.rows]
    assert told == [
        {"run": "a/umls", "test MRR": 0.34, "valid MRR": 0.35, "epochs": 4},
        {"run": "b/umls (int8)", "test MRR": 0.24, "valid MRR": 0.7, "epochs": None},
    ]
    text = page_of(trained, small)
    section = text.partition("### b/umls (int8)\n")[2]
    assert "- tables: int8\n" in section
    assert "| test MRR | 0.9000 | 0.7000 | -0.2000 |" in section
    assert "- tables:" not in text.partition("### b/umls (int8)\n")[0]


def test_what_the_export_ranked_stands_beside_other_runs(tmp_path: Path) -> None:
    trained = run_folder(tmp_path / "umls", [*CURVE, END, evaluation(0.34)])
    small = run_folder(tmp_path / "small", [INT8, measured(INT8, "valid", "test")])
    assert [row["test MRR"] for row in comparison_sheet(read_runs([trained, small])).rows] == [0.34, 0.7]
    assert "no evaluation of their test facts" not in page_of(trained, small)


def test_test_facts_that_the_export_ranked_are_not_called_unranked(tmp_path: Path) -> None:
    text = page_of(run_folder(tmp_path / "small", [INT8, measured(INT8, "valid", "test")]))
    assert "The test facts were ranked only during the export. `dura evaluate " in text
    assert "have not been ranked" not in text


def test_a_copy_with_tables_as_trained_is_not_called_small(tmp_path: Path) -> None:
    text = page_of(run_folder(tmp_path / "copy", [PLAIN]))
    assert text.startswith("# copy\n")
    assert "Exported:" not in text
    assert "- state: a saved model, without records of its training" in text
    assert "- tables: as trained\n\nWhat the export costs was not measured." in text


@pytest.mark.parametrize(
    ("records", "label", "form"),
    [
        ([SPARSE], "70 % zeros", "sparse, 70.0% ZEROS, float32"),
        ([SPARSE, measured(SPARSE, zeros=0.75)], "70 % zeros", "sparse, 75.0% ZEROS, float32"),
        ([{**SPARSE, "dtype": "float16"}], "70 % zeros, float16", "sparse, 70.0% ZEROS, float16"),
        ([INT8], "int8", "int8"),
        ([{"kind": "export", "format": 1, "dtype": "float32"}], "sparse", "sparse, float32"),
        ([PLAIN, measured(PLAIN, "valid")], "", "as trained"),
    ],
)
def test_words_for_the_form_of_tables(records: list[dict[str, Any]], label: str, form: str) -> None:
    found = Export.of(records)
    assert found is not None
    zeros = "of the entities' entries zero (|x| < 0.3518)"
    assert (exported_as(records), found.form) == (label, form.replace("ZEROS", zeros))


def test_a_trained_run_was_not_exported() -> None:
    assert Export.of([*CURVE, END]) is None
