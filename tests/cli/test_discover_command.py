"""`dura discover`, `dura review`, `dura audit` and `dura train --reviews`, from suggestions to the next run."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dura
from dura.cli.main import app, main
from dura.runs.trained import Trained

SETTINGS = {"model.rank": 16, "training.epochs": 6}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return dura.fit(
        dura.load("nations"), settings=SETTINGS, out=tmp_path_factory.mktemp("runs") / "run", progress=False
    )


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    assert trained.path is not None
    return Path(shutil.copytree(trained.path, tmp_path / "run"))


def dura_(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def failing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    """The one sentence of a command that refuses its input."""
    monkeypatch.setattr("sys.argv", ["dura", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_from_suggestions_to_the_next_run(run: Path, tmp_path: Path) -> None:
    found = json.loads(dura_("discover", run, "--top", 5, "--json").stdout)
    method = dura.open(run).discover(top=5)
    assert found == json.loads(json.dumps({"run": str(run), **method.to_dict()}))
    assert (found["value"], len(found["facts"])) == ("share", 5)
    file = tmp_path / "suggestions.csv"
    wrote = dura_("discover", run, "--top", 5, "--output", file)
    assert wrote.stdout == f"5 facts in {file}\n"
    assert (
        dura_("discover", run, "--top", 1, "--output", tmp_path / "1.csv").stdout == f"1 fact in {tmp_path / '1.csv'}\n"
    )
    assert "shares are not probabilities; for those: dura calibrate" in wrote.stderr
    with file.open(newline="") as given:
        rows = list(csv.DictReader(given))
    assert [row["decision"] for row in rows] == [""] * 5
    for row, word in zip(rows, ("yes", "no", "accept", "reject", ""), strict=True):
        row["decision"] = word
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    tally = json.loads(dura_("review", run, file, "--json").stdout)
    assert (tally["accepted"], tally["rejected"], tally["undecided"]) == (2, 2, 1)
    again = dura_("review", run, file)
    assert again.stdout.startswith("0 accepted and 0 rejected; 4 were known, 1 line has no decision\n")
    left = json.loads(dura_("discover", run, "--top", 1, "--json").stdout)["facts"][0]
    assert [left[part] for part in ("head", "relation", "tail")] == [
        rows[4][part] for part in ("head", "relation", "tail")
    ]
    after = tmp_path / "next"
    settings = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    said = dura_("train", "--graph", "nations", "--reviews", run, "--out", after, *settings)
    assert said.exit_code == 0
    assert "2 accepted facts are added to train" in said.stderr and "2 rejected facts are held down" in said.stderr
    assert len(dura.open(after).graph.train) == len(dura.load("nations").train) + 2
    assert f'reviews = "{run}"' in (after / "settings.toml").read_text()
    third = dura_("train", "--graph", "nations", "--reviews", after, "--out", tmp_path / "third", *settings)
    assert "2 accepted facts are added to train" in third.stderr and "2 rejected facts are held down" in third.stderr
    assert len(dura.open(tmp_path / "third").graph.train) == len(dura.load("nations").train) + 2
    piped = dura_("discover", run, "--top", 2, "--output", "-").stdout.splitlines()
    assert [json.loads(line)["relation"] for line in piped]


def test_facts_are_printed_and_restricted(run: Path) -> None:
    shown = dura_("discover", run, "--relation", "embassy", "--top", 3).stdout.splitlines()
    assert len(shown) == 3
    assert all(", embassy, " in line and "share 0." in line for line in shown)
    assert len(dura_("discover", run, "--relation", "embassy", "--top", 999).stdout.splitlines()) == 21


def test_an_audit_is_the_same_as_the_method(run: Path, tmp_path: Path) -> None:
    options = ("--folds", 2, "--epochs", 1, "--top", 4, "--folder", tmp_path / "audit")
    found = json.loads(dura_("audit", run, *options, "--json").stdout)
    method = dura.open(run).audit(folds=2, epochs=1, top=4, folder=tmp_path / "audit")
    assert found == json.loads(json.dumps({"run": str(run), **method.to_dict()}))
    wrote = dura_("audit", run, *options, "--output", tmp_path / "doubtful.tsv")
    assert wrote.stdout == f"4 facts in {tmp_path / 'doubtful.tsv'}\n"
    assert dura_("review", run, tmp_path / "doubtful.tsv").stdout.startswith("0 accepted and 0 rejected")


def test_messages(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*arguments: object) -> str:
        return failing(capsys, monkeypatch, *arguments)

    assert "the relation 'embasy' is not in this graph; did you mean 'embassy'" in said(
        "discover", run, "--relation", "embasy"
    )
    assert f"have no probabilities yet; run dura calibrate {run} first" in said(
        "discover", run, "--min-probability", 0.5
    )
    assert "the facts of this graph have no times" in said("discover", run, "--time", "2014")
    assert "the entities of this graph have no types" in said("discover", run, "--type", "country")
    assert "top is 0, but it must be a whole number" in said("discover", run, "--top", 0)
    (tmp_path / "there.csv").write_text("mine")
    assert "there.csv is there already; name a new file" in said("discover", run, "--output", tmp_path / "there.csv")
    assert "must end in .csv, .tsv" in said("audit", run, "--output", tmp_path / "a.doc")
    (tmp_path / "bad.csv").write_text("head,relation,tail,decision\nusa,embassy,mars,yes\n")
    assert "bad.csv:2: the entity 'mars' is not in this graph" in said("review", run, tmp_path / "bad.csv")
    assert "there are no reviews" in said(
        "train", "--graph", "nations", "--reviews", tmp_path / "none", "--out", tmp_path / "x"
    )
    assert "takes no --reviews" in said("train", "--resume", run, "--reviews", run)
    assert not (tmp_path / "x").exists()


def test_dated_facts_are_found_at_a_time(tmp_path: Path) -> None:
    rows = [(f"e{i % 7}", "meets", f"e{(3 * i + 1) % 7}", f"2014-01-0{1 + i % 5}") for i in range(30)]
    model = dura.fit(dura.from_facts(rows), settings={"model.rank": 8, "training.epochs": 2}, progress=False)
    assert set(model.discover(top=5).to_frame()["time"]) == {"2014-01-05"}
    known = {row for row in rows if row[3] == "2014-01-02"}
    found = model.discover(top=99, time="2014-01-02", loops=True)
    assert len(found) == 49 - len(known)
    assert not known & {(f["head"], f["relation"], f["tail"], f["time"]) for f in found}
