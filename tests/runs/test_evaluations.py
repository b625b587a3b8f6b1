"""Evaluations are kept among the records where that can be, and never in the way of who only reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dura
from dura.records import RunFolder
from dura.runs.api import choose
from dura.runs.evaluations import evaluate_run, keep
from dura.runs.run import train
from dura.runs.trained import Trained
from graphs import random_graph

GRAPH = random_graph()


@pytest.fixture
def run(tmp_path: Path) -> Trained:
    settings = {"model.rank": 4, "training.epochs": 3, "training.batch": 10, "training.checkpoint_every": 0.0}
    return train(choose(None, graph="random", settings=settings), GRAPH, tmp_path / "run")


def test_a_result_is_appended_as_it_is_with_the_epoch_of_its_tables(run: Trained) -> None:
    assert run.path is not None
    before = RunFolder.open(run.path).records()
    result = run.evaluate("valid", by=["side", "relation"])
    assert keep(run.path, result) == ""
    *earlier, record = RunFolder.open(run.path).records()
    assert earlier == before
    assert {key: value for key, value in record.items() if key not in ("kind", "at", "epoch")} == result.to_dict()
    assert record["kind"] == "evaluation"
    best = max((r for r in before if "valid" in r), key=lambda r: r["valid"]["mrr"])
    assert record["epoch"] == best["epoch"]
    assert record["mrr"] == best["valid"]["mrr"]


def test_a_run_is_opened_evaluated_and_its_result_kept(run: Trained) -> None:
    assert run.path is not None
    said: list[str] = []
    result = evaluate_run(run.path, "valid", "side", notify=said.append)
    assert result.to_dict() == run.evaluate("valid", "side").to_dict()
    assert RunFolder.open(run.path).records()[-1]["by"] == result.to_dict()["by"]
    with RunFolder(run.path).lock():
        again = evaluate_run(run.path, "valid", notify=said.append)
    assert again.mrr == result.mrr
    assert [sentence.partition(": ")[0] for sentence in said] == [
        f"the result is not kept in the records of {run.path}"
    ]


def test_without_valid_facts_the_tables_are_those_of_the_last_epoch(tmp_path: Path) -> None:
    graph = dura.from_facts([("a", "r", "b"), ("b", "r", "c")], test=[("a", "r", "c")], valid_share=0)
    model = dura.fit(graph, rank=2, epochs=2, out=tmp_path / "run", progress=False)
    assert keep(tmp_path / "run", model.evaluate()) == ""
    assert RunFolder.open(tmp_path / "run").records()[-1]["epoch"] == 2


def test_a_saved_model_does_not_know_its_epoch(tmp_path: Path) -> None:
    model = dura.fit(GRAPH, rank=2, epochs=1, progress=False)
    path = model.save(tmp_path / "saved")
    assert keep(path, model.evaluate()) == ""
    assert RunFolder.open(path).records()[-1]["epoch"] is None


def test_a_run_in_use_is_left_alone_with_a_sentence(run: Trained) -> None:
    assert run.path is not None
    result = run.evaluate()
    before = (run.path / "records.jsonl").read_bytes()
    with RunFolder(run.path).lock():
        sentence = keep(run.path, result)
    assert sentence.startswith(f"the result is not kept in the records of {run.path}: ")
    assert "in use" in sentence
    assert (run.path / "records.jsonl").read_bytes() == before


def test_a_folder_that_cannot_be_written_is_left_alone_with_a_sentence(run: Trained) -> None:
    assert run.path is not None
    (run.path / ".lock").unlink()
    (run.path / "records.jsonl").unlink()
    (run.path / "records.jsonl").mkdir()  # root may write anything but a folder
    sentence = keep(run.path, run.evaluate())
    assert sentence.startswith(f"the result is not kept in the records of {run.path}: ")
    assert sentence.endswith("records.jsonl cannot be read: it is a folder, not a file")
    shutil.rmtree(run.path / "records.jsonl")
