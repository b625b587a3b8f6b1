"""Rules: mined counts are those of a literal search over all entities, and answers those of the bodies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dura
from dura.data.graph import Graph
from dura.inference import paths as module
from dura.inference import ruled as applied
from dura.inference.ruled import Prepared, Ruled
from dura.inference.rules import CAUTION, Effort, Miner, Rule, apply, mine
from graphs import dated_graph, random_graph

Pair = tuple[int, int]


def pairs(graph: Graph) -> list[set[Pair]]:
    """The pairs of entities of every relation and reciprocal one."""
    found: list[set[Pair]] = [set() for _ in range(2 * len(graph.relations))]
    for h, r, t, *_ in graph.train.tolist():
        found[r].add((h, t))
        found[r + len(graph.relations)].add((t, h))
    return found


def literal(graph: Graph, relation: int) -> dict[tuple[tuple[int, ...], Pair | None], Pair]:
    """(support, times) of all rules of a relation."""
    have = pairs(graph)
    found: dict[tuple[tuple[int, ...], Pair | None], Pair] = {}
    every = range(2 * len(graph.relations))
    for s in every:
        body = {(x, y) for x, y in have[s] if x != y}
        found[(s,), None] = (len(body & have[relation]), len(body))
        for u in every:
            body = {(x, y) for x, z in have[s] for w, y in have[u] if z == w and x != y}
            found[(s, u), None] = (len(body & have[relation]), len(body))
        for d, c in itertools.product(range(len(graph.entities)), repeat=2):
            heads = {x for x, y in have[s] if y == d}
            support = len({x for x in heads if (x, c) in have[relation]})
            found[(s,), (d, c)] = (support, len(heads))
    return found


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 5))
def test_counts_are_those_of_a_literal_search(seed: int, relation: int) -> None:
    graph = random_graph(entities=12, relations=3, facts=60, seed=seed)
    expected = literal(graph, relation)
    rules = mine(graph, relation)
    for rule in rules:
        assert (rule.support, rule.times) == expected[rule.body, rule.ends], rule
        assert not rule.sampled and rule.support >= 2
        assert rule.confidence == rule.support / (rule.times + CAUTION)
    assert [rule.confidence for rule in rules] == sorted((rule.confidence for rule in rules), reverse=True)
    assert len({(rule.body, rule.ends) for rule in rules}) == len(rules)
    own = {(rule.body, rule.ends) for rule in rules}
    through = {
        key for key, (support, _) in expected.items() if support >= 2 and key[1] is None and key[0] != (relation,)
    }
    if not any(h == t for h, _, t in graph.train.tolist()):  # a path through a loop is not looked for
        assert through <= own


def test_rules_answer_with_the_ends_of_their_bodies() -> None:
    graph = random_graph(entities=12, relations=3, facts=60, seed=3)
    have, found = pairs(graph), mine(graph, 1)
    for head in range(12):
        entities, scores = apply(graph, found, head)
        best: dict[int, list[float]] = {}
        for rule in found:
            ends = {y for x, y in have[rule.body[0]] if x == head}
            if len(rule.body) == 2:
                ends = {y for z, y in have[rule.body[1]] if z in ends}
            answers = ends - {head} if rule.ends is None else {rule.ends[1]} if rule.ends[0] in ends else set()
            for answer in answers:
                best.setdefault(answer, []).append(rule.confidence)
        literal_scores = {e: several[0] + 1e-3 * (several[1:2] or [0.0])[0] for e, several in best.items()}
        assert dict(zip(entities.tolist(), scores.tolist(), strict=True)) == pytest.approx(literal_scores)
        assert (np.diff(scores) <= 0).all()


def test_firing_rules_lead_to_the_answer_and_their_facts_are_in_the_graph() -> None:
    graph = dura.load("nations")
    miner, facts = Miner(graph), {tuple(fact) for fact in graph.train.tolist()}
    h, r, t = graph.test[0].tolist()
    fired = miner.firing(r, h, t)
    assert fired
    for rule in fired:
        assert t in miner.apply([rule], h)[0]
        ways = miner.instances(rule, h, t, 2)
        assert 1 <= len(ways) <= 2 and all(fact in facts for way in ways for fact in way)
        assert all(len(way) == len(rule.body) for way in ways)


def simple_paths(have: list[set[Pair]], body: tuple[int, ...]) -> set[Pair]:
    """The ends of the paths of a body that visit four different entities."""
    one, two, three = (have[relation] for relation in body)
    return {
        (x, y)
        for x, z in one
        for begin, w in two
        if begin == z
        for end, y in three
        if end == w and len({x, z, w, y}) == 4
    }


def test_bodies_of_three_relations_are_found_counted_and_followed_in_sparse_graphs() -> None:
    graph = random_graph(entities=30, relations=2, facts=70, seed=4)
    have, miner = pairs(graph), Miner(graph, effort=Effort(longer=10_000))
    literal_ends = {body: simple_paths(have, body) for body in itertools.product(range(4), repeat=3)}
    for relation in range(4):
        found = [body for body in miner.bodies(relation) if len(body) == 3]
        facts = [pair for pair in have[relation] if pair[0] != pair[1]]
        held = {body: sum(pair in ends for pair in facts) for body, ends in literal_ends.items()}
        assert sorted(found) == sorted(body for body, often in held.items() if often >= 2)
        for body in found:
            rule = miner.count(relation, body)
            assert (rule.times, rule.support) == (len(literal_ends[body]), held[body])
            for head in range(30):
                assert set(miner.apply([rule], head)[0].tolist()) == {y for x, y in literal_ends[body] if x == head}
            assert miner.paths.body(miner.paths.code(body)) == body
        assert not [body for body in Miner(graph).bodies(relation) if len(body) == 3]
    dense = random_graph(entities=12, relations=3, facts=300, seed=3)
    assert max(map(len, Miner(dense, effort=Effort(longer=10)).bodies(1))) == 2


def test_walking_back_over_the_fact_itself_is_no_reason() -> None:
    names = [(f"a{i}", "part_of", f"b{i % 3}") for i in range(12)]
    graph = dura.from_facts(names, valid_share=0, test_share=0)
    part = graph.relation("part_of")
    back, miner = part + 1, Miner(graph, effort=Effort(longer=10))
    assert (part, back, part) not in miner.bodies(part)  # the only ways lead back to b
    assert miner.paths.pairs((part, back, part))[0].tolist() == []


def test_bodies_may_end_before_their_last_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [(f"x{i}", "r", f"y{i}") for i in range(50)] + [("y7", "s", "z"), ("z", "t", "w")]
    graph = dura.from_facts(names, valid_share=0, test_share=0)
    body = tuple(graph.relation(name) for name in ("r", "s", "t"))
    miner = Miner(graph)
    assert miner.count(body[0], body).times == 1
    monkeypatch.setattr(module, "MOST_HEADS", 3)
    monkeypatch.setattr(module, "MOST_PATHS", 2)
    assert Miner(graph).paths.pairs(body)[2]


@pytest.mark.parametrize(("limit", "value"), [("HUB", 2), ("MOST_NEAR", 2)])
def test_paths_through_hubs_are_not_looked_for(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    graph = random_graph(entities=30, relations=2, facts=70, seed=4)
    facts, paths = graph.train[:, [0, 2]].tolist(), Miner(graph).paths
    whole = [set(paths.longer(*pair).tolist()) for pair in facts]
    monkeypatch.setattr(module, limit, value)
    some = [set(paths.longer(*pair).tolist()) for pair in facts]
    assert all(few <= every for few, every in zip(some, whole, strict=True))
    assert sum(map(len, some)) < 0.7 * sum(map(len, whole))


def test_frequent_bodies_are_counted_at_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(entities=40, relations=2, facts=600, seed=1)
    body, whole = (0, 1), Miner(graph).count(1, (0, 1))
    monkeypatch.setattr(module, "MOST_PATHS", 100)
    part = Miner(graph).count(1, body)
    assert part.sampled and not whole.sampled and 0 < part.times < whole.times
    assert abs(part.support / part.times - whole.support / whole.times) < 0.3
    monkeypatch.setattr(module, "MOST_HEADS", 5)
    assert Miner(graph).count(1, (0,)).sampled


def test_a_fact_at_several_times_counts_once() -> None:
    graph = dated_graph()
    expected = literal(graph, 0)
    rules = mine(graph, 0)
    assert rules and all((rule.support, rule.times) == expected[rule.body, rule.ends] for rule in rules)


def test_a_planted_rule_is_found_first() -> None:
    names = [("p" + str(i), "born_in", f"c{i % 5}") for i in range(30)] + [
        (f"c{i}", "part_of", f"n{i % 2}") for i in range(5)
    ]
    names += [("p" + str(i), "citizen_of", f"n{i % 5 % 2}") for i in range(30)]
    graph = dura.from_facts(names, valid_share=0, test_share=0)
    born, part, citizen = (graph.relation(name) for name in ("born_in", "part_of", "citizen_of"))
    best = mine(graph, citizen)[0]
    assert best == Rule(citizen, (born, part), None, 30, 30, False)


def test_rules_at_many_heads_give_what_they_give_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dura.load("nations")
    miner = Miner(graph)
    for relation in (0, 7, 60, 109):
        rules, heads = miner.mine(relation), np.array([3, 0, 13, 3])
        several = Prepared.of(rules, miner.paths).at(heads, miner.paths)
        assert several is not None
        place, answer, confidence = several
        for at, head in enumerate(heads.tolist()):
            entities, scores = miner.apply(rules, head)
            given: dict[int, list[float]] = {}
            for entity, share in zip(answer[place == at].tolist(), confidence[place == at].tolist(), strict=True):
                given.setdefault(entity, []).append(share)
            assert all(shares == sorted(shares, reverse=True) for shares in given.values())
            found = {entity: shares[0] + 1e-3 * sum(shares[1:2]) for entity, shares in given.items()}
            assert found == pytest.approx(dict(zip(entities.tolist(), scores.tolist(), strict=True)))
    nothing = Prepared.of([], miner.paths).at(np.array([1]), miner.paths)
    assert nothing is not None and len(nothing[0]) == 0
    question = torch.tensor([3, 0, 13, 3]), torch.tensor([7, 7, 7, 7])
    whole = Ruled(graph).score_all(*question)
    monkeypatch.setattr(applied, "MOST_ROWS", 5)  # more answers than this: fewer heads at once
    assert torch.equal(Ruled(graph).score_all(*question), whole)
