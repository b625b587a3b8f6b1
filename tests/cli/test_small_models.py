"""`dura export` and `dura study sparsity` as scripts see them: real processes, JSON, files, one sentence for what is wrong."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.main import app
from dura.types import BadInput


def call(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dura", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def inside(*arguments: object) -> Any:
    """The JSON of a command that runs in this process, or the error it ends with."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two trained runs, `dura` and `none`."""
    folder = tmp_path_factory.mktemp("export")
    for name in ("dura", "none"):
        dura.fit(
            dura.load("nations"),
            model="complex",
            rank=10,
            regularizer=name,
            epochs=4,
            batch=50,
            out=folder / name,
            progress=False,
        )
    return folder


def test_an_export_is_a_run_and_says_what_it_costs(home: Path) -> None:
    done = call("export", "dura", "small", "--sparse", 0.5, "--int8", "--test", "--json", "--quiet", cwd=home)
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert (report["run"], report["out"], report["sparse"], report["dtype"]) == ("dura", "small", 0.5, "int8")
    found = inside("evaluate", home / "small", "--split", "test")
    assert found["mrr"] == report["figures"]["test"]["after"]["mrr"]
    before = inside("evaluate", home / "dura", "--split", "valid")
    assert before["mrr"] == report["figures"]["valid"]["before"]["mrr"]
    assert report["bytes"]["tables"]["before"] == 4 * 20 * (14 + 2 * 55)
    assert report["bytes"]["tables"]["after"] < report["bytes"]["tables"]["before"] / 2
    assert report["bytes"]["folder"]["after"] < report["bytes"]["folder"]["before"]
    answers = inside("predict", home / "small", "--head", "usa", "--relation", "embassy", "-k", 3)["answers"]
    assert [a["rank"] for a in answers] == [1, 2, 3]
    with pytest.raises(BadInput, match="holds a trained model without the state of its training"):
        inside("train", "--resume", home / "small")


def test_the_report_can_be_read(home: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(home / "dura"), str(home / "read"), "--sparse", "0.5"])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("50.0% of the entries zero (|x| < 0.")
    assert lines[0].endswith("float32")
    assert lines[2].split() == ["before", "after", "change"]
    assert [line.split("  ")[0] for line in lines[3:7]] == ["tables", "folder", "valid MRR", "valid Hits@10"]
    assert lines[-1] == f"run folder {home / 'read'}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", "dura", "out", "--float16", "--int8"], "give --float16 or --int8, not both"),
        (["export", "dura", "out", "--sparse", 1.5], "at least 0 and below 1, not 1.5"),
        (["export", "dura", "none"], "not an empty folder; name a new folder to export to"),
        (["study", "sparsity", "dura", "--shares", "0,half"], "takes numbers with commas between them"),
        (["study", "sparsity", "dura", "--shares", "0,1"], "at least 0 and below 1, such as 0,0.5,0.9, not 0,1"),
        (["study", "sparsity", "dura", "./dura"], "the run dura is given more than once"),
        (["export", "dura", "dura/inner"], "dura/inner is inside the run that is exported; name a folder next to it"),
        (["study", "sparsity", "nowhere"], "there is no run folder nowhere"),
    ],
)
def test_wrong_input_is_one_sentence(
    home: Path, arguments: list[object], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    with pytest.raises(BadInput, match=sentence):
        inside(*arguments)
    assert not (home / "out").exists()


def test_the_study_leaves_a_table_and_a_figure(home: Path) -> None:
    done = call("study", "sparsity", "dura", "none", "--shares", "0.8,0,0.4", "--out", "study", cwd=home)
    assert done.stdout.startswith("λ-sparsity of the entities' embeddings, test facts\n")
    assert "wrote sparsity.md, sparsity.csv, sparsity.json, sparsity.png, sparsity.svg into study" in done.stderr
    rows = list(csv.DictReader((home / "study" / "sparsity.csv").read_text().splitlines()))
    assert [(row["run"], float(row["share"])) for row in rows] == [
        (r, s) for r in ("dura", "none") for s in (0, 0.4, 0.8)
    ]
    whole = dura.open(home / "dura").evaluate()
    assert float(rows[0]["mrr"]) == pytest.approx(whole.mrr, abs=1e-12)
    assert float(rows[0]["hits@10"]) == pytest.approx(whole.hits[10], abs=1e-12)
    assert float(rows[2]["zeros"]) == pytest.approx(0.8, abs=0.003)
    kept = round(280 * 0.2)
    assert int(rows[2]["csr"]) == kept * 5 + 15
    assert int(rows[2]["csc"]) == kept * 5 + 21
    assert float(rows[2]["csr saved %"]) == pytest.approx(100 * (1 - (kept * 5 + 15) / 1120))
    document = json.loads((home / "study" / "sparsity.json").read_text())
    assert document["split"] == "test"
    assert len(document["rows"]) == 6
    assert (home / "study" / "sparsity.png").read_bytes().startswith(b"\x89PNG")
    half = inside("study", "sparsity", home / "dura", "--shares", "0.4", "--out", home / "one")
    assert [row["share"] for row in half["rows"]] == [0, 0.4]  # what is kept is kept of the whole
    assert half["rows"][1]["mrr"] == pytest.approx(float(rows[1]["mrr"]), abs=1e-12)


def test_an_exported_run_is_not_studied(home: Path, tmp_path: Path) -> None:
    dura.open(home / "dura").export(tmp_path / "small", dtype="int8")
    with pytest.raises(BadInput, match=r"tables of .*small are packed already \(int8\); use the run that it was"):
        inside("study", "sparsity", home / "dura", tmp_path / "small", "--out", tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_runs_of_the_same_folder_name_are_told_apart_by_the_folders_above(home: Path, tmp_path: Path) -> None:
    for name in ("dura", "none"):
        dura.open(home / name).save(tmp_path / name / "trial-0")
    runs = [tmp_path / name / "trial-0" for name in ("dura", "none")]
    rows = inside("study", "sparsity", *runs, "--shares", "0.5", "--out", tmp_path / "study")["rows"]
    assert [row["run"] for row in rows] == ["dura/trial-0"] * 2 + ["none/trial-0"] * 2
