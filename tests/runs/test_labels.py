"""Labels from a folder of CSV files to answers: in Python, on the command line and over HTTP, also after saving and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import dura
from dura.__main__ import app
from dura.config import Experiment
from dura.data.describing import MANY
from dura.data.doctor import check
from dura.runs.run import resume, train
from dura.training.trainer import Interrupted
from dura.types import BadInput
from dura.web.service import application

TOWNS = ["Berlin", "Paris", "Rome", "Madrid", "Vienna", "Berlin"]
LANDS = ["Germany", "France", "Italy", "Spain", "Austria", "United States"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of CSV files with labels of towns, countries and relations. Two towns are called Berlin."""
    path = tmp_path_factory.mktemp("labels") / "towns"
    path.mkdir()
    facts = [f"T{i},P17,L{i}" for i in range(6)] + [f"L{i},P36,T{i}" for i in range(5)]
    facts += [f"L{i},P47,L{(i + step) % 6}" for i in range(6) for step in (1, 2)]
    (path / "train.csv").write_text("head,relation,tail\n" + "\n".join(facts) + "\n")
    (path / "valid.csv").write_text("head,relation,tail\nL5,P36,T5\n")
    (path / "test.csv").write_text("head,relation,tail\nL0,P47,L3\nL1,P47,L4\n")
    towns = [f'T{i},{name},"town, place","a town, number {i}"' for i, name in enumerate(TOWNS)]
    lands = [f"L{i},{name},country," for i, name in enumerate(LANDS)]
    (path / "entities.csv").write_text("id,label,type,description\n" + "\n".join([*towns, *lands]) + "\n")
    (path / "relations.csv").write_text("relation,label\nP17,country\nP36,capital\nP47,shares border with\n")
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    graph = dura.load(folder)
    path = folder.parent / "run"
    dura.fit(graph, model="complex", rank=4, epochs=3, out=path, progress=False)
    return path


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_python(run: Path, tmp_path: Path) -> None:
    model = dura.open(run)
    assert model.graph.types("T0") == ("town, place",) and model.graph.entity_descriptions["T1"] == "a town, number 1"
    by_label = model.predict(head="germany", relation="capital", k=3, known=True)
    by_name = model.predict(head="L0", relation="P36", k=3, known=True)
    assert by_label == by_name and by_label.question == by_name.question
    assert repr(by_label).splitlines()[0] == "(L0 (Germany), P36 (capital), ?)"
    assert all(
        answer.label == (TOWNS + LANDS)[int(answer.entity[1]) + 6 * (answer.entity[0] == "L")] for answer in by_label
    )
    assert by_label.to_dict()["question"] == {
        "head": "L0", "relation": "P36", "head_label": "Germany", "relation_label": "capital"
    }  # fmt: skip
    assert model.score([("France", "capital", "Paris")]) == model.score([("L1", "P36", "T1")])
    with pytest.raises(
        BadInput, match=r"the label 'Berlin' is that of 2 entities.*\n  'T0' \(town, place; a town, number 0\)\n"
    ):
        model.predict(head="Berlin", relation="country")
    with pytest.raises(
        BadInput, match=r"the relation 'shares borders' is not in this graph; did you mean 'shares border with' \(P47\)"
    ):
        model.predict(head="Rome", relation="shares borders")
    saved = dura.open(model.save(tmp_path / "saved"))
    assert saved.graph.about_entities == model.graph.about_entities
    assert saved.graph.about_relations == model.graph.about_relations
    assert model.describe()["graph"]["labels"] == {"entities": 12, "relations": 3}


def test_the_command_line(run: Path, tmp_path: Path) -> None:
    asked = call("predict", run, "--tail", "Vienna", "--relation", "Capital", "-k", "2", "--known")
    assert asked == call("predict", run, "--tail", "T4", "--relation", "P36", "-k", "2", "--known")
    assert asked.startswith("(?, P36 (capital), T4 (Vienna))\n   1.  ")
    document = json.loads(call("predict", run, "--tail", "Vienna", "--relation", "capital", "-k", "1", "--json"))
    assert document["question"] == {
        "relation": "P36", "tail": "T4", "relation_label": "capital", "tail_label": "Vienna"
    }  # fmt: skip
    assert set(document["answers"][0]) == {"entity", "score", "rank", "known", "label"}
    questions = tmp_path / "questions.tsv"
    questions.write_text("Rome\tcountry\t?\nItaly\tshares border with\t?\n")
    many = json.loads(call("predict", run, "--input", questions, "--json"))["questions"]
    assert [one["question"]["head"] for one in many] == ["T2", "L2"]
    done = CliRunner().invoke(app, ["predict", str(run), "--head", "berlin", "--relation", "country"])
    assert done.exit_code != 0


