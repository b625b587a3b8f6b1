"""Run folders as plain values: which evaluation counts, how a run stands, and what tells runs apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from dura.config import Experiment
from dura.reports.runs import differing, read_run, read_runs
from dura.types import BadInput
from folders import CURVE, END, epoch, evaluation, metrics, run_folder


def test_the_newest_evaluation_counts_and_breakdowns_of_the_same_tables_come_together(tmp_path: Path) -> None:
    old = evaluation(0.2, epoch=2, groups={"relation": {"r": metrics(0.2)}})
    new = [
        evaluation(0.3, groups={"side": {"tail": metrics(0.4), "head": metrics(0.2)}}),
        evaluation(0.3, groups={"category": {"N-N": metrics(0.3)}}),
        evaluation(0.31, split="valid"),
        evaluation(0.25, filter="train+valid+test, static filter (answers at any time)"),
        evaluation(0.3),
    ]
    run = read_run(run_folder(tmp_path / "run", [*CURVE, END, old, *new]))
    found = run.evaluations
    assert [(e.split, e.headline["mrr"], sorted(e.groups)) for e in found] == [
        ("test", 0.3, ["category", "side"]),
        ("test", 0.25, []),
        ("valid", 0.31, []),
    ]
    test = run.evaluation()
    assert test is not None
    assert test.groups["side"]["head"]["mrr"] == 0.2
    assert run.evaluation("train") is None


def test_an_epoch_recorded_twice_counts_once_and_the_first_of_equal_bests_is_the_best(tmp_path: Path) -> None:
    records = [
        {"kind": "start"},
        epoch(1, 0.1),
        epoch(2, 0.4),
        {"kind": "resume", "epoch": 1, "step": 3},
        epoch(2, 0.3),
    ]
    path = run_folder(tmp_path / "run", [*records, epoch(3, 0.3)])
    with (path / "records.jsonl").open("a") as file:
        file.write('{"kind": "epoch", "epo')  # what a killed process leaves
    run = read_run(path)
    assert [record["epoch"] for record in run.curve] == [1, 2, 3]
    assert run.best is not None
    assert (run.best["epoch"], run.best["valid"]["mrr"]) == (2, 0.3)
    assert run.events == ["resumed after epoch 1, step 3"]


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([*CURVE, END], "finished, 4 of at most 100 epochs"),
        (CURVE, "not finished (it is training, or was stopped), 4 of at most 100 epochs"),
        ([*CURVE, {"kind": "failure", "text": "x"}], "failed, 4 of at most 100 epochs"),
        ([*CURVE, END, evaluation(0.3)], "finished, 4 of at most 100 epochs"),
        ([], "a saved model, without records of its training"),
    ],
)
def test_how_a_run_stands(tmp_path: Path, records: list[dict[str, object]], state: str) -> None:
    assert read_run(run_folder(tmp_path / "run", records)).state == state


def test_what_happened_is_told_in_order(tmp_path: Path) -> None:
    happened = [
        {"kind": "start", "auto": "auto took batches of 64 questions"},
        {"kind": "notice", "text": "careful"},
        {"kind": "failure", "text": "no space"},
        {"kind": "something new"},
    ]
    run = read_run(run_folder(tmp_path / "run", happened))
    assert run.events == ["auto took batches of 64 questions", "notice: careful", "failure: no space"]


def test_settings_that_differ(tmp_path: Path) -> None:
    weight = {"regularizer.weight": 0.1}
    paths = [
        run_folder(tmp_path / "a", settings=weight),
        run_folder(tmp_path / "b", settings={"regularizer.name": "none", "training.seed": 3}),
    ]
    own = differing(read_runs(paths))
    assert own == {
        "regularizer.name": ["dura", "none"],
        "regularizer.weight": [0.1, None],
        "training.seed": [0, 3],
    }
    flat = Experiment().by_path()
    assert flat["graph.columns"] == ()
    assert not any(path.startswith(("version", "expected")) for path in flat)


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a run folder"):
        read_run(tmp_path)
