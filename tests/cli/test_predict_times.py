"""`dura predict` on a graph with times, as scripts see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dura.cli.main import app, main
from dura.config import Experiment
from dura.data.memory import from_facts
from dura.runs.build import build_model
from dura.runs.trained import Trained
from dura.types import BadInput

DAYS = [f"2014-01-{day:02d}" for day in range(1, 13)]
FACTS = [(f"p{i:02d}", f"r{day % 3}", f"p{(i + day) % 20:02d}", DAYS[day]) for i in range(20) for day in range(12)]
EXPERIMENT = Experiment().with_value("model.name", "tcomplex").with_value("model.rank", 8)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs as they are before the first step: `dated`, and `partly` with facts that have no time."""
    folder = tmp_path_factory.mktemp("predict")
    for name, facts in (("dated", FACTS), ("partly", [*FACTS, ("p01", "r0", "p02", "")])):
        graph = from_facts(facts, [], [])
        Trained(build_model(EXPERIMENT, graph.sizes, "cpu"), graph, EXPERIMENT).save(folder / name)
    return folder


def dura_json(*arguments: object) -> Any:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_question_at_a_time(home: Path) -> None:
    question = ["predict", home / "dated", "--head", "p03", "--relation", "r1"]
    found = dura_json(*question, "--time", "2014-01-05", "-k", 20, "--known")
    assert found["question"] == {"head": "p03", "relation": "r1", "time": "2014-01-05"}
    assert len(found["answers"]) == 20
    assert [a["entity"] for a in found["answers"] if a["known"]] == ["p07"]
    left = dura_json(*question, "--time", "2014-01-05", "-k", 20)
    assert len(left["answers"]) == 19
    other = dura_json(*question, "--time", "2014-01-06", "-k", 20)
    assert len(other["answers"]) == 20  # r2 holds on that day


def test_when(home: Path) -> None:
    fact = ["predict", home / "dated", "--head", "p03", "--relation", "r1", "--tail", "p07", "--when"]
    found = dura_json(*fact, "-k", 99, "--known")
    assert found["question"] == {"head": "p03", "relation": "r1", "tail": "p07"}
    assert sorted(time["time"] for time in found["times"]) == DAYS
    assert [time["time"] for time in found["times"] if time["known"]] == ["2014-01-05"]
    assert [time["rank"] for time in found["times"]] == list(range(1, 13))
    assert len(dura_json(*fact)["times"]) == 10
    text = CliRunner().invoke(app, [*map(str, fact), "-k", "1"]).stdout.splitlines()
    assert text[0] == "(p03, r1, p07, ?)"
    assert text[1].startswith("   1.  2014-01-")


def test_no_time_asks_at_none_where_facts_have_none(home: Path) -> None:
    found = dura_json("predict", home / "partly", "--head", "p01", "--relation", "r0", "-k", 99, "--known")
    assert [a["entity"] for a in found["answers"] if a["known"]] == ["p02"]
    times = dura_json("predict", home / "partly", "--head=p01", "--relation=r0", "--tail=p02", "--when", "-k", 99)
    assert sorted(time["time"] for time in times["times"]) == DAYS


def test_questions_from_a_file(home: Path) -> None:
    (home / "questions.tsv").write_text("p03\tr1\t?\t2014-01-05\np03\tr1\tp07\t?\n?\tr1\tp07\t2014-01-05\n")
    many = dura_json("predict", home / "dated", "--input", home / "questions.tsv", "-k", 3)["questions"]
    assert [sorted(document) for document in many] == [
        ["answers", "line", "question"],
        ["line", "question", "times"],
        ["answers", "line", "question"],
    ]
    alone = dura_json("predict", home / "dated", "--head=p03", "--relation=r1", "--tail=p07", "--when", "-k", 3)
    assert many[1]["times"] == alone["times"]
    assert many[2]["question"] == {"relation": "r1", "tail": "p07", "time": "2014-01-05"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--head", "p03", "--relation", "r1"], "from 2014-01-01 to 2014-01-12, so a question needs a time too (--time"),
        (["--head", "p03", "--relation", "r1", "--time", "2015"], "'2015' is not in this graph; the nearest is 2014-01-12 before"),
        (["--head", "p03", "--relation", "r1", "--time", "May"], "whose times are dates from 2014-01-01 to 2014-01-12"),
        (["--head", "p03", "--relation", "r1", "--tail", "p07"], "or both to ask when (--when, elsewhere the time ?)"),
        (["--head", "p03", "--relation", "r1", "--when"], "--when asks at which times a fact holds, so it needs --head"),
        (["--head=p03", "--relation=r1", "--tail=p07", "--when", "--time=2014"], "--time cannot be given together with it"),
        (["--input", "questions.tsv", "--when"], "--time and --when cannot be given together with it"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_2(
    home: Path,
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["dura", "predict", str(home / "dated"), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert sentence in said.err


def test_the_column_of_times_is_named_when_training(home: Path) -> None:
    path = home / "visits.csv"
    path.write_text("when,from,link,to\n" + "".join(f"{day},{h},{r},{t}\n" for h, r, t, day in FACTS))
    report = dura_json(
        "train", "--graph", path, "--time", "when", "--model", "tcomplex", "--regularizer", "none", "--rank", 4,
        "--epochs", 1, "--out", home / "visits", "--quiet",
    )  # fmt: skip
    assert report["epochs"] == 1
    found = dura_json("predict", home / "visits", "--head=p03", "--relation=r1", "--tail=p07", "--when", "-k", 99)
    assert len(found["times"]) == 11
    again = CliRunner().invoke(app, ["train", "--resume", str(home / "visits"), "--time", "when"])
    assert "takes no --time" in str(again.exception)


def test_the_doctor_is_told_where_the_times_are(tmp_path: Path) -> None:
    visits = tmp_path / "visits.csv"
    visits.write_text("day,from,link,to\n" + "".join(f"{t},{h},{r},{o}\n" for h, r, o, t in FACTS))
    done = CliRunner().invoke(app, ["data", "check", str(visits), "--time", "day", "--json"])
    report = json.loads(done.stdout)
    assert (report["entities"], report["relations"]) == (20, 3)
    assert next(f for f in report["findings"] if f["topic"] == "times")["text"].startswith(
        "12 dates from 2014-01-01 to 2014-01-12"
    )
    for arguments, sentence in (
        (["--time", "date"], "has no column 'date'; its first line has 'day', 'from', 'link', 'to'"),
        (["--time", "0,1,2"], "3 columns of times are chosen"),
    ):
        done = CliRunner().invoke(app, ["data", "check", str(visits), *arguments])
        assert isinstance(done.exception, BadInput)
        assert sentence in str(done.exception)
    done = CliRunner().invoke(app, ["data", "check", "umls", "--time", "3"])
    assert "'umls' is a known graph" in str(done.exception)
