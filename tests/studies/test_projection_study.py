"""The study of projections: every kind of questions on real runs, and what its sheets and figure show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dura
from dura.sheets.sheet import Sheet
from dura.studies import projection
from dura.studies.projection import compute, draw, sheets
from dura.types import BadInput, DuraError
from folders import png_size
from plain import table_of


def plain(questions: int = 10, runs: int = 2) -> dict[str, Any]:
    """What a study finds, made up."""
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


def test_projection_of_drawn_questions(umls_runs: Path) -> None:
    found = compute([umls_runs / "none", umls_runs / "dura"], more_than=20, most=15, seed=1)
    assert found["source"].endswith("drawn with seed 1 from those with more than 20 answers")
    json.dumps(found, allow_nan=False)
    graph = dura.load("umls")
    known = {
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in np.concatenate([graph.train, graph.valid, graph.test]).tolist()
    }
    names = {graph.label(name): name for name in graph.entities}
    for asked in found["questions"]:
        head, relation, tail = (names.get(part, part) for part in asked["parts"])
        answers = {t for h, r, t in known if (h, r) == (head, relation)} | {
            h for h, r, t in known if (r, t) == (relation, tail)
        }
        assert asked["answers"] == len(answers) > 20
        shown = [answer["entity"] for answer in found["answers"] if answer["question"] == asked["number"]]
        assert set(shown) <= answers
        assert asked["shown"] == len(shown) <= 15
    for run in found["runs"]:
        assert len(run["coordinates"]) == len(found["answers"])
        assert len(run["within by question"]) == len(found["questions"])
        assert run["cosine within"] == pytest.approx(np.mean(run["within by question"]))
        assert all(-1 <= run[f"silhouette {kind}"] <= 1 for kind in ("cosine", "euclidean", "picture"))
    assert found["runs"][0]["coordinates"] != found["runs"][1]["coordinates"]
    assert compute([umls_runs / "dura"], more_than=20, most=15, seed=1)["runs"][0] == found["runs"][1]


def test_projection_of_questions_from_a_file(umls_runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("virus\tcauses\t?\n?\ttreats\tneoplastic_process\n")
    found = compute([umls_runs / "dura"], questions=str(file))
    graph = dura.open(umls_runs / "dura").graph
    labels = [graph.label(name) for name in ("virus", "neoplastic_process")]
    assert [asked["parts"] for asked in found["questions"]] == [[labels[0], "causes", "?"], ["?", "treats", labels[1]]]
    assert found["source"] == "from the file mine.tsv"
    for lines, sentence in (
        ("virus\tcauses\t?\nvirus\tcauses\t?\n", "1 different questions on 2 lines"),
        ("virus\tcauses\t?\n", "1 different questions on 1 lines"),
        ("virus\tcauses\t?\nvirus\tvirus\t?\n", "relation 'virus' is not in this graph"),
        ("virus\tcauses\t?\nvirus\ttreats\t?\n", r"\(virus, treats, \?\) has no known answer"),
        ("virus\tcauses\t?\t2014\nvirus\taffects\t?\t2014\n", "has a time"),
    ):
        file.write_text(lines)
        with pytest.raises(BadInput, match=sentence):
            compute([umls_runs / "dura"], questions=str(file))


def test_what_cannot_be_shown_is_refused(umls_runs: Path) -> None:
    with pytest.raises(BadInput, match="'umls' does not have the paper's ten questions"):
        compute([umls_runs / "dura"], questions="paper")
    with pytest.raises(BadInput, match="--more-than"):
        compute([umls_runs / "dura"], more_than=100)
    with pytest.raises(BadInput, match="nowhere.tsv"):
        compute([umls_runs / "dura"], questions="nowhere.tsv")


def test_a_collapsed_run_is_named(umls_runs: Path, tmp_path: Path) -> None:
    trained = dura.open(umls_runs / "none")
    with torch.no_grad():
        table_of(trained.model).fill_(0)
    trained.save(tmp_path / "flat")
    with pytest.raises(DuraError, match="flat: all answers have the same embedding"):
        compute([tmp_path / "flat"], more_than=20)


def test_the_sheets_say_which_answers_count() -> None:
    sheet, asked = sheets(plain()).values()
    assert sheet.rows[0]["silhouette cosine"] == 0.1234
    assert "30 answers to one of them; 1 to several" in sheet.notes[1]
    assert asked.columns == ["number", "question", "answers", "shared", "shown", "run 0", "run 1"]
    assert asked.rows[2]["run 1"] == pytest.approx(0.12)


def test_the_figure_has_a_panel_per_run(tmp_path: Path) -> None:
    one = png_size(draw(plain(runs=1), tmp_path / "one.png"))
    two = png_size(draw(plain(runs=2), tmp_path / "two.png"))
    assert two[0] == 2 * one[0]
    seven = png_size(draw(plain(runs=7), tmp_path / "seven.png"))
    assert (seven[0], seven[1] > 2 * two[1]) == (3 * one[0], True)  # three in a line
    text = draw(plain(questions=2), tmp_path / "two.svg").read_text()
    words = set(re.findall(r"<!-- (.*?) -->", text, re.S))
    assert {"run 0", "run 1", "1  h0 · likes · ?", "several of these"} <= words
    assert any("silhouette: cosine 0.123, Euclidean −0.050" in word.replace("-", "−") for word in words)


def test_every_panel_has_the_numbers_of_the_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(
        projection, "save", lambda drawn, _: seen.extend([t.get_text() for t in p.texts] for p in drawn.axes)
    )
    draw(plain(questions=2), tmp_path / "two.svg")
    assert seen == [["1", "2"], ["1", "2"]]


def test_a_long_name_stands_above_its_panel_in_several_lines(tmp_path: Path) -> None:
    found = plain(questions=2)
    found["runs"][0]["label"] = "a-rather-long-name-" * 4
    words = re.findall(r"<!-- (.*?) -->", draw(found, tmp_path / "long.svg").read_text())
    assert {"a-rather-long-name-a-rather-long-name-a-", "rather-long-name-a-rather-long-name-"} <= set(words)


def test_files_can_be_read_again(tmp_path: Path) -> None:
    found = plain()
    sheet = sheets(found)["projection"]
    files = sheet.write(tmp_path, "projection", **found)
    assert Sheet.read(tmp_path / "projection.json").rows == sheet.rows
    assert [file.name for file in files] == ["projection.md", "projection.csv", "projection.json"]
