"""`dura sweep` and `dura study sensitivity` as scripts see them: processes, signals, files, one sentence."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dura.cli.main import app
from dura.training.trainer import Interrupted
from dura.types import BadInput

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "DURA_DATA": ""}
SMALL = """
preset = "nations/complex-dura"

[model]
rank = 4

[training]
epochs = 3
batch = 250
validate_every = 1

[sweep]
method = "grid"
prune = false

[sweep.space]
"regularizer.weight" = [0.001, 0.01]
"training.seed" = [0, 1]
"""


def dura(*arguments: object, cwd: Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dura", *map(str, arguments)],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert check is None or done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def here(*arguments: object) -> str:
    """What a command prints, run in this process: most of a new one's time would go into imports."""
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def mrrs(document: Any) -> list[tuple[Any, ...]]:
    return [(t["trial"], t["state"], t["valid_mrr"], t["values"]) for t in document["trials"]]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep's file, and the sweep done."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "small.toml").write_text(SMALL)
    done = dura("sweep", "small.toml", "--out", "done", cwd=folder)
    (folder / "done.txt").write_text(done.stdout + "\n" + done.stderr)
    return folder


@pytest.fixture
def home(swept: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(swept)
    return swept


def test_a_sweep_leaves_a_table_figures_and_a_preset(home: Path) -> None:
    said = (home / "done.txt").read_text()
    assert "trial 0, 1/4  complete  valid MRR 0." in said
    assert "next: dura evaluate done/runs/trial-" in said
    there = {path.name for path in (home / "done").iterdir()}
    assert there >= {"sweep.toml", "sweep.sqlite", "best.toml", "summary.md", "summary.csv", "summary.json"}
    assert there >= {"history.png", "slices.png", "importance.png"}
    document = json.loads((home / "done" / "summary.json").read_text())
    rows = list(csv.DictReader((home / "done" / "summary.csv").read_text().splitlines()))
    assert [int(row["trial"]) for row in rows] == [row["trial"] for row in document["rows"]]
    assert (document["format"], document["best"]) == (1, document["rows"][0]["trial"])
    assert sum(document["importance"].values()) == pytest.approx(1)


def test_the_best_preset_trains_to_its_figure(home: Path) -> None:
    best = tomllib.loads((home / "done" / "best.toml").read_text())
    trained = here("train", "done/best.toml", "--out", "again", "--quiet", "--json")
    assert round(json.loads(trained)["valid"]["mrr"], 4) == best["expected"]["valid_mrr"]


def test_a_finished_sweep_reports_in_json_and_its_best_run_evaluates(home: Path) -> None:
    document = json.loads(here("sweep", "--resume", "done", "--json", "--quiet"))
    assert set(document) == {"sweep", "best", "preset", "importance", "choices", "trials"}
    assert document["choices"] == []  # only a sweep without a file chooses by itself
    assert document["best"] == document["trials"][0]
    figures = [trial["valid_mrr"] for trial in document["trials"]]
    assert figures == sorted(figures, reverse=True)
    evaluated = json.loads(here("evaluate", document["best"]["run"], "--split", "valid", "--json"))
    assert evaluated["mrr"] == pytest.approx(document["best"]["valid_mrr"])


@pytest.mark.slow
def test_killed_and_resumed_loses_nothing(home: Path) -> None:
    """kill -9 as soon as the second trial has begun, then two processes to the end."""
    command = [sys.executable, "-m", "dura", "sweep", "small.toml", "--out", "war", "--quiet"]
    first = subprocess.Popen(command, cwd=home, env=ENVIRONMENT)
    _wait(first, lambda: (home / "war/runs/trial-1/settings.toml").exists())
    first.kill()
    first.wait()
    documents = [
        json.loads(here("sweep", "--resume", name, "--jobs", 2, "--json", "--quiet")) for name in ("done", "war")
    ]
    assert mrrs(documents[0]) == mrrs(documents[1])


@pytest.mark.slow
def test_ctrl_c_reaches_every_process_and_says_how_to_go_on(home: Path) -> None:
    endless = ["--set", "training.epochs=100000", "--set", "training.patience=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dura", "sweep", "small.toml", "--out", "long", "--quiet", "--jobs", "2", *endless],
        cwd=home, env=ENVIRONMENT, start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    records = [home / f"long/runs/trial-{n}/records.jsonl" for n in (0, 1)]
    _wait(process, lambda: all(file.exists() and b"epoch" in file.read_bytes() for file in records))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130, said
    assert "stopped with 0 of 4 trials finished; continue with: dura sweep --resume long" in said
    assert "Traceback" not in said
    for run in ("trial-0", "trial-1"):
        assert list((home / "long/runs" / run / "checkpoints").glob("step-*.json"))  # each went in peace


def test_ctrl_c_leaves_the_table_of_the_trials_that_have_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here("sweep", "small.toml", "--out", "half", "--trials", 2, "--quiet")
    for file in (*(home / "half").glob("*.png"), *(home / "half").glob("summary.*"), home / "half/best.toml"):
        file.unlink()
    monkeypatch.setattr("dura.cli.train.stop_on_interrupt", lambda: contextlib.nullcontext(lambda: True))
    with pytest.raises(Interrupted, match="stopped with 2 of 4 trials finished"):
        here("sweep", "--resume", "half", "--trials", 4, "--quiet")
    rows = json.loads((home / "half/summary.json").read_text())["rows"]
    assert [row["state"] for row in rows] == ["complete", "complete"]
    best = tomllib.loads((home / "half/best.toml").read_text())["expected"]["valid_mrr"]
    assert best == round(max(row["valid MRR"] for row in rows), 4)
    assert (home / "half/history.png").exists() and (home / "half/slices.png").exists()


def _wait(process: subprocess.Popen[Any], there: Any) -> None:
    began = time.monotonic()
    while not there():
        assert process.poll() is None
        assert time.monotonic() - began < 240, "nothing happened in four minutes"
        time.sleep(0.02)


def test_the_ready_grids_are_listed(home: Path) -> None:
    listed = json.loads(here("sweep", "--list", "--json"))["grids"]
    assert listed["umls/complex-dura"]["combinations"] == 12
    assert listed["icews14/tcomplex-dura1-laptop"]["combinations"] is None
    assert "3,510" in here("sweep", "--list")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep"], "which sweep?"),
        (["sweep", "small.toml", "--out", "done"], "already holds a sweep"),
        (["sweep", "small.toml", "--set", "model.rang=3"], "did you mean 'rank'?"),
        (["sweep", "--resume", "done", "--set", "model.rank=3"], "takes no --set"),
        (["study", "sensitivity", "umls/complex-dura"], "a preset needs --over KEY=A,B,C"),
        (["study", "sensitivity", "done", "--over", "model.rank"], "'model.rank' does not vary in these runs"),
        (["study", "sensitivity", "nations/complex-dura", "--over", "training.epochs=a"], "must be a whole number"),
        (["study", "sensitivity", "nations/complex-dura", "--over", "model.rank="], "--over takes KEY=A,B,C"),
        (["study", "sensitivity", "nations/complex-dura", "--over", "model.rnk=1,2"], "did you mean 'rank'?"),
        (["study", "sensitivity", "done", "--over", "model.rank=1,2"], "done is a folder: give --over KEY without"),
        (["study", "sensitivity", "done", "--set", "model.rank=3"], "--set changes a preset"),
    ],
)
def test_bad_input_is_told(home: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(BadInput) as error:
        here(*arguments)
    assert words in str(error.value)


def test_bad_input_is_one_sentence_and_exit_code_2(home: Path) -> None:
    done = dura("sweep", "none.toml", cwd=home, check=2)
    assert (done.stdout, done.stderr) == ("", "dura: none.toml: cannot be read: No such file or directory\n")


def test_sensitivity_of_a_sweep_reads_its_records(home: Path) -> None:
    document = json.loads(here("study", "sensitivity", "done", "--out", "curves", "--json", "--quiet"))
    assert [row["value"] for row in document["rows"]] == [0.001, 0.01]
    assert [row["runs"] for row in document["rows"]] == [2, 2]  # the seeds are one point
    trials = json.loads((home / "done" / "summary.json").read_text())["rows"]
    for row in document["rows"]:
        both = [t["valid MRR"] for t in trials if t["regularizer.weight"] == row["value"]]
        assert row["valid MRR"] == pytest.approx(sum(both) / 2)
        assert (row["lowest"], row["highest"]) == (min(both), max(both))
    assert {path.suffix for path in (home / "curves").iterdir()} == {".md", ".csv", ".json", ".png", ".svg"}


def test_sensitivity_of_a_preset_trains_one_setting_at_a_time_and_ranks_test(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = ["--set", "training.epochs=2", "--set", "training.batch=250", "--set", "model.rank=4"]
    study = ["study", "sensitivity", "nations/complex-dura", "--over", "regularizer.weight=0.001,0.01",
             "--over", "model.rank=2,4", *short, "--split", "test", "--out", "cross", "--json", "--quiet"]  # fmt: skip
    document = json.loads(here(*study))
    values = [(row["setting"], row["value"]) for row in document["rows"]]
    assert values == [("regularizer.weight", 0.001), ("regularizer.weight", 0.01), ("model.rank", 2), ("model.rank", 4)]
    ranked = [json.loads(here("evaluate", f"cross/runs/trial-{n}", "--json"))["mrr"] for n in range(3)]
    by_setting = [ranked[1], ranked[0], ranked[2], ranked[0]]  # the preset's own settings come first and once
    assert [row["test MRR"] for row in document["rows"]] == pytest.approx(by_setting)
    assert json.loads(here(*study)) == document  # nothing is trained again
    with pytest.raises(BadInput, match="holds another study"):
        here(*(text.replace("=2,4", "=2,5") for text in study))
    monkeypatch.setattr("dura.runs.trained.open_run", None)  # no ranking before this
    with pytest.raises(BadInput, match=r"'training\.batch' does not vary in these runs"):
        here("study", "sensitivity", "cross", "--over", "training.batch", "--split", "test", "--out", "again")


def test_a_stopped_study_of_test_goes_on_with_all_its_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ["study", "sensitivity", "nations/complex-dura", "--over", "model.rank=2,3", "--set", "model.rank=2",
             "--set", "training.epochs=1", "--split", "test", "--out", "halted", "--json", "--quiet"]  # fmt: skip
    for stopped in (0, 3):  # before the first run folder is there, and after the first epoch
        asked = iter([False] * stopped)
        with monkeypatch.context() as patch:
            patch.setattr(
                "dura.cli.train.stop_on_interrupt", lambda a=asked: contextlib.nullcontext(lambda: next(a, True))
            )
            with pytest.raises(Interrupted, match="the study was stopped; the same command goes on from here"):
                here(*study)
    assert (home / "halted/runs/trial-0/records.jsonl").exists()
    (home / "halted/runs/trial-0/records.jsonl").unlink()  # as after kill -9 between run.json and the first record
    for file in (home / "halted/runs/trial-0/checkpoints").glob("*"):
        file.unlink()
    here("sweep", "--resume", "halted", "--quiet")  # keeps what the study needs
    rows = json.loads(here(*study))["rows"]
    assert [row["value"] for row in rows] == [2, 3]


def test_test_cannot_be_ranked_after_a_study_on_valid_and_that_is_said_before_the_ranking(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = ["study", "sensitivity", "nations/complex-dura", "--over", "regularizer.weight=0.001,0.01",
             "--set", "training.epochs=2", "--set", "model.rank=4", "--out", "first", "--quiet"]  # fmt: skip
    here(*study)
    trials = sorted(run.name for run in (home / "first" / "runs").iterdir())
    bare = [name for name in trials if not list((home / "first" / "runs" / name / "checkpoints").iterdir())]
    assert len(bare) == len(trials) - 1
    monkeypatch.setattr("dura.runs.trained.open_run", lambda *_: pytest.fail("ranked"))
    sentence = (
        f"{len(bare)} of {len(trials)} runs have no tables to rank test with, such as first/runs/{bare[0]}: sweeps and "
        "studies on valid keep only those of the best run; train again in a new folder (--out), a study with --split test, "
        "a sweep with --keep 0"
    )
    for again in (study, ["study", "sensitivity", "first"]):
        with pytest.raises(BadInput) as caught:
            here(*again, "--split", "test")
        assert str(caught.value) == sentence


def test_help_shows_examples_and_imports_nothing_heavy(home: Path) -> None:
    for command in (["sweep"], ["study", "sensitivity"]):
        assert "Examples" in here(*command, "--help")
    heavy = "{'torch', 'optuna', 'matplotlib', 'sklearn', 'scipy'}"
    probe = f"import sys, dura.cli.sweep, dura.cli.study; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", probe], env=ENVIRONMENT, cwd=home).returncode == 0
