"""`dura report`, `dura evaluate` that keeps its result, and `--track`, as scripts see them.

Where torch is needed commands run in this process, which loads it once; the others are real processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dura.cli.main import app
from dura.records import RunFolder
from dura.sheets.sheet import Sheet
from folders import CURVE, evaluation, run_folder

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "BROWSER": "true"}


def dura(*arguments: object, cwd: Path, check: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dura", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def here(*arguments: object) -> Result:
    """Run a command in this process."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one trained and tracked run, `run`."""
    folder = tmp_path_factory.mktemp("cli")
    settings = ["--graph", "nations", "--rank", 4, "--epochs", 2]
    here("train", *settings, "--out", folder / "run", "--quiet", "--track", "tensorboard")
    return folder


def test_an_evaluation_is_kept_and_reported(home: Path) -> None:
    printed: dict[str, Any] = json.loads(here("evaluate", home / "run", "--by", "category", "--json").stdout)
    record = RunFolder.open(home / "run").records()[-1]
    assert record["kind"] == "evaluation"
    assert {key: record[key] for key in printed if key != "run"} == {k: v for k, v in printed.items() if k != "run"}
    done = dura("report", "run", "--markdown", "report.md", "--out", "out/page.html", cwd=home)
    assert done.stdout.splitlines() == ["report out/page.html", "report report.md"]
    page, text = (home / "out" / "page.html").read_text("utf-8"), (home / "report.md").read_text("utf-8")
    for shown in (page, text):
        assert f"{printed['mrr']:.4f}" in shown
        assert f"{printed['by']['category']['N-N']['mrr']:.4f}" in shown
    assert sorted(path.name for path in (home / "report-figures").iterdir()) == [
        "loss.svg", "penalty.svg", "test-category.svg", "valid-mrr-by-time.svg", "valid.svg",
    ]  # fmt: skip


def test_training_was_tracked_in_the_run_folder(home: Path) -> None:
    (file,) = (home / "run" / "tensorboard").iterdir()
    assert file.name.startswith("events.out.tfevents.")
    assert b"valid/mrr" in file.read_bytes()


def test_an_evaluation_of_a_run_in_use_is_printed_all_the_same(home: Path) -> None:
    before = len(RunFolder.open(home / "run").records())
    with RunFolder(home / "run").lock():
        done = here("evaluate", home / "run", "--quiet")
    assert "realistic" in done.stdout
    assert f"dura: the result is not kept in the records of {home / 'run'}: " in done.stderr
    assert len(RunFolder.open(home / "run").records()) == before


def test_json_names_what_was_written(tmp_path: Path) -> None:
    run_folder(tmp_path / "a", [*CURVE, evaluation(0.3)])
    run_folder(tmp_path / "b", [*CURVE, evaluation(0.2)], {"training.seed": 1})
    done = dura("report", "a", "b", "--figures", "drawn", "--open", "--json", cwd=tmp_path)
    drawn = ["drawn/valid-mrr-by-epoch.svg", "drawn/valid-mrr-by-time.svg"]
    assert json.loads(done.stdout) == {"html": "report.html", "markdown": None, "figures": drawn}
    assert all((tmp_path / name).is_file() for name in ["report.html", *drawn])


def test_tables_of_studies_can_be_reported(tmp_path: Path) -> None:
    Sheet("Sparsity", [{"share": 0.5, "MRR": 0.25}]).write(tmp_path, "sparsity")
    done = dura("report", "sparsity.json", "--markdown", "s.md", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"html": None, "markdown": "s.md", "figures": []}
    assert "## Sparsity" in (tmp_path / "s.md").read_text("utf-8")
    assert not (tmp_path / "report.html").exists()


def test_the_examples_of_the_help_work(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs" / "mine", [*CURVE, evaluation(0.3)])
    Sheet("Sparsity", [{"share": 0.5, "MRR": 0.25}]).write(tmp_path / "studies" / "sparsity", "sparsity")
    lines = dura("report", "--help", cwd=tmp_path).stdout.splitlines()
    (example,) = [line.split() for line in lines if "dura report" in line and "studies/" in line]
    dura(*example[1:], cwd=tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<h1>mine</h1>" in page
    assert "<h2>Sparsity</h2>" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "nowhere"], "there is no run folder nowhere"),
        (["report", "bad.json"], "bad.json is not a table that dura wrote"),
        (["report", "nowhere", "--out", "bad.json"], "bad.json exists and does not end in .html"),
        (["report", "nowhere", "--markdown", "bad.json"], "bad.json exists and does not end in .md"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "bad.json").write_text("{}")
    done = dura(*arguments, cwd=tmp_path, check=2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert sentence in done.stderr


def test_help_shows_examples_and_loads_nothing_heavy(tmp_path: Path) -> None:
    text = dura("report", "--help", cwd=tmp_path).stdout
    assert "dura report runs/dura runs/n3 runs/none --out compared.html --open" in text
    heavy = ("torch", "matplotlib", "scipy", "sklearn", "optuna", "tensorboard", "mlflow", "polars")
    probe = f"import sys, dura.cli.main; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", probe], env=ENVIRONMENT, cwd=tmp_path).returncode == 0


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", [*CURVE, evaluation(0.3)])
    probe = (
        "import sys; sys.argv = ['dura', 'report', 'run', '--json']\n"
        "sys.modules['torch'] = sys.modules['polars'] = None\n"
        "from dura.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", probe], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
