"""`dura fold-in`, `dura index` and `dura export --format` as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dura
from dura.__main__ import main  # noqa: F401  the door must open
from dura.cli.main import app
from dura.types import BadInput


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mine"
    dura.fit(dura.load("nations"), model="complex", rank=5, epochs=2, batch=100, out=folder, progress=False)
    return folder


def call(*arguments: object) -> Result:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_an_entity_is_folded_in_and_asked(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("from,link,to\natlantis,embassy,usa\nusa,embassy,atlantis\nusa,embassy,atlantis\n")
    done = call("fold-in", run, file, "--columns", "from,link,to")
    out = run.parent / "mine-folded-1"
    assert f"run folder {out}" in done.stdout and "1 new entity with 2 facts" in done.stdout
    assert "\nnew: atlantis\n" in done.stdout
    assert "1 fact is repeated, counted once" in done.stderr
    asked = json.loads(call("predict", out, "--head", "atlantis", "--relation", "embassy", "-k", "20", "--json").stdout)
    assert "usa" not in [answer["entity"] for answer in asked["answers"]]
    again = json.loads(call("fold-in", run, file, "--columns", "from,link,to", "--json").stdout)
    assert again["out"] == str(run.parent / "mine-folded-2") and again["entities"] == 1 and again["repeated"] == 1
    assert json.loads(call("evaluate", out, "--json").stdout)["ties"]


def test_what_cannot_be_folded_in_is_one_sentence(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.tsv"
    file.write_text("atlantis\tembasy\tusa\n")
    with pytest.raises(
        BadInput, match=rf"{file}:1: the relation 'embasy' is not in this graph; did you mean 'embassy'"
    ):
        call("fold-in", run, file)
    with pytest.raises(BadInput, match="none of them is held out: leave --split out"):
        call("fold-in", run, file, "--split", "random")
    assert not list(run.parent.glob("mine-folded-3"))


def test_skipped_lines_are_said_and_counted(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.tsv"
    file.write_text("atlantis\tembassy\tusa\natlantis\tembasy\tuk\nonly one\n")
    done = call("fold-in", run, file, "--skip-bad", "--json", "--out", tmp_path / "out")
    found = json.loads(done.stdout)
    assert found["skipped"] == 2 and found["facts"] == 1
    assert [line.split(": ")[0] for line in found["bad"]] == [f"{file}:2", f"{file}:3"]
    assert "2 bad lines skipped:" in done.stderr and f"{file}:2: the relation 'embasy'" in done.stderr


def test_an_index_says_whether_it_pays_and_is_used_when_asked(run: Path) -> None:
    done = json.loads(call("index", run, "--recall", "1", "--json").stdout)
    assert done["recall"] == 1.0 and done["entities"] == 14
    said = call("index", run, "--links", "8").stdout
    assert "14 entities, built in" in said and "recall@10 1.000" in said
    question = ("predict", run, "--head", "usa", "--relation", "embassy", "--json")
    exact, found = (json.loads(call(*question, *more).stdout) for more in ((), ("--approximate",)))
    assert [a["entity"] for a in exact["answers"]] == [a["entity"] for a in found["answers"]]


def test_the_packed_copy_of_a_calibrated_run_has_to_be_calibrated(run: Path, tmp_path: Path) -> None:
    assert "calibrate" not in call("export", run, tmp_path / "before", "--int8", "-q").stderr
    call("calibrate", run, "-q")
    wanted = f"the new one is not, so its answers have no probabilities yet; run: dura calibrate {tmp_path / 'small'}\n"
    assert wanted in call("export", run, tmp_path / "small", "--int8", "-q").stderr
    assert "calibrate" not in call("export", run, tmp_path / "copy", "-q").stderr  # a plain copy keeps it
    assert (tmp_path / "copy" / "calibration.json").exists()


def test_vectors_are_written_for_other_programs(run: Path, tmp_path: Path) -> None:
    done = json.loads(call("export", run, tmp_path / "vectors", "--format", "word2vec", "--json").stdout)
    assert [one["file"] for one in done["files"]] == ["entities.txt", "relations.txt"]
    assert (tmp_path / "vectors" / "entities.txt").read_text().startswith("14 10\nbrazil ")
    assert "entity 14 x 10" in call("export", run, tmp_path / "arrays", "--format", "numpy").stdout
    for options in (("--int8",), ("--test",), ("--sparse", "0.5")):
        with pytest.raises(BadInput, match="--format writes the tables as they are"):
            call("export", run, tmp_path / "other", "--format", "numpy", *options)
    with pytest.raises(BadInput, match="--binary is a form of --format word2vec"):
        call("export", run, tmp_path / "other", "--binary")
