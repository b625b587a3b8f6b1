"""What dura 0.1.0 wrote is read by every later version and means the same; see `tests/fixtures/make_runs.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from dura import BadInput, Experiment, Trained
from dura.cli.main import app
from dura.records import RunFolder, curve
from dura.runs.run import resume
from dura.sweeps.sweep import outcome
from dura.sweeps.sweep import resume as resume_sweep

OLD = Path(__file__).parent / "fixtures" / "runs-0.1.0"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text())
RUNS, RESUMED = EXPECTED["runs"], EXPECTED["resumed"]
SETTINGS = sorted(str(path.relative_to(OLD)) for path in OLD.rglob("*.toml") if path.name != "sweep.toml")
SCORE = 1e-6
"""What a score, a sum of 32-bit products of both signs, may differ by on another processor."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of everything: opening, resuming and reading may write."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def near(value: Any, absolute: float = 1e-9) -> Any:
    """The same with numbers that may differ in their last digits, at any depth."""
    if isinstance(value, dict):
        return {key: near(inner, absolute) for key, inner in value.items()}
    if isinstance(value, list):
        return [near(inner, absolute) for inner in value]
    return pytest.approx(value, rel=1e-6, abs=absolute) if isinstance(value, float) else value


def check(trained: Trained, expected: dict[str, Any]) -> None:
    """Figures, answers and times are those that 0.1.0 gave."""
    assert trained.graph.digest == expected["digest"]
    ties = trained.evaluate("test").ties
    assert {name: figures.to_dict() for name, figures in ties.items()} == near(expected["test"])
    for asked in expected["answers"]:
        given = trained.predict(**asked["question"], k=len(asked["answers"]))
        assert [answer.to_dict() for answer in given] == near(asked["answers"], SCORE)
    if "when" in expected:
        times = trained.when(**expected["when"]["question"], k=len(expected["when"]["times"]))
        assert [vars(answer) for answer in times] == near(expected["when"]["times"], SCORE)


# -- runs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_is_opened_and_says_the_same(name: str, old: Path) -> None:
    check(dura.open(old / name), RUNS[name])
    assert len(RunFolder.open(old / name).records()) == RUNS[name]["records"]


@pytest.mark.parametrize("name", RESUMED)
def test_an_old_run_that_was_interrupted_goes_on_as_if_it_had_not_been(name: str, old: Path) -> None:
    trained = resume(old / name)
    check(trained, RESUMED[name])
    records = RunFolder.open(old / name).records()
    new, wanted = curve(records), RESUMED[name]["curve"]
    assert len(new) == len(wanted)
    for record, figures in zip(new, wanted, strict=True):
        assert {key: record[key] for key in figures} == near(figures)
    assert [record["kind"] for record in records].count("resume") == 1


def test_an_old_run_that_has_ended_stays_as_it_is(old: Path) -> None:
    check(resume(old / "complex"), RUNS["complex"])


def test_an_old_saved_run_is_not_resumed(old: Path) -> None:
    with pytest.raises(BadInput, match="without the state of its training"):
        resume(old / "rescal-saved")


def test_labels_stand_beside_names(old: Path) -> None:
    assert dura.open(old / "complex").graph.labels["e02"] == "Entity C"


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_is_saved_again(name: str, old: Path, tmp_path: Path) -> None:
    check(dura.open(dura.open(old / name).save(tmp_path / "again")), RUNS[name])


def test_old_runs_are_reported_side_by_side(old: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", *(str(old / name) for name in RUNS), "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert all(name in page.read_text() for name in RUNS)


# -- settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_old_settings_are_read(name: str) -> None:
    experiment = Experiment.from_toml(OLD / name)
    assert Experiment.from_toml(experiment.to_toml()) == experiment


def test_old_settings_mean_the_same() -> None:
    everything, short, first = (
        Experiment.from_toml(OLD / "settings" / f"{name}.toml") for name in ("everything", "short", "first")
    )
    assert (everything.model.name, everything.model.options["rank"]) == ("tntcomplex", 4)
    assert everything.regularizer.name == "dura12" and (everything.loss.name, everything.candidates.name) == (
        "softmax",
        "all",
    )
    assert (everything.smoothness.weight, everything.smoothness.p) == (0.2, 4)
    assert everything.graph.columns == ("who", "what", "whom", "date") and everything.graph.valid_share == 0.2
    assert (everything.training.batching, everything.training.batch, everything.training.seed) == ("facts", 24, 3)
    assert (short.graph.source, short.model.name, short.training.epochs) == ("nations", "rescal", 3)
    assert (short.regularizer.name, short.optimizer.name, short.training.batch) == ("dura", "adagrad", 500)
    assert first.loss.options["w0"] == 0.1 and first.optimizer.options["betas"] == (0.9, 0.99)


def test_the_first_settings_can_be_trained_with(tmp_path: Path) -> None:
    settings = tmp_path / "first.toml"
    shutil.copy(OLD / "settings" / "first.toml", settings)
    tiny = ["--graph", str(OLD / "facts.tsv"), "--rank", "4", "--epochs", "1", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["train", str(settings), *tiny])
    assert done.exit_code == 0, done.output


# -- sweeps and reproductions -------------------------------------------------------------------------------------------


def test_an_old_sweep_is_read_and_made_longer(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old)  # its settings name the facts so
    rows = outcome(Path("sweep")).rows
    assert [{key: row[key] for key in EXPECTED["sweep"][0]} for row in rows] == near(EXPECTED["sweep"])
    assert resume_sweep(Path("sweep")).rows == rows
    longer = resume_sweep(Path("sweep"), trials=3).rows
    assert sorted(row["trial"] for row in longer) == [0, 1, 2] and {row["state"] for row in longer} == {"complete"}
    assert Experiment.from_toml(Path("sweep/best.toml")).model.name == "complex"


def test_an_old_reproduction_is_shown(old: Path) -> None:
    arguments = ["reproduce", "small", "--only", "nations/cp-none", "--show", "--json", "--out", str(old / "reproduce")]
    done = CliRunner(env={"DURA_DATA": ""}).invoke(app, arguments)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["tables"]["small"]["rows"]
    assert {key: row[key] for key in ("ours", "status")} == near(EXPECTED["reproduce"])
