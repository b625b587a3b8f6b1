"""`dura reproduce` as it is typed: tables, what they leave, and every way in which a start can end."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.main import app
from dura.types import BadInput

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "200",
    "DURA_DATA": "",
    "PYTHONPATH": str(Path(dura.__file__).parents[1]),
}
CELL = ("small", "--only", "nations/complex-none", "--out", "out")


@contextmanager
def start(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which does not outlive a test that fails."""
    command = [sys.executable, "-m", "dura", "reproduce", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def inside(*arguments: str, **environment: str) -> Any:
    """The command in this process: quick, for what starts no other."""
    return CliRunner(env={"DURA_DATA": "", **environment}).invoke(app, ["reproduce", *arguments])


def wait_for_epochs(run: Path, more_than: int) -> int:
    end = time.monotonic() + 200
    while time.monotonic() < end:
        records = (run / "records.jsonl").read_text() if (run / "records.jsonl").exists() else ""
        if (epochs := records.count('"kind": "epoch"')) > more_than:
            return epochs
        time.sleep(0.1)
    raise AssertionError("training did not begin")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_interrupted_killed_and_started_again(tmp_path: Path) -> None:
    """Ctrl-C, then kill -9, then a start that waits for the last step of the killed one's worker and goes to the end."""
    run = tmp_path / "out" / "runs" / "nations-complex-none-seed0"
    with start(*CELL, cwd=tmp_path) as first:
        epochs = wait_for_epochs(run, 0)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate()
    assert first.returncode == 130 and "Traceback" not in said
    assert said.splitlines()[-1] == "dura: stopped; the same command goes on from here"
    assert "stopping after this step" in said
    with start(*CELL, cwd=tmp_path):
        wait_for_epochs(run, epochs)
    with start(*CELL, "--json", cwd=tmp_path) as third:
        printed, said = third.communicate()
    assert third.returncode == 0, said
    document = json.loads(printed)
    (row,) = document["tables"]["small"]["rows"]
    assert (row["system"], row["graph"], row["status"], row["seeds"]) == ("ComplEx", "nations", "done", 1)
    assert row["ours"] == pytest.approx(0.699, abs=0.003)  # what the preset says: stopped twice, still the same numbers
    kinds = [json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()]
    # No resume if it was stopped while it was being evaluated.
    assert kinds.count("end") == 1 and kinds.count("start") == 1 and kinds.count("resume") in (0, 1, 2)
    left_files(tmp_path / "out", row)
    stopped_with_a_result(tmp_path, row)


def stopped_with_a_result(folder: Path, row: dict[str, Any]) -> None:
    """Ctrl-C during the second seed leaves the table of the first."""
    for file in (folder / "out").glob("small.*"):
        file.unlink()
    with start(*CELL, "--seeds", "2", cwd=folder) as process:
        wait_for_epochs(folder / "out" / "runs" / "nations-complex-none-seed1", 0)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    rows = json.loads((folder / "out" / "small.json").read_text())["rows"]
    (again,) = [r for r in rows if r["ours"] is not None]
    assert again["ours"] == row["ours"]
    # The second seed may have come to its end before it saw Ctrl-C.
    assert again["status"].startswith(("1 of 2 seeds, unfinished, epoch ", "1 of 2 seeds, trained, not evaluated"))
    assert (folder / "out" / "small.md").exists() and (folder / "out" / "small.csv").exists()


def left_files(out: Path, row: dict[str, Any]) -> None:
    """The whole table stands in the files, in three forms."""
    written = json.loads((out / "small.json").read_text())
    assert len(written["rows"]) == 33
    assert row in written["rows"]
    cell = next(cell for cell in written["cells"] if cell["preset"] == "nations/complex-none")
    assert cell["results"][0]["mrr"] == row["ours"] and cell["results"][0]["training"]["seconds"] > 0
    with (out / "small.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["ours"]) for r in rows if r["ours"]] == [row["ours"]]
    assert [r["status"] for r in rows].count("not run") == 32
    assert "| ComplEx | nations |" in (out / "small.md").read_text()
    shown = inside("small", "--only", "nations", "--only", "none", "--show", "--out", str(out))
    assert shown.exit_code == 0
    assert f"{row['ours']:.4f}" in shown.stdout and "not run" in shown.stdout
    assert "kinships" not in shown.stdout


def test_cells_are_listed_with_their_cost(tmp_path: Path) -> None:
    shown = inside("--list", "--laptop", "--only", "complex", "--only", "wn18rr", DURA_CACHE=str(tmp_path))
    lines = shown.stdout.splitlines()
    assert lines[0] == "5 cells, cheapest first"
    assert any(line.startswith("wn18rr/complex-dura-laptop") and " no " in line for line in lines)
    assert lines[-1].startswith("time: estimated for all epochs of one seed, with validation and test, ")
    listed = json.loads(inside("main", "--list", "--only", "yago3-10", "--json", DURA_CACHE=str(tmp_path)).stdout)
    seconds = [cell["seconds"] for cell in listed["cells"]]
    assert len(seconds) == 15 and seconds == sorted(seconds)
    assert {cell["here"] for cell in listed["cells"]} == {False}
    assert listed["cells"][-1]["bytes"] > 3 * 4 * 2000 * 123182
    assert sum(seconds) / listed["jobs"] <= listed["seconds"] <= sum(seconds)


def test_the_headline_table_is_listed_cheapest_first_and_shown_next_to_the_paper(tmp_path: Path) -> None:
    listed = json.loads(inside("headline", "--list", "--jobs", "1", "--json", DURA_CACHE=str(tmp_path)).stdout)
    seconds = [cell["seconds"] for cell in listed["cells"]]
    assert len(seconds) == 22 and seconds == sorted(seconds) and listed["seconds"] == pytest.approx(sum(seconds))
    shown = json.loads(inside("headline", "--show", "--json", "--out", str(tmp_path / "out")).stdout)
    rows = {(row["graph"], row["system"]): row["paper"] for row in shown["tables"]["headline"]["rows"]}
    assert len(rows) == 22 and rows["icews14", "TComplEx-DURA1"] == 0.64 and rows["wn18rr", "ComplEx-N3"] == 0.489


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            (),
            "which table? main, regularizers, temporal, ablation, p1, headline, systems, small or all; see: dura reproduce --list",
        ),
        (("sparsity",), "the table 'sparsity' is not known"),
        (("main", "--only", "ComplEx"), "did you mean 'complex'?"),
        (("headline", "--laptop"), "no laptop settings: leave out --laptop, or name another table"),
        (("small", "--device", "meta"), "the device 'meta' is not available"),
        (("main", "--only", "wn18rr"), "not on this machine: wn18rr; get with: dura data get wn18rr, or name"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = inside(*arguments, "--out", str(tmp_path / "out"), DURA_CACHE=str(tmp_path))
    assert isinstance(done.exception, BadInput)
    assert sentence in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_where_nothing_can_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = inside("small", "--out", str(tmp_path / "file"))
    assert isinstance(done.exception, BadInput)
    assert "file is not a folder; name another one with --out" in str(done.exception)
    assert "nothing has been run in" in inside("small", "--show", "--out", str(tmp_path / "none")).stderr


def test_help_has_examples() -> None:
    text = inside("--help").stdout
    assert "dura reproduce small --seeds 3" in text.split("Examples", 1)[1]
    assert "dura reproduce headline --list" in text.split("Examples", 1)[1]


def test_a_failing_cell_ends_with_one_and_stands_in_the_table(tmp_path: Path) -> None:
    """A run folder that someone filled with other things."""
    taken = tmp_path / "out" / "runs" / "nations-complex-none-seed0"
    taken.mkdir(parents=True)
    (taken / "letter.txt").write_text("mine")
    failed = inside(*CELL[:-1], str(tmp_path / "out"))
    assert failed.exit_code == 1 and "dura: 1 run to do, about " in failed.stderr
    assert "nations-complex-none-seed0 is not an empty folder" in failed.stdout
    rows = json.loads((tmp_path / "out" / "small.json").read_text())["rows"]
    (row,) = [row for row in rows if (row["system"], row["graph"]) == ("ComplEx", "nations")]
    assert "not an empty folder" in row["status"]
    assert (taken / "letter.txt").read_text() == "mine"
