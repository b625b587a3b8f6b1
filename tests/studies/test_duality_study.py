"""The study of duality: which run is which, its numbers, and what its sheet and figure show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dura
from doubles import Grouped
from dura.analysis.similarity import many_answers, similarity
from dura.studies.duality import compute, draw, sheets
from dura.studies.study import answer_rows, run_labels
from dura.types import BadInput
from folders import png_size
from graphs import random_graph
from plain import table_of

PROTOCOL = {"filter": "train+valid+test, filtered", "ties": "realistic", "candidates": "all 30 entities"}


def graph(name: str = "tiny", runs: tuple[tuple[str, str], ...] = (("RESCAL none", "plain"),)) -> dict[str, Any]:
    """What the study finds on one graph, made up."""
    found = [
        {
            "label": label,
            "kind": kind,
            "mrr": 0.25,
            "category": {"1-N": 0.2, "N-N": 0.3},
            "cosine": 0.6,
            "cosine any": -0.01,
            "distance": 0.7,
        }
        for label, kind in runs
    ]
    return {"graph": name, "protocol": PROTOCOL, "questions": 1234, "answers": 56789, "runs": found}


THREE = (("RESCAL none", "plain"), ("RESCAL DURA-I", "DURA-I"), ("dual RESCAL none", "dual"))
FOUND: dict[str, Any] = {"split": "test", "at least": 10, "graphs": [graph(runs=THREE)]}


@pytest.fixture(scope="module")
def duals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Duals of UMLS, with and without DURA, a distance model, and a dual of nations."""
    folder, settings = tmp_path_factory.mktemp("duals"), {"model.comparator": "distance"}
    for name, source, model, regularizer in (
        ("dual", "umls", "complex", "none"),
        ("dual-dura", "umls", "complex", "dura"),
        ("nations", "nations", "cp", "none"),
    ):
        trained = dura.fit(
            dura.load(source), model=model, rank=8, regularizer=regularizer, epochs=2, progress=False, settings=settings
        )
        trained.save(folder / name)
    dura.fit(dura.load("umls"), model="transe", rank=8, epochs=1, progress=False).save(folder / "transe")
    return folder


def test_numbers_are_those_of_evaluation_and_of_the_rows(umls_runs: Path, duals: Path) -> None:
    counted: list[tuple[int, int]] = []
    runs = [umls_runs / "none", umls_runs / "dura", duals / "dual", duals / "dual-dura", duals / "transe"]
    found = compute(runs, "valid", at_least=12, progress=lambda *at: counted.append(at))
    assert counted[-1][0] == counted[-1][1]
    (umls,) = found["graphs"]
    assert [run["kind"] for run in umls["runs"]] == ["plain", "DURA", "dual", "dual, DURA", "other"]
    assert (found["split"], found["at least"], umls["graph"]) == ("valid", 12, "umls")
    for run, path in zip(umls["runs"], runs, strict=True):
        opened = dura.open(path)
        result = opened.evaluate("valid", ["category"])
        assert (run["run"], run["mrr"]) == (str(path), result.mrr)
        assert run["category"] == {name: metrics.mrr for name, metrics in result.groups["category"].items()}
        asked = many_answers(opened.graph, 12)
        near = similarity(table_of(opened.model).detach().numpy(), asked)
        assert (run["cosine"], run["cosine any"], run["distance"]) == (near.cosine, near.cosine_any, near.distance)
        assert (umls["questions"], umls["answers"]) == (len(asked), asked.facts)
    json.dumps(found, allow_nan=False)


def test_runs_of_several_graphs_stand_together(umls_runs: Path, duals: Path) -> None:
    found = compute([umls_runs / "none", duals / "nations", duals / "dual"], at_least=5)
    assert [(one["graph"], len(one["runs"])) for one in found["graphs"]] == [("umls", 2), ("nations", 1)]
    sheet = sheets(found)["duality"]
    assert sheet.columns[:3] == ["graph", "run", "kind"]
    assert [(row["graph"], row["kind"]) for row in sheet.rows] == [
        ("umls", "plain"),
        ("umls", "dual"),
        ("nations", "dual"),
    ]
    with pytest.raises(BadInput, match="given 2 times"):
        compute([duals / "dual", duals / "nations", duals / "dual"])


def test_a_dual_is_called_so_in_every_study(umls_runs: Path, duals: Path) -> None:
    labels = run_labels([umls_runs / "none", duals / "dual", duals / "dual-dura"])
    assert labels == ["ComplEx none", "dual ComplEx none", "dual ComplEx DURA"]


def test_there_is_a_row_per_run_and_a_note_per_kind_that_is_missing() -> None:
    (sheet,) = sheets(FOUND).values()
    assert sheet.columns == [
        "run", "kind", "1-1", "1-N", "N-1", "N-N", "all", "cosine", "cosine any", "distance",
    ]  # fmt: skip
    assert (sheet.rows[2]["kind"], sheet.rows[2]["1-1"], sheet.rows[2]["N-N"]) == ("dual", None, 0.3)
    assert "1,234 questions with 10 known answers or more, 56,789 answers" in sheet.notes[-1]
    (alone,) = sheets({**FOUND, "graphs": [graph()]}).values()
    assert alone.notes[-2] == "No run is of the kind DURA; train one with --regularizer dura."
    assert "the kind dual; train one with --regularizer none --set model.comparator=distance" in alone.notes[-1]


def test_the_figure_names_graphs_runs_and_similarities(tmp_path: Path) -> None:
    drawn = draw(FOUND, tmp_path / "duality.svg").read_text()
    words = set(re.findall(r"<!-- (.*?) -->", drawn))
    assert {"tiny", "RESCAL none", "dual RESCAL none", "1-N", "all", "the answers of 1,234 questions"} <= words
    two = {**FOUND, "graphs": [graph(runs=THREE), graph("other", (("CP none", "plain"),))]}
    words = set(re.findall(r"<!-- (.*?) -->", draw(two, tmp_path / "two.svg").read_text()))
    assert {"tiny", "other", "RESCAL none", "CP none"} <= words
    one, more = png_size(draw(FOUND, tmp_path / "one.png")), png_size(draw(two, tmp_path / "more.png"))
    assert one[0] == more[0] and more[1] > 1.8 * one[1]


def test_a_model_whose_answers_depend_on_the_question_is_refused() -> None:
    model = Grouped(random_graph().sizes)
    with pytest.raises(BadInput, match="embeddings of answers depend on the relation in the model Grouped"):
        answer_rows(model, np.arange(3))
