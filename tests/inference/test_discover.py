"""Discover: the best missing facts of a graph, compared with a search through every fact."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import built
from dura.data.graph import Graph
from dura.data.reviews import Reviews
from dura.inference import discover as module
from dura.inference.calibration import Calibration, Scale
from dura.inference.discover import Best, Probable, Search, Share, discover
from dura.models import MODELS, Model
from dura.models.rtfe import RTFE
from dura.types import BadInput, DuraError, FloatArray, IntArray
from graphs import graph_for, random_graph

GRAPH = random_graph(entities=12, relations=2, facts=50)
EVERY = np.arange(2)


def build(name: str, graph: Graph) -> Model:
    model = built(name, graph.sizes, rank=6, seed=4).float()
    model.observe(graph.train, list(graph.times or ()))
    if isinstance(model, RTFE):
        model.filled.fill_(model.slots)
    return model


def allowed_ends(graph: Graph, side: int, relation: int) -> set[int]:
    """The heads (side 0) or tails (2) that train has with a relation, and entities that are used in the same ways."""
    uses: dict[int, set[tuple[int, int]]] = {}
    having: dict[tuple[int, int], set[int]] = {}
    for fact in graph.train.tolist():
        for end in (2, 0):
            uses.setdefault(fact[end], set()).add((end, fact[1]))
            having.setdefault((end, fact[1]), set()).add(fact[end])
    inside = having.get((side, relation), set())
    usual = {use for entity in inside for use in uses[entity]}
    return {entity for entity, own in uses.items() if own <= usual}


def literal(model: Model, graph: Graph, search: Search) -> dict[tuple[int, int, int], float]:
    """The value of every fact that may be found: the larger one of its shares in those of its two questions that are asked."""
    splits = np.concatenate([graph.train, graph.valid, graph.test])
    at_time = splits if search.time is None else splits[splits[:, 3] == search.time]
    known = {tuple(fact) for fact in at_time[:, :3].tolist()}
    sides = list(product((0, 2), range(len(graph.relations))))
    seen = {(side, r): set(graph.train[graph.train[:, 1] == r][:, side].tolist()) for side, r in sides}
    like = {(side, r): allowed_ends(graph, side, r) for side, r in sides}
    found, shares = {}, {}
    entities, relations = len(graph.entities), len(graph.relations)
    for h, r in product(range(entities), [*search.relations.tolist(), *(search.relations + relations).tolist()]):
        with model.answering():
            asked = [torch.tensor([i]) for i in (h, r, search.time) if i is not None]
            shares[h, r] = torch.softmax(model.score_all(*asked)[0].double(), 0).tolist()
    for h, r, t in product(range(entities), search.relations.tolist(), range(entities)):
        typed = search.typed is None or search.typed[h] or search.typed[t]
        values = []
        if not search.in_range or (h in seen[0, r] and t in like[2, r]):
            values.append(shares[h, r][t])
        if not search.in_range or (t in seen[2, r] and h in like[0, r]):
            values.append(shares[t, r + relations][h])
        if (h, r, t) not in known and typed and (h != t or search.loops) and values:
            found[h, r, t] = max(values)
    return {fact: value for fact, value in found.items() if value >= search.least}


def check(best: Best, expected: dict[tuple[int, int, int], float], top: int) -> None:
    assert best.value.tolist() == pytest.approx(sorted(expected.values(), reverse=True)[:top], abs=1e-5)
    facts = [tuple(fact) for fact in best.facts.tolist()]
    assert len(set(facts)) == len(facts)
    assert [expected[fact] for fact in facts] == pytest.approx(best.value.tolist(), abs=1e-5)


@pytest.mark.parametrize("name", MODELS.names())
def test_the_best_facts_are_those_of_a_search_through_all(name: str) -> None:
    graph = graph_for(name)
    model = build(name, graph)
    search = Search(np.array([2, 0]), top=25, time=None if graph.times is None else 3)
    check(discover(model, graph, search), literal(model, graph, search), 25)


@pytest.mark.parametrize("in_range", [True, False])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("least", [0.0, 0.12])
def test_the_range_loops_and_the_least_value(in_range: bool, loops: bool, least: float) -> None:
    graph = replace(GRAPH, train=GRAPH.train[(GRAPH.train[:, 1] == 0) | (GRAPH.train[:, 0] < 5)])
    model = build("complex", graph)
    search = Search(EVERY, top=1000, in_range=in_range, loops=loops, least=least)
    expected = literal(model, graph, search)
    found = discover(model, graph, search)
    assert len(found.value) == len(expected) > 0
    check(found, expected, 1000)
    assert found.asked == (len(graph.ranges.entities) if in_range else 48)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=25))
def test_entities_like_a_range_are_those_of_the_literal_rule(facts: list[tuple[int, int, int]]) -> None:
    graph = replace(random_graph(entities=10, relations=4), train=np.array(facts, dtype=np.int32))
    for relation in range(4):
        for side, code in ((2, relation), (0, relation + 4)):
            own = graph.ranges.of_relation(code).tolist()
            like = graph.ranges.alike(code).tolist()
            assert like == sorted(like) and not set(own) & set(like)
            assert set(own) | set(like) == allowed_ends(graph, side, relation)


def test_only_facts_with_an_entity_of_the_type() -> None:
    typed = np.arange(12) < 3
    search = Search(EVERY, top=60, typed=typed)
    model = build("cp", GRAPH)
    found = discover(model, GRAPH, search)
    check(found, literal(model, GRAPH, search), 60)
    assert (typed[found.facts[:, 0]] | typed[found.facts[:, 2]]).all()


@pytest.mark.parametrize("questions", [1, 3, 7])
def test_blocks_change_nothing(questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("complex", GRAPH)
    whole = discover(model, GRAPH, Search(EVERY, top=30))
    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * 12 * questions)
    parts = discover(model, GRAPH, Search(EVERY, top=30))
    assert parts.facts.tolist() == whole.facts.tolist()


def test_equal_values_are_in_the_order_of_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of zeros finds all facts equally good: which ones are kept must not depend on the blocks."""
    model = build("complex", GRAPH)
    for parameter in model.parameters():
        parameter.data.zero_()
    whole = discover(model, GRAPH, Search(EVERY, top=9, in_range=False))
    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * 12)
    parts = discover(model, GRAPH, Search(EVERY, top=9, in_range=False))
    expected = sorted(literal(model, GRAPH, Search(EVERY, in_range=False)))[:9]
    assert [tuple(fact) for fact in whole.facts.tolist()] == [tuple(fact) for fact in parts.facts.tolist()] == expected


