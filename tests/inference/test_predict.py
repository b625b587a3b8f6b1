"""Answers: the literal order of scores, known facts left out, names and holes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from doubles import built
from dura.inference import Answers, Question, Wanted, predict, when
from dura.inference.asking import read_questions
from dura.models import MODELS, Model
from dura.types import BadInput, DuraError
from graphs import random_graph

GRAPH = random_graph()


@pytest.fixture(params=[name for name in MODELS.names() if not MODELS.get(name).temporal])
def model(request: pytest.FixtureRequest) -> Model:
    return built(request.param, GRAPH.sizes, rank=6, seed=4).float()


def literal(model: Model, head: int | None, relation: int, tail: int | None) -> list[tuple[float, int]]:
    """All unknown answers by descending score, one fact at a time."""
    facts = {tuple(f) for split in (GRAPH.train, GRAPH.valid, GRAPH.test) for f in split.tolist()}
    found = []
    for e in range(len(GRAPH.entities)):
        fact = (head, relation, e) if head is not None else (e, relation, tail)
        if fact in facts:
            continue
        asked = (head, relation, e) if head is not None else (tail, relation + len(GRAPH.relations), e)
        with torch.no_grad():
            found.append((model.score(*(torch.tensor([i]) for i in asked)).item(), e))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("question", [("e003", "r1", None), (None, "r0", "e007")])
def test_answers_are_the_best_unknown_ones(model: Model, question: tuple[str | None, str, str | None]) -> None:
    head, relation, tail = question
    (answers,) = predict(model, GRAPH, [Question(*question)], Wanted(k=6))
    expected = literal(
        model,
        None if head is None else GRAPH.entities.id(head),
        GRAPH.relations.id(relation),
        None if tail is None else GRAPH.entities.id(tail),
    )[:6]
    assert [a.entity for a in answers] == [GRAPH.entities.name(e) for _, e in expected]
    assert [a.score for a in answers] == pytest.approx([score for score, _ in expected], abs=1e-4)
    assert [a.rank for a in answers] == [1, 2, 3, 4, 5, 6]
    assert not any(a.known for a in answers)


def test_known_answers_are_shown_on_request_and_marked(model: Model) -> None:
    h, r, t = GRAPH.test[0].tolist()
    question = Question(GRAPH.entities.name(h), GRAPH.relations.name(r))
    (shown,) = predict(model, GRAPH, [question], Wanted(k=1000, known=True))
    assert len(shown) == len(GRAPH.entities)
    assert {a.entity: a.known for a in shown}[GRAPH.entities.name(t)]
    (hidden,) = predict(model, GRAPH, [question], Wanted(k=1000))
    assert {a.entity for a in hidden} == {a.entity for a in shown if not a.known}


def test_many_questions_are_answered_in_order_across_blocks(model: Model) -> None:
    questions = [Question(f"e{i % 20:03d}", f"r{i % 3}") for i in range(150)]
    together = predict(model, GRAPH, questions, Wanted(k=2))
    assert [a.question for a in together] == questions
    for i in (0, 63, 64, 149):
        (alone,) = predict(model, GRAPH, [questions[i]], Wanted(k=2))
        assert [a.entity for a in alone] == [a.entity for a in together[i]]


def test_answers_print_and_convert(model: Model) -> None:
    (answers,) = predict(model, GRAPH, [Question(None, "r2", "e001")], Wanted(k=3))
    assert repr(answers).splitlines()[0] == "(?, r2, e001)"
    assert f"1.  {answers[0].entity}" in repr(answers)
    frame = answers.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["entity", "score", "rank", "known", "label"]
    assert frame["entity"].to_list() == [a.entity for a in answers] == list(answers.to_pandas()["entity"])
    document = answers.to_dict()
    assert document["question"] == {"relation": "r2", "tail": "e001"}
    first = answers[0]
    assert document["answers"][0] == {
        "entity": first.entity,
        "score": first.score,
        "rank": 1,
        "known": False,
        "label": first.entity,
    }


def test_wrong_questions_are_refused_with_a_sentence(model: Model) -> None:
    with pytest.raises(BadInput, match="exactly one hole"):
        Question("a", "r", "b")
    with pytest.raises(BadInput, match="exactly one hole"):
        Question(None, "r", None)
    with pytest.raises(BadInput, match="entity 'E003' is not in this graph; did you mean 'e003'"):
        predict(model, GRAPH, [Question("E003", "r1")])
    with pytest.raises(BadInput, match="relation 'r9' is not in this graph"):
        predict(model, GRAPH, [Question("e003", "r9")])
    with pytest.raises(BadInput, match=r"have no times, but the question has the time '2014'; leave the time out"):
        predict(model, GRAPH, [Question("e003", "r1", time="2014")])
    with pytest.raises(BadInput, match="no times, so it cannot be asked when"):
        when(model, GRAPH, [Question("e003", "r1", "e001", "?")])
    with pytest.raises(BadInput, match="k is 0, but it must be at least 1"):
        predict(model, GRAPH, [Question("e003", "r1")], Wanted(k=0))


def test_a_model_of_nan_refuses_to_answer(model: Model) -> None:
    with torch.no_grad():
        for tensor in model.state().values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))
    with pytest.raises(DuraError, match="not finite"):
        predict(model, GRAPH, [Question("e003", "r1")])


def test_files_of_questions(tmp_path: Path) -> None:
    two, three, bad = tmp_path / "two.tsv", tmp_path / "three.csv", tmp_path / "bad.tsv"
    two.write_text("e001\tr1\ne002\tr0\n")
    three.write_text('e001,r1,?\n?,r0,"e,2"\n')
    bad.write_text("e001\tr1\t?\n?\tr1\t?\n")
    assert read_questions(two) == [Question("e001", "r1"), Question("e002", "r0")]
    assert read_questions(three) == [Question("e001", "r1"), Question(None, "r0", "e,2")]
    with pytest.raises(BadInput, match=r"bad.tsv:2: a question needs exactly one"):
        read_questions(bad)


def test_empty_answers_are_a_sequence() -> None:
    assert len(Answers(Question("a", "r"), ())) == 0
