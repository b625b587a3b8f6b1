"""Restricted answers are a filter of the full ranking: same scores, same order, the best k of those that are left."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import built
from dura.inference import Answers, Question, Wanted, ask, predict
from dura.models import Model
from dura.types import BadInput
from graphs import dated_graph, random_graph

NAMES = [f"e{i:03d}" for i in range(20)]
TYPES = {
    name: tuple({"city"} & {("city", "town")[i % 2]} | {("big", "small")[i % 3 > 0]}) for i, name in enumerate(NAMES)
}
GRAPH = replace(random_graph(), entity_types=TYPES, labels={"e003": "Three", "e004": "Four"})


@cache
def model() -> Model:
    return built("complex", GRAPH.sizes, rank=6, seed=4).float()


def seen(question: Question) -> set[str]:
    """The answers that training facts have with this relation on this side, one fact at a time."""
    at = 0 if question.head is None else 2
    relation = GRAPH.relations.id(question.relation)
    return {GRAPH.entities.name(fact[at]) for fact in GRAPH.train.tolist() if fact[1] == relation}


@settings(max_examples=100, deadline=None)
@given(
    question=st.builds(
        lambda entity, relation, head: Question(*((entity, relation) if head else (None, relation, entity))),
        st.sampled_from(NAMES), st.sampled_from(["r0", "r1", "r2"]), st.booleans(),
    ),
    among=st.none() | st.lists(st.sampled_from([*NAMES[:3], "Three", "Four", *NAMES[5:]]), min_size=1),
    types=st.lists(st.sampled_from(["city", "big", "small"]), max_size=2),
    in_range=st.booleans(),
    known=st.booleans(),
    k=st.integers(1, 25),
)  # fmt: skip
def test_restricted_answers_are_a_filter_of_all_answers(
    question: Question, among: list[str] | None, types: list[str], in_range: bool, known: bool, k: int
) -> None:
    (full,) = predict(model(), GRAPH, [question], Wanted(99, known))
    (found,) = predict(model(), GRAPH, [question], Wanted(k, known, among, types, in_range))
    allowed = set(NAMES) if among is None else {{"Three": "e003", "Four": "e004"}.get(name, name) for name in among}
    allowed &= {name for name in NAMES if not types or set(types) & set(TYPES[name])}
    allowed &= seen(question) if in_range else set(NAMES)
    left = [(a.entity, a.score, a.known) for a in full if a.entity in allowed][:k]
    assert [(a.entity, a.score, a.known) for a in found] == left
    assert [a.rank for a in found] == list(range(1, len(left) + 1))


def test_restrictions_differ_between_the_questions_of_a_block() -> None:
    questions = [Question("e001", f"r{i % 3}") if i % 2 else Question(None, f"r{i % 3}", "e001") for i in range(130)]
    wanted = Wanted(4, in_range=True)
    for question, answers in zip(questions, predict(model(), GRAPH, questions, wanted), strict=True):
        (alone,) = predict(model(), GRAPH, [question], wanted)
        assert [a.entity for a in answers] == [a.entity for a in alone]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"among": ["e01"]}, "answers should be among 1 entity, but the entity 'e01' is not in this graph; did you mean"),
        ({"among": ["x", "y", "e001"]}, "among 3 entities, but 2 of them are not clear:\n  the entity 'x' is not"),
        ({"among": []}, "no entity is named that answers may be among"),
        ({"among": "e001"}, "among is 'e001', but it must be a list of names"),
        ({"among": [3]}, "among holds 3, but it must be a list of names"),
        ({"among": ["e001", None]}, "among holds None, but it must be a list of names"),
        ({"types": [None]}, "type holds None, but it must be a list of names"),
        ({"types": ["citty"]}, "the type 'citty' is not in this graph; did you mean 'city'"),
        ({"types": 3}, "type is 3, but it must be a list of names"),
        ({"min_probability": 0.5}, "answers of this run have no probabilities yet; run dura calibrate RUN first"),
        ({"min_probability": 50}, "min_probability is 50, but a probability is a number from 0 to 1"),
        ({"min_probability": True}, "min_probability is True, but a probability is a number from 0 to 1"),
    ],
)  # fmt: skip
def test_wrong_wishes_are_refused_with_a_sentence(wanted: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput) as raised:
        predict(model(), GRAPH, [Question("e001", "r1")], Wanted(**wanted))  # type: ignore[arg-type]
    assert sentence in str(raised.value)


def test_a_graph_without_types_and_questions_for_times() -> None:
    with pytest.raises(
        BadInput, match="entities of this graph have no types, so answers cannot be restricted to a type"
    ):
        predict(model(), random_graph(), [Question("e001", "r1")], Wanted(types=["city"]))
    graph = dated_graph()
    dated = built("tcomplex", graph.sizes, rank=4, seed=4).float()
    with pytest.raises(BadInput, match="asks for a time, but only entities can be restricted .*, --coverage"):
        ask(dated, graph, [Question("e001", "r1", "e002", "?")], Wanted(in_range=True))
    (answers,) = ask(dated, graph, [Question("e001", "r1", None, "2014-01-02")], Wanted(99, in_range=True))
    assert isinstance(answers, Answers)
    tails = {graph.entities.name(fact[2]) for fact in graph.train.tolist() if fact[1] == 1}
    assert {a.entity for a in answers} < tails or {a.entity for a in answers} == tails
