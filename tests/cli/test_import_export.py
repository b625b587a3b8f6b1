"""`dura data import` and `dura data export` as real processes: what they write, what they say, how they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dura as package

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "DURA_DATA": ""}
LINKS = "from_id,edge_type,to_id,from_label\n" + "".join(
    f"p{i % 13},{'knows' if i % 3 else 'likes'},p{(i * i + 1) % 11},Person {i % 13}\n" for i in range(120)
)


def dura(*arguments: object, cwd: Path, code: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dura", "data", *map(str, arguments)],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=240, input=given,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "links.csv").write_text(LINKS)
    return tmp_path


def test_import_says_what_it_read_and_wrote(home: Path) -> None:
    done = dura("import", "links.csv", "--out", "graphs/links", cwd=home)
    assert "head = 'from_id', relation = 'edge_type', tail = 'to_id'" in done.stderr
    counts, *files = done.stdout.splitlines()
    assert counts.endswith(" train") and "2 relations; facts: " in counts
    assert [Path(file.strip()).name for file in files] == ["train.parquet", "entities.parquet"]
    graph = package.load(home / "graphs" / "links")
    assert graph.digest == package.load(home / "links.csv").digest
    assert graph.label("p3") == "Person 3"


def test_import_splits_if_asked_and_prints_json(home: Path) -> None:
    done = dura("import", "links.csv", "--out", "split", "--split", "grouped", "--json", cwd=home)
    told = json.loads(done.stdout)
    assert told["graph"]["valid"] > 0 and told["graph"]["test"] > 0
    assert [Path(file).name for file in told["files"][:3]] == ["train.parquet", "valid.parquet", "test.parquet"]
    assert len(package.load(home / "split").valid) == told["graph"]["valid"]


def test_import_reads_standard_input_and_options(home: Path) -> None:
    lines = "\n".join(f"b{i % 5};a{i % 7};r{i % 2}" for i in range(70))
    dura(
        "import", "-", "--format", "csv", "--separator", ";", "--columns", "1,2,0", "--out", "g", cwd=home, given=lines
    )
    graph = package.load(home / "g", valid_share=0, test_share=0)
    assert (len(graph.relations), len(graph.train)) == (2, 70)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow", "nt"])
def test_export_to_a_file(home: Path, ending: str) -> None:
    done = dura("export", "nations", f"out/nations.{ending}", cwd=home)
    assert done.stdout.splitlines()[1].strip() == f"out/nations.{ending}"
    graph = package.load(home / "out" / f"nations.{ending}", valid_share=0, test_share=0)
    assert (len(graph.entities), len(graph.relations), len(graph.train)) == (14, 55, 1992)


def test_export_to_a_folder(home: Path) -> None:
    dura("export", "nations", "n", "--to", "tsv", cwd=home)
    assert sorted(path.name for path in (home / "n").iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]
    assert package.load(home / "n").digest == package.load("nations").digest


@pytest.mark.slow
def test_mistakes_are_one_sentence(home: Path) -> None:
    assert "links.csv is there already" in sentence(dura("export", "nations", "links.csv", cwd=home, code=2))
    assert "'xlsx' is not a format to write" in sentence(dura("export", "nations", "n.xlsx", cwd=home, code=2))
    assert "'foo' is not a format to write" in sentence(dura("export", "nations", "n", "--to", "foo", cwd=home, code=2))
    assert "cannot write" in sentence(dura("export", "nations", "links.csv/n", cwd=home, code=1))
    assert ". is there already" in sentence(dura("import", "links.csv", "--out", ".", cwd=home, code=2))
    assert "there is no file none.csv" in sentence(dura("import", "none.csv", "--out", "x", cwd=home, code=2))
    assert "what is the format" in sentence(dura("import", "-", "--out", "x", cwd=home, code=2, given="a"))
    assert not (home / "x").exists()