def test_what_people_judged_is_left_out() -> None:
    model = build("complex", GRAPH)
    before = discover(model, GRAPH, Search(EVERY, top=20)).facts
    judged = Reviews(before[:4], before[4:10], len(GRAPH.relations))
    after = discover(model, replace(GRAPH, reviews=judged), Search(EVERY, top=10)).facts
    assert after.tolist() == before[10:].tolist()


class Halved(Share):
    """Questions of relation 0 can have no more than half a share. It counts the questions that were scored."""

    def __init__(self) -> None:
        self.scored = 0

    def most(self, relation: IntArray, known: IntArray) -> FloatArray:
        return np.where(relation % 2 == 0, 0.01, 1.0)

    def of(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        self.scored += len(scores)
        return super().of(relation, known, total, scores) * self.most(relation, known)[:, None]


def test_questions_that_promise_too_little_are_not_scored() -> None:
    model = build("complex", GRAPH)
    value = Halved()
    search = Search(np.array([1, 0]), top=5)
    found = discover(model, GRAPH, search, value)
    expected = {fact: p * (0.01 if fact[1] == 0 else 1.0) for fact, p in literal(model, GRAPH, search).items()}
    check(found, expected, 5)
    all_questions = Halved()
    discover(model, GRAPH, Search(np.array([1, 0]), top=10_000), all_questions)
    assert value.scored < all_questions.scored / 1.5


def test_probabilities_are_those_of_the_question_times_those_of_the_answer() -> None:
    """Relation 0 is functional in both directions: a fact that contradicts a known one on either side is never among the best."""
    model, relations = build("complex", GRAPH), len(GRAPH.relations)
    scale = Scale([0] * 4, ["all"], [0.0], [1.0])
    calibration = object.__new__(Calibration)  # without what is only for answer sets
    values = {
        "temperature": 0.5,
        "answer_weights": [0.1, 0.8, -0.2],
        "answers": scale,
        "second": [0.001, 0.5, 0.001, 0.5],
        "first": [],
        "question_weights": [-1.0, 0.1, 0.3, 0.2, 0.1],
        "asked": [10, 20, 10, 20],
    }
    for name, given_value in values.items():
        object.__setattr__(calibration, name, given_value)
    expected: dict[tuple[int, int, int], float] = {}
    for head, relation in product(range(12), range(2 * relations)):
        known = GRAPH.known.known(np.array([head]), np.array([relation])).answers
        with model.answering():
            scores = model.score_all(torch.tensor([head]), torch.tensor([relation]))
        scores[0, known] = -math.inf
        total, count, r = calibration.total(scores), np.array([len(known)]), np.array([relation])
        asked = calibration.question_probabilities(r, count, total)
        for answer in range(12):
            if answer in known or answer == head:
                continue
            one = scores[:, answer : answer + 1].numpy()
            value = float(asked[0] * calibration.probabilities(r, count, total, one)[0, 0])
            other = (relation + relations) % (2 * relations)  # the question that starts from the answer
            if other in (0, 2) and len(GRAPH.known.known(np.array([answer]), np.array([other])).answers):
                value = min(value, 0.001)
            fact = (head, relation, answer) if relation < relations else (answer, relation - relations, head)
            expected[fact] = max(value, expected.get(fact, 0.0))
    found = discover(model, GRAPH, Search(EVERY, top=40, in_range=False), Probable(calibration))
    check(found, expected, 40)


def test_progress_reaches_the_number_of_questions() -> None:
    seen: list[tuple[int, int]] = []
    discover(build("cp", GRAPH), GRAPH, Search(EVERY, in_range=False), progress=lambda *done: seen.append(done))
    assert seen[-1] == (48, 48)


def test_a_model_that_diverged_is_refused() -> None:
    model = build("complex", GRAPH)
    next(model.parameters()).data[0] = math.nan
    with pytest.raises(DuraError, match="not finite numbers"):
        discover(model, GRAPH, Search(EVERY))
    with pytest.raises(BadInput, match="top is 0, but it must be a whole number of at least 1"):
        discover(model, GRAPH, Search(EVERY, top=0))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3), st.integers(0, 4)), max_size=30),
    st.integers(1, 6),
)
def test_merging_keeps_the_largest_value_of_each_fact(rows: list[tuple[int, int, int, int]], top: int) -> None:
    best = Best(np.zeros(0), np.zeros((0, 3), dtype=np.int64))
    for at in range(0, len(rows), 7):
        part = np.array(rows[at : at + 7])
        best = best.merge(part[:, 3].astype(float), part[:, :3], len(rows))
    expected = dict.fromkeys(((h, r, t) for h, r, t, _ in rows), -1)
    for h, r, t, value in rows:
        expected[h, r, t] = max(expected[h, r, t], value)
    order = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:top]
    kept = best.merge(np.zeros(0), np.zeros((0, 3), dtype=np.int64), top)
    assert [(tuple(fact), value) for fact, value in zip(kept.facts.tolist(), kept.value, strict=True)] == order
