"""`dura study` as scripts see it: real processes, JSON, files, one sentence for errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dura
from dura.cli.common import check_out
from dura.cli.main import app
from dura.types import BadInput, DuraError


def call(*arguments: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "dura", "study", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of UMLS and one of nations."""
    folder = tmp_path_factory.mktemp("studies")
    for graph, name in (("umls", "none"), ("umls", "dura"), ("nations", "other")):
        regularizer = "none" if name == "none" else "dura"
        trained = dura.fit(dura.load(graph), rank=6, regularizer=regularizer, epochs=1, progress=False)
        trained.save(folder / name)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_categories_print_and_leave_tables_and_a_figure(home: Path) -> None:
    done = call("categories", "none", "dura", cwd=home)
    assert "MRR by relation category, test facts of umls" in done.stdout
    assert "ComplEx DURA" in done.stdout
    assert "N-N tail" in done.stdout
    assert "dura: wrote categories.md" in done.stderr
    endings = {"md", "csv", "json"}
    expected = {f"categories.{e}" for e in endings | {"png", "svg"}} | {f"categories-sides.{e}" for e in endings}
    assert names(home / "studies/categories") == expected
    kept = json.loads((home / "studies/categories/categories.json").read_text())
    assert [row["run"] for row in kept["rows"]] == ["ComplEx none", "ComplEx DURA"]
    assert kept["rows"][0]["all"] == kept["runs"][0]["mrr"] == dura.open(home / "none").evaluate().mrr


def test_projection_in_json_has_the_coordinates(home: Path) -> None:
    options = ("--more-than", 20, "--answers", 12, "--out", "p", "--quiet", "--json")
    done = call("projection", "none", "dura", *options, cwd=home)
    assert done.stderr == ""
    study = json.loads(done.stdout)
    assert len(study["runs"][0]["coordinates"]) == len(study["answers"])
    assert study["rows"][1]["run"] == "ComplEx DURA"
    assert study["seed"] == 0
    assert {Path(file).name for file in study["files"]} == names(home / "p")
    assert (home / "p/projection.png").stat().st_size > 10_000
    assert json.loads((home / "p/projection.json").read_text())["answers"] == study["answers"]


def test_duality_says_which_run_is_which(home: Path) -> None:
    done = call("duality", "none", "dura", "other", "--at-least", 5, "--out", "d", cwd=home)
    assert "test facts of umls and nations" in done.stdout
    assert "No run is of the kind dual; train one with" in done.stdout
    kept = json.loads((home / "d/duality.json").read_text())
    assert [(row["graph"], row["kind"]) for row in kept["rows"]][:2] == [("umls", "plain"), ("umls", "DURA")]
    assert kept["rows"][0]["cosine"] == kept["graphs"][0]["runs"][0]["cosine"]
    assert names(home / "d") == {f"duality.{ending}" for ending in ("md", "csv", "json", "png", "svg")}


def test_theory_holds_and_says_so(home: Path) -> None:
    done = call("theory", "--draws", 2, "--starts", 1, "--size", 2, "--out", "t", cwd=home)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("Theorem", "p = 1 instead"))]
    assert len(lines) == 12
    assert all(line.endswith("holds") for line in lines[:-1])
    assert lines[-1].endswith("no bound, as the paper says")
    assert names(home / "t") == {f"theory.{ending}" for ending in ("md", "csv", "json", "png", "svg")}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("categories", "none", "other"), "runs of different graphs (umls and nations"),
        (
            ("projection", "dura", "--more-than", "100"),
            "2 questions with more than 100 answers, but in each pair of them one shares more than half",
        ),
        (("projection", "dura", "--questions", "paper"), "does not have the paper's ten questions"),
        (("duality", "none", "--at-least", "1000"), "no question with 1000 known answers or more, the largest has"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    home: Path, arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    done = CliRunner().invoke(app, ["study", *arguments, "--out", "wrong"])
    assert isinstance(done.exception, BadInput)
    assert sentence in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.output == ""
    assert not (home / "wrong").exists()


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        (("sparsity", "dura"), "dura.studies.sparsity.compute"),
        (("categories", "dura"), "dura.studies.categories.compute"),
        (("projection", "dura"), "dura.studies.projection.compute"),
        (("duality", "dura"), "dura.studies.duality.compute"),
        (("theory",), "dura.analysis.theory.check"),
        (("sensitivity", "dura", "--split", "test"), "dura.runs.trained.open_run"),
        (("sensitivity", "nations/complex-dura", "--over", "model.rank=2,4"), "dura.sweeps.sweep.sweep"),
    ],
)
def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(
    home: Path, arguments: tuple[str, ...], work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr(work, lambda *_, **__: pytest.fail("the work was begun"))
    (home / "taken").write_text("mine")
    for out, kind, sentence in (
        ("taken", BadInput, "taken is not a folder; name another one with --out"),
        (
            "taken/below",
            DuraError,
            "cannot write files in the folder taken/below: Not a directory; name another folder with --out",
        ),
    ):
        done = CliRunner().invoke(app, ["study", *arguments, "--out", out])
        assert isinstance(done.exception, kind)
        assert str(done.exception) == sentence
    assert (home / "taken").read_text() == "mine"


def test_seeing_whether_a_folder_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    check_out(tmp_path / "there" / "new" / "newer")
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    check_out(tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


def test_an_error_ends_with_2_and_one_line(home: Path) -> None:
    done = call("categories", "none", "nowhere", "--json", cwd=home, code=2)
    assert (done.stdout, done.stderr) == ("", "dura: there is no run folder nowhere\n")


def test_ctrl_c_is_one_word_and_exit_code_130(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dura.analysis.theory.check", pressed)
    done = CliRunner().invoke(app, ["study", "theory", "--out", str(tmp_path / "t")])
    assert (done.exit_code, done.stderr) == (130, "dura: interrupted\n")
