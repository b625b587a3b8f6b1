"""Explanations: for every model, in words and as JSON, by the command, by Python and for dated facts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity
from typer.testing import CliRunner

import dura
from doubles import built, known, law_models
from dura.cli.main import app
from dura.data.graph import Graph
from dura.inference import Question, Wanted
from dura.inference.explain import Explainer
from dura.inference.explanation import METHOD
from dura.inference.predict import predict
from dura.types import BadInput
from graphs import dated_graph, graph_for, random_graph


def names(graph: Graph, fact: list[int]) -> list[str | None]:
    time = [] if graph.times is None else [graph.times.names(fact[3:4])[0] or None]
    return [graph.entities.name(fact[0]), graph.relations.name(fact[1]), graph.entities.name(fact[2]), *time]


@pytest.fixture(params=law_models())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return known(str(request.param), monkeypatch)


def test_every_model_explains_its_answers(name: str) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes).float()
    fact = graph.asked("test")[0].tolist()
    found = Explainer(model, graph).explain(*names(graph, fact), side="head", k=3)  # type: ignore[arg-type]
    document = json.loads(json.dumps(found.to_dict()))
    assert document["method"] == METHOD and document["known"] and document["side"] == "head"
    assert bool(document["no_facts"]) != bool(document["facts"] or document["against"])
    assert all(len(document[key]) <= 3 for key in ("facts", "against", "similar", "rules"))
    assert all(fact["effect"] > 0 for fact in document["facts"])
    assert all(fact["effect"] < 0 for fact in document["against"])
    assert document["no_facts"] in repr(found)
    for entity in document["similar"]:  # it has the same answer
        e, r = graph.entities.id(entity["entity"]), fact[1]
        assert ((graph.train[:, :3] == [fact[0], r, e]).all(1)).any() and e != fact[2]


def test_rank_and_score_are_those_of_predict() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    explainer = Explainer(model, graph)
    for question in ((None, "r0", "e007"), ("e003", "r1", None)):
        (answers,) = predict(model, graph, [Question(*question)], Wanted(k=4))
        for answer in answers:
            head, relation, tail = (part or answer.entity for part in question)
            found = explainer.explain(head, relation, tail, side="head" if question[0] is None else "tail")
            assert (found.rank, found.known) == (answer.rank, False)
            assert found.score == pytest.approx(answer.score, abs=1e-5)


def test_similar_entities_are_the_nearest_ones() -> None:
    graph = dura.load("nations")
    model = built("complex", graph.sizes, rank=6).float()
    h, r, t = graph.train[0].tolist()
    found = Explainer(model, graph).explain(*names(graph, [h, r, t]), k=3)  # type: ignore[arg-type]
    others = [e for e, s, o in graph.train.tolist() if (s, o) == (r, t) and e != h]
    with torch.no_grad():
        rows = model.heads(torch.arange(len(graph.entities)))
    near = sorted(((float(cosine_similarity(rows[h], rows[e], 0)), e) for e in others), reverse=True)[:3]
    assert [one.entity for one in found.similar] == [graph.entities.name(e) for _, e in near]
    assert [one.similarity for one in found.similar] == pytest.approx([s for s, _ in near], abs=1e-5)


def test_an_entity_without_facts_has_no_reasons() -> None:
    graph = dura.from_facts([("a", "r", "b"), ("b", "r", "c")], [("x", "r", "y")], [("x", "r", "c")])
    found = Explainer(built("complex", graph.sizes).float(), graph).explain("x", "r", "y")
    assert found.looked_at == 0 and "no training fact, similar entity or rule supports it" in repr(found)


def test_text_has_labels_and_control_characters_are_escaped() -> None:
    facts = [("Q1", "P1", f"Q{i}") for i in range(2, 8)] + [(f"Q{i}", "P2", "Q9") for i in range(1, 8)]
    labels = {"Q1": "Berlin", "Q9": "Europe\x1b[0m"}
    graph = dura.from_facts(facts, [], [], labels=labels, relation_labels={"P2": "part of"})
    explainer = Explainer(built("complex", graph.sizes).float(), graph)
    found = explainer.explain("Berlin", "part of", "Q9")
    text = repr(found)
    assert text.startswith("(Q1 (Berlin), P2 (part of), Q9 (Europe\\u001b[0m)): rank ") and ", a known fact\n" in text
    about_q2 = repr(explainer.explain("Q2", "P2", "Q9"))
    assert re.search(r"similar entities with the same answer:\n(.*\n)*    -?\d\.\d\d  Q1 \(Berlin\)\n", about_q2)
    assert "\x1b" not in text and "part of(x, y) if P1(x, z) and" not in text
    assert found.to_dict()["fact"] == {
        "head": "Q1", "relation": "P2", "tail": "Q9", "head_label": "Berlin", "relation_label": "part of",
        "tail_label": "Europe\x1b[0m",
    }  # fmt: skip


def test_rules_are_written_in_the_direction_of_their_relations() -> None:
    facts = [(f"c{i}", "contains", f"p{i}") for i in range(6)] + [(f"p{i}", "lies_in", f"c{i}") for i in range(6)]
    graph = dura.from_facts(facts, [], [])
    explainer = Explainer(built("complex", graph.sizes).float(), graph)
    (rule, *_) = explainer.explain("p1", "lies_in", "c1").rules
    assert rule.text == "lies_in(x, y) if contains(y, x)"
    assert str(rule) == "right 6 of 6 times: lies_in(x, y) if contains(y, x)\n    because (c1, contains, p1)"
    (rule, *_) = explainer.explain("p1", "lies_in", "c1", side="head").rules
    assert rule.text == "lies_in(y, x) if contains(x, y)"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tail": "e999"}, "'e999' is not in this graph"),
        ({"relation": "likes"}, "'likes' is not in this graph"),
        ({"side": "both"}, "an answer is a 'tail' or a 'head'"),
        ({"k": 0}, "k is 0, but it must be at least 1"),
        ({"time": "2014-01-01"}, "have no times"),
    ],
)
def test_wrong_input_is_one_sentence(given: dict[str, str], sentence: str) -> None:
    graph = random_graph()
    asked = {"head": "e003", "relation": "r1", "tail": "e004"} | given
    with pytest.raises(BadInput, match=sentence):
        Explainer(built("complex", graph.sizes).float(), graph).explain(**asked)  # type: ignore[arg-type]


def test_dated_facts_need_their_time() -> None:
    graph = dated_graph()
    explainer = Explainer(built("tcomplex", graph.sizes).float(), graph)
    with pytest.raises(BadInput, match="so a question needs a time too"):
        explainer.explain("e003", "r1", "e004")
    found = explainer.explain("e003", "r1", "e004", "2014-01-02")
    assert found.fact.time == "2014-01-02" and all(one.fact.time for one in found.facts) and found.facts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "run"
    dura.fit(dura.load("nations"), model="complex", rank=10, epochs=15, out=folder, progress=False)
    return folder


def test_the_command_and_python_give_the_same(run: Path) -> None:
    options = ["--head", "usa", "--relation", "embassy", "--tail", "china", "-k", "2"]
    done = CliRunner().invoke(app, ["explain", str(run), *options, "--json"])
    assert done.exit_code == 0, done.output
    trained = dura.open(run)
    expected = trained.explain("usa", "embassy", "china", k=2)
    assert json.loads(done.stdout) == {"run": str(run), **json.loads(json.dumps(expected.to_dict()))}
    text = CliRunner().invoke(app, ["explain", str(run), *options]).stdout
    assert (
        text == f"{expected!r}\n" and "training facts that it depends on:" in text and "rules that lead to it:" in text
    )


def test_the_command_refuses_another_side_with_a_sentence(run: Path) -> None:
    fact = ["--head", "usa", "--relation", "embassy", "--tail", "china"]
    done = CliRunner().invoke(app, ["explain", str(run), *fact, "--side", "middle"])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception) == "side is 'middle', but an answer is a 'tail' or a 'head'"


def test_predict_explains_its_answers(run: Path) -> None:
    trained = dura.open(run)
    for asked in ({"head": "usa"}, {"tail": "usa"}):
        (part,) = asked
        options = [f"--{part}", "usa", "--relation", "embassy", "-k", "2", "--explain"]
        done = CliRunner().invoke(app, ["predict", str(run), *options, "--json"])
        answers = trained.predict(relation="embassy", k=2, **asked)  # type: ignore[arg-type]
        explained = trained.explained(answers)
        document = json.loads(done.stdout)
        assert document == {"run": str(run), **json.loads(json.dumps(explained.to_dict()))}
        for one, plain in zip(document["answers"], answers, strict=True):
            assert {key: one[key] for key in one if key != "explanation"} == plain.to_dict()
            fact, side = one["explanation"]["fact"], one["explanation"]["side"]
            assert (fact[part], fact[side]) == ("usa", plain.entity) and side != part
            assert one["explanation"]["rank"] == plain.rank
        text = CliRunner().invoke(app, ["predict", str(run), *options]).stdout
        assert text == f"{explained!r}\n" and text.count("rules that lead to it:") == 2
        assert explained.to_frame().columns == answers.to_frame().columns


def test_files_of_questions_are_explained_as_json_lines_only(run: Path, tmp_path: Path) -> None:
    questions, lines = tmp_path / "questions.tsv", tmp_path / "answers.jsonl"
    questions.write_text("usa\tembassy\t?\nnobody\tembassy\t?\n?\tembassy\tuk\n")
    options = ["predict", str(run), "--input", str(questions), "-k", "1", "--explain"]
    CliRunner().invoke(app, [*options, "--output", str(lines)])
    first, bad, last = (json.loads(line) for line in lines.read_text("utf-8").splitlines())
    assert first["answers"][0]["explanation"]["side"] == "tail" and last["answers"][0]["explanation"]["side"] == "head"
    assert "'nobody' is not in this graph" in bad["error"]
    done = CliRunner().invoke(app, [*options, "--output", str(tmp_path / "answers.csv")])
    assert "explanations do not fit into a table" in str(done.exception) and not (tmp_path / "answers.csv").exists()


def test_times_are_not_explained(run: Path) -> None:
    options = ["--head", "usa", "--relation", "embassy", "--tail", "uk", "--when", "--explain"]
    done = CliRunner().invoke(app, ["predict", str(run), *options])
    assert "--explain explains entities, but --when asks for times" in str(done.exception)


def test_facts_that_are_named_matter_more_than_others(run: Path) -> None:
    """Without the facts with the largest effects the answers fall further than without those with the smallest."""
    trained = dura.open(run)
    graph, changes = trained.graph, []
    answers = [fact for fact in graph.test.tolist() if trained.explain(*names(graph, fact)).rank <= 3][:12]  # type: ignore[arg-type]
    from dataclasses import replace

    from dura.inference.influence import influence

    orders = [influence(trained.model, graph, np.array(fact))[0] for fact in answers]
    for part in (slice(0, 6), slice(-6, None)):
        gone = {tuple(fact) for facts in orders for fact in facts[part].tolist()}
        train = np.array([fact for fact in graph.train.tolist() if tuple(fact) not in gone], dtype=np.int32)
        again = dura.fit(replace(graph, train=train), model="complex", rank=10, epochs=15, progress=False)
        changes.append(np.mean(again.score([tuple(names(graph, fact)) for fact in answers])))  # type: ignore[misc]
    assert changes[0] < changes[1]
