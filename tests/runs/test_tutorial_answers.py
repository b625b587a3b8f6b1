"""The answers of the tutorial's run: contradictions are marked everywhere, and the two removed facts are found."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import dura
from dura.__main__ import app
from dura.runs.trained import Trained
from tutorial import tutorial_facts

KOBE, DRESDEN = ("Kobe", "located_in", "Japan"), ("Dresden", "currency", "euro")
"""What the tutorial removes from its facts."""
ITALY = ("Berlin", "located_in", "Italy")
"""Berlin has a known country, but the score of this fact is about as high as that of (Kobe, located_in, Japan)."""
KNOWN = ("Berlin", "located_in", "Germany")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    dura.fit(dura.read(tutorial_facts(folder)), out=folder / "run", progress=False).calibrate()
    return folder / "run"


@pytest.fixture(scope="module")
def trained(run: Path) -> Trained:
    return dura.open(run)


def refused(of: Trained, method: str, **arguments: object) -> str:
    """What a method says about arguments that it does not take."""
    with pytest.raises((TypeError, dura.DuraError)) as error:
        getattr(of, method)(**arguments)
    return str(error.value)


def call(*words: object) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def answer_to(trained: Trained, fact: tuple[str, str, str]) -> Any:
    return trained.predict(head=fact[0], relation=fact[1], among=[fact[2]], known=True)[0]


def test_the_missing_fact_is_more_probable_than_a_contradiction_for_answers_and_for_given_facts(
    trained: Trained,
) -> None:
    kobe, italy, known = trained.scored([KOBE, ITALY, KNOWN])
    for right, wrong in ((kobe, italy), (answer_to(trained, KOBE), answer_to(trained, ITALY))):
        assert (right.contradicts, wrong.contradicts) == (False, True)
        assert (wrong.probability or 0) < 0.05 < 0.5 < (right.probability or 0)
    assert not known.contradicts and known.known and (known.probability or 0) > 0.5


def test_every_new_fact_is_marked_as_the_same_answer_is(trained: Trained) -> None:
    entities = list(trained.graph.entities)
    for relation in trained.graph.relations:
        for head in ("Kobe", "Berlin", "Germany"):
            answers = {a.entity: a for a in trained.predict(head=head, relation=relation, k=99, known=True)}
            for fact in trained.scored([(head, relation, tail) for tail in entities]):
                assert (fact.contradicts, fact.known) == (answers[fact.tail].contradicts, answers[fact.tail].known)


def test_the_command_marks_contradictions_in_text_json_and_files(run: Path, trained: Trained, tmp_path: Path) -> None:
    one = ["--head", ITALY[0], "--relation", ITALY[1], "--tail", ITALY[2]]
    assert call("score", run, *one).stdout.endswith("(Berlin, located_in, Italy)  (contradicts a known answer)\n")
    (italy,) = trained.scored([ITALY])
    assert json.loads(call("score", run, *one, "--json").stdout) == {"run": str(run), **italy.to_dict()}
    assert italy.to_dict()["contradicts"] is True
    (tmp_path / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in (KOBE, ITALY, KNOWN)))
    call("score", run, tmp_path / "facts.tsv", "--output", tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(newline="") as file:
        assert [row["contradicts"] for row in csv.DictReader(file)] == ["false", "true", "false"]


def test_without_a_calibration_nothing_is_marked(trained: Trained) -> None:
    (fact,) = Trained(trained.model, trained.graph, trained.experiment).scored([ITALY])
    assert not fact.contradicts and fact.probability is None and "contradicts" not in fact.to_dict()


def test_the_removed_facts_are_the_first_that_are_discovered(run: Path, trained: Trained, tmp_path: Path) -> None:
    """Training facts have no (Kobe, located_in, …) and no (Dresden, currency, …), but these are used as other cities are."""
    found = trained.discover(top=1000)
    facts = [(fact["head"], fact["relation"], fact["tail"]) for fact in found]
    assert set(facts[:2]) == {KOBE, DRESDEN}
    p = [fact["probability"] for fact in found]
    assert p == sorted(p, reverse=True) and p[1] > 0.5
    assert [fact["contradicts"] for fact in found] == [fact.contradicts for fact in trained.scored(facts)]
    assert all(fact["probability"] < 0.05 for fact in found if fact["contradicts"])
    everything = trained.discover(top=20_000, in_range=False)
    assert everything.about["not_asked"] == 0 and everything.about["questions"] == 2 * 4 * 67
    assert 0 < found.about["questions"] < everything.about["questions"] / 2
    ends = {(fact["head"], fact["relation"], fact["tail"]) for fact in everything}
    assert set(facts) <= ends and ("euro", "language", "Polish") in ends - {*facts}


def test_the_command_says_what_it_did_not_ask_and_marks_contradictions(
    run: Path, trained: Trained, tmp_path: Path
) -> None:
    said = call("discover", run, "--top", 1000, "--output", tmp_path / "found.csv")
    asked = trained.discover(top=1).about
    assert (
        f"dura: {asked['not_asked']} of 536 questions were not asked, because training facts do not have their head or tail with "
        "the relation; --everywhere asks them\n"
    ) in said.stderr
    with (tmp_path / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["contradicts"] for row in rows[:2]] == ["false", "false"]
    assert next(row for row in rows if (row["head"], row["tail"]) == ("Berlin", "Italy"))["contradicts"] == "true"
    shown = call("discover", run, "--top", 10).stdout.splitlines()
    assert "contradicts" not in shown[0] and shown[9].endswith("(contradicts a known answer)")
    assert "not asked" not in call("discover", run, "--top", 1, "--everywhere").stderr
    assert "not asked" not in call("discover", run, "--top", 1, "--quiet").stderr


def test_methods_give_what_the_commands_print(run: Path, trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "facts.txt").write_text("1;Italy;located_in;Berlin\n2;Japan;located_in;Kobe\n")
    choice = {"columns": "3,2,1", "separator": "semicolon", "format": "csv"}
    trained.score_file(tmp_path / "facts.txt", tmp_path / "method.csv", **choice)  # type: ignore[arg-type]
    options = [word for name, value in choice.items() for word in (f"--{name}", value)]
    call("score", run, tmp_path / "facts.txt", *options, "--output", tmp_path / "command.csv")
    assert (tmp_path / "method.csv").read_text() == (tmp_path / "command.csv").read_text()
    assert trained.score([ITALY, KOBE], details=True) == trained.scored([ITALY, KOBE])
    assert trained.score([ITALY, KOBE]) == [fact.score for fact in trained.scored([ITALY, KOBE])]
    shown = json.loads(
        call("predict", run, "--head=Kobe", "--relation=located_in", "--k=1", "--explain", "--json").stdout
    )
    found = trained.predict(head="Kobe", relation="located_in", k=1, explain=True)
    assert shown["answers"] == json.loads(json.dumps(found.to_dict()["answers"])) and found[0].explanation is not None
    assert trained.predict_many([("Kobe", "located_in", None)], 1, explain=True)[0].to_dict() == found.to_dict()
    assert trained.ask([("Kobe", "located_in", None)], 1, explain=True)[0].to_dict() == found.to_dict()
    audited = trained.audit(folds=2, epochs=1, top=2, folder=str(tmp_path / "audit"))
    assert len(audited) == 2 and (tmp_path / "audit" / "audit.json").exists()


def test_unknown_options_are_refused_by_name(trained: Trained) -> None:
    for method in ("discover", "audit", "map"):
        assert "unexpected keyword argument 'tops'" in refused(trained, method, tops=3)
    assert "'tops' is not a wish for answers" in refused(trained, "predict", relation="located_in", head="Kobe", tops=3)
    assert "test=True measures what is lost" in refused(trained, "export", path="x", test=True)


def test_a_plain_copy_keeps_its_probabilities_and_a_packed_one_says_that_it_has_none(
    run: Path, trained: Trained, tmp_path: Path
) -> None:
    said = call("export", run, tmp_path / "command", "--json", "--quiet")
    told: list[str] = []
    report = trained.export(tmp_path / "method", details=True, notify=told.append)
    printed = json.loads(said.stdout)
    assert printed.keys() == {"run", *report} and printed["figures"] == report["figures"] and not told
    assert "calibrat" not in said.stderr
    for folder in (tmp_path / "command", tmp_path / "method", trained.save(tmp_path / "saved")):
        copy = dura.open(folder)
        assert copy.scored([KOBE, ITALY, KNOWN]) == trained.scored([KOBE, ITALY, KNOWN])
        assert copy.discover(top=3).to_dict() == trained.discover(top=3).to_dict()
    packed = trained.export(tmp_path / "packed", dtype="int8", notify=told.append)
    (sentence,) = told
    assert sentence == (
        "the run is calibrated, but the new one is not, so its answers have no probabilities yet; "
        f"run: dura calibrate {packed}"
    )
    assert dura.open(packed).calibration is None
    files = trained.export(tmp_path / "vectors", format="numpy", details=True)
    assert files["format"] == "numpy" and all((tmp_path / "vectors" / one["file"]).exists() for one in files["files"])


def test_a_calibration_in_memory_goes_with_the_model(trained: Trained, tmp_path: Path) -> None:
    alone = Trained(trained.model, trained.graph, trained.experiment)
    assert dura.open(alone.save(tmp_path / "before")).calibration is None
    alone.calibration = trained.calibration
    assert dura.open(alone.save(tmp_path / "after")).scored([ITALY]) == trained.scored([ITALY])