def test_the_service(run: Path) -> None:
    with TestClient(application(dura.open(run))) as client:
        found = client.get("/predict", params={"head": "Rome", "relation": "country", "k": 2}).json()
        assert found["question"] == {"head": "T2", "relation": "P17", "head_label": "Rome", "relation_label": "country"}
        assert found == client.get("/predict", params={"head": "T2", "relation": "P17", "k": 2}).json()
        refused = client.get("/predict", params={"head": "Berlin", "relation": "country"})
        assert refused.status_code == 400 and "'T5' (town, place; a town, number 5)" in refused.json()["error"]
        assert client.get("/").json()["graph"]["labels"] == {"entities": 12, "relations": 3}


def test_results_and_reports_show_the_labels_of_relations(run: Path, tmp_path: Path) -> None:
    printed = call("evaluate", run, "--by", "relation", "--quiet")
    assert "P47 (shares border with)" in printed
    document = json.loads(call("evaluate", run, "--by", "relation", "--quiet", "--json"))
    assert document["labels"] == {"P47": "shares border with"} and set(document["by"]["relation"]) == {"P47"}
    call("report", run, "--markdown", tmp_path / "report.md")
    assert "P47 (shares border with)" in (tmp_path / "report.md").read_text()


def test_the_doctor_shows_labels() -> None:
    facts = [(f"e{i}", "P17", f"e{i + 1}") for i in range(40)]
    facts += [(tail, "P36", head) for head, _, tail in facts]
    unseen, labels = [("e0", "P47", "x")], {"P17": "country", "P36": "capital", "P47": "border"}
    graph = dura.from_facts(facts, [], unseen, labels={"x": "Xanten"}, relation_labels=labels)
    lines = {finding.topic: finding.details.get("lines", []) for finding in check(graph).findings}
    assert lines["leaks"][0].startswith("P17 (country) inverts P36 (capital) in 100% of its 40 facts")
    assert (lines["entities"], lines["relations"]) == (["x (Xanten)"], ["P47 (border)"])


def test_settings_name_the_files_and_resuming_keeps_the_labels(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    files = [f"graph.{many}={folder / f'{many}.csv'}" for many in MANY.values()]
    graph: list[Any] = ["--graph", folder / "train.csv", *(part for file in files for part in ("--set", file))]
    call("train", *graph, "--rank", "2", "--epochs", "1", "--out", out, "--quiet")
    opened = dura.open(out).graph
    assert opened.labels["T1"] == "Paris" and opened.relation_label("P36") == "capital"
    assert opened.digest == dura.load(folder / "train.csv").digest
    settings, steps = Experiment().with_value("model.rank", 2).with_value("training.epochs", 4), iter(range(9))
    with pytest.raises(Interrupted):
        train(settings, opened, tmp_path / "cut", stopped=lambda: next(steps) == 2)
    resumed = resume(tmp_path / "cut").graph
    assert (resumed.about_entities, resumed.about_relations) == (opened.about_entities, opened.about_relations)


def test_when_and_dated_questions_take_labels() -> None:
    facts = [(f"e{i % 4}", "r", f"e{(i + 1) % 4}", str(2000 + i)) for i in range(8)]
    graph = dura.from_facts(facts, valid_share=0, test_share=0, labels={"e0": "Ann"}, relation_labels={"r": "visits"})
    model = dura.fit(graph, model="tcomplex", rank=2, epochs=1, progress=False)
    found = model.when(head="ann", relation="Visits", tail="e1", k=2, known=True)
    assert repr(found).startswith("(e0 (Ann), r (visits), e1, ?)\n")
    assert found.question == model.when(head="e0", relation="r", tail="e1").question
    assert found.to_dict()["question"] == {
        "head": "e0", "relation": "r", "tail": "e1", "head_label": "Ann", "relation_label": "visits"
    }  # fmt: skip
    assert len(model.predict(head="Ann", relation="visits", time="2001", k=2)) == 2
