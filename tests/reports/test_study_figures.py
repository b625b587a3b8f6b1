"""Tables and figures of the studies from plain values: what stands in them, and that files are what they seem."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from dura.reports import sparsity, studies
from dura.reports.tables import Sheet

CATEGORIES: dict[str, Any] = {
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


def projection(questions: int = 10, runs: int = 2) -> dict[str, Any]:
    numbers = {
        "silhouette cosine": 0.1234,
        "silhouette euclidean": -0.05,
        "silhouette picture": 0.7,
        "cosine within": 0.4,
        "cosine between": 0.1,
    }
    answers = [{"entity": f"e{i}", "label": f"e{i}", "question": i % questions + 1} for i in range(3 * questions)]
    answers.append({"entity": "both", "label": "both", "question": None})
    asked = [
        {
            "number": i + 1,
            "question": f"(h{i}, /a/path/likes, ?)",
            "parts": [f"h{i}", "/a/path/likes", "?"],
            "answers": 60 + i,
            "shared": 1,
            "shown": 3,
        }
        for i in range(questions)
    ]
    found = [
        {
            "label": f"run {r}",
            **numbers,
            "within by question": [0.1 * r + 0.01 * i for i in range(questions)],
            "coordinates": [[float(i % questions), float(i)] for i in range(len(answers))],
        }
        for r in range(runs)
    ]
    return {"graph": "tiny", "source": "the paper's ten", "questions": asked, "answers": answers, "runs": found}


def theory(holds: bool = True) -> dict[str, Any]:
    bounded = {"bounded": True, "gap": 3e-16, "moved": 1e-15, "ends": 2e-16, "conditions": 1e-8, "lowest": 1.0}
    none = {"bounded": False, "gap": None, "moved": None, "ends": 3.0, "conditions": None, "lowest": 0.4}
    trials = [
        {
            "statement": name,
            "regularizer": regularizer,
            "model": "cp",
            "ratios": ratios,
            "paths": [[3.0, 1.5, 1.0]],
            "holds": holds,
            **about,
        }
        for name, regularizer, ratios, about in (
            ("Theorem 1", "dura", [1.00000001, 4.0], bounded),
            ("Theorem 1, complex", "dura", [1.0, 9.0], bounded),
            ("p = 1 instead of 2", "reg-p1", [0.0, 0.5, 2.0], none),
        )
    ]
    return {"seed": 3, "size": 6, "trials": trials}


def test_categories_have_a_line_a_run_and_all_facts_last() -> None:
    sheet = studies.category_sheet(CATEGORIES)
    assert sheet.columns == ["run", "1-N", "N-N", "all"]
    assert sheet.rows[1] == {"run": "RESCAL DURA", "1-N": 0.4, "N-N": 0.6, "all": 0.5}
    assert "1-N 20, N-N 1,020" in sheet.notes[1]
    sides = studies.category_sheet(CATEGORIES, "category-side")
    assert sides.columns == ["run", "1-N tail", "1-N head", "N-N tail", "N-N head", "all"]
    assert "and side" in sides.title


def test_projection_tables_say_who_is_counted() -> None:
    sheet = studies.projection_sheet(projection())
    assert sheet.rows[0]["silhouette cosine"] == 0.1234
    assert "30 answers to one of them; 1 to several" in sheet.notes[1]
    asked = studies.question_sheet(projection())
    assert asked.columns == ["number", "question", "answers", "shared", "shown", "run 0", "run 1"]
    assert asked.rows[2]["run 1"] == pytest.approx(0.12)


def test_theory_tables_carry_the_verdict() -> None:
    rows = studies.theory_sheet(theory()).rows
    assert rows[0]["least ratio"] == "1.0000000100"
    assert rows[0]["at minimizers"] == "3e-16"
    assert [row["verdict"] for row in rows] == ["holds", "holds", "no bound, as the paper says"]
    assert rows[2]["at minimizers"] == rows[2]["minimised: gap"] == ""
    verdicts = [row["verdict"] for row in studies.theory_sheet(theory(holds=False)).rows]
    assert verdicts == ["FAILS", "FAILS", "no counterexample found"]


def size_of(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_figures_are_drawn(tmp_path: Path) -> None:
    drawn = studies.draw_categories(CATEGORIES, tmp_path / "categories.svg").read_text()
    assert {"RESCAL none", "RESCAL DURA", "1-N", "all"} <= set(re.findall(r"<!-- (.*?) -->", drawn))
    studies.draw_categories({**CATEGORIES, "runs": CATEGORIES["runs"][:1]}, tmp_path / "one.png")
    one = size_of(studies.draw_projection(projection(runs=1), tmp_path / "one.png"))
    two = size_of(studies.draw_projection(projection(runs=2), tmp_path / "two.png"))
    assert two[0] == 2 * one[0]
    seven = size_of(studies.draw_projection(projection(runs=7), tmp_path / "seven.png"))
    assert (seven[0], seven[1] > 2 * two[1]) == (3 * one[0], True)  # three in a line
    text = studies.draw_projection(projection(questions=2), tmp_path / "two.svg").read_text()
    words = set(re.findall(r"<!-- (.*?) -->", text, re.S))
    assert {"run 0", "run 1", "1  h0 · likes · ?", "several of these"} <= words
    assert any("silhouette: cosine 0.123, Euclidean −0.050" in word.replace("-", "−") for word in words)
    assert size_of(studies.draw_theory(theory(), tmp_path / "theory.png"))[0] > 600


def test_every_picture_has_the_numbers_of_the_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(
        studies, "save", lambda drawn, _: seen.extend([t.get_text() for t in p.texts] for p in drawn.axes)
    )
    studies.draw_projection(projection(questions=2), tmp_path / "two.svg")
    assert seen == [["1", "2"], ["1", "2"]]


def test_names_of_runs_take_no_room_from_the_bars(tmp_path: Path) -> None:
    long = [{**CATEGORIES["runs"][0], "label": f"a-rather-long-name-of-a-run-{i}"} for i in range(8)]
    two = size_of(studies.draw_categories(CATEGORIES, tmp_path / "two.png"))
    eight = size_of(studies.draw_categories({**CATEGORIES, "runs": long}, tmp_path / "eight.png"))
    assert (two, eight) == ((960, 540), (960, 510 + 8 * 30))  # lines of 0.2 inches each


def test_a_long_name_stands_above_its_picture_in_several_lines(tmp_path: Path) -> None:
    study = projection(questions=2)
    study["runs"][0]["label"] = "a-rather-long-name-" * 4
    text = studies.draw_projection(study, tmp_path / "long.svg").read_text()
    words = re.findall(r"<!-- (.*?) -->", text)
    assert {"a-rather-long-name-a-rather-long-name-a-", "rather-long-name-a-rather-long-name-"} <= set(words)


def test_the_legend_of_the_sparsity_figure_is_below_both_panes(tmp_path: Path) -> None:
    rows = [
        {"run": run, "graph": "umls", "model": "complex", "regularizer": "dura", "zeros": zeros, "mrr": mrr}
        for run in ("one-run-with-a-rather-long-name", "other-run-with-a-rather-long-name")
        for zeros, mrr in ((0.0, 0.5), (0.5, 0.25))
    ]
    assert size_of(sparsity.draw(rows, "test", tmp_path / "sparsity.png")) == (1380, 510 + 30)
    text = sparsity.draw(rows, "test", tmp_path / "sparsity.svg").read_text()
    assert text.count("<!-- one-run-with-a-rather-long-name -->") == 1


def test_files_can_be_read_again(tmp_path: Path) -> None:
    study = projection()
    sheet = studies.projection_sheet(study)
    files = sheet.write(tmp_path, "projection", **study)
    assert Sheet.read(tmp_path / "projection.json").rows == sheet.rows
    assert [file.name for file in files] == ["projection.md", "projection.csv", "projection.json"]
