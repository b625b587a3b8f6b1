"""Rules: mined counts are those of a literal search over all entities, and answers those of the bodies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dura
from dura.data.graph import Graph
from dura.inference import paths as module
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


def test_bodies_of_three_relations_are_found_counted_and_followed_in_sparse_graphs() -> None:
    graph = random_graph(entities=30, relations=2, facts=70, seed=4)
    have, miner = pairs(graph), Miner(graph, effort=Effort(longer=10_000))
    for relation in range(4):
        literal_ends = {
            body: {(x, y) for x, z in have[body[0]] for w, y in have[body[2]] if (z, w) in have[body[1]] and x != y}
            for body in itertools.product(range(4), repeat=3)
        }
        found = [body for body in miner.bodies(relation) if len(body) == 3]
        assert found and len(found) == len(set(found))
        for body in found:
            rule = miner.count(relation, body)
            assert rule.times == len(literal_ends[body])
            assert rule.support == len(literal_ends[body] & have[relation]) >= 2
            for head in (0, 7, 20):
                assert set(miner.apply([rule], head)[0].tolist()) == {y for x, y in literal_ends[body] if x == head}
            assert miner.paths.body(miner.paths.code(body)) == body
        assert not [body for body in Miner(graph).bodies(relation) if len(body) == 3]
    dense = random_graph(entities=12, relations=3, facts=300, seed=3)
    assert max(map(len, Miner(dense, effort=Effort(longer=10)).bodies(1))) == 2


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


def test_rules_at_many_heads_give_what_they_give_at_each() -> None:
    graph = dura.load("nations")
    miner = Miner(graph)
    for relation in (0, 7, 60, 109):
        rules, heads = miner.mine(relation), np.array([3, 0, 13, 3])
        place, answer, confidence = miner.evidence(rules, heads)
        for at, head in enumerate(heads.tolist()):
            entities, scores = miner.apply(rules, head)
            given: dict[int, list[float]] = {}
            for entity, share in zip(answer[place == at].tolist(), confidence[place == at].tolist(), strict=True):
                given.setdefault(entity, []).append(share)
            assert all(shares == sorted(shares, reverse=True) for shares in given.values())
            found = {entity: shares[0] + 1e-3 * sum(shares[1:2]) for entity, shares in given.items()}
            assert found == pytest.approx(dict(zip(entities.tolist(), scores.tolist(), strict=True)))
    assert len(miner.evidence([], np.array([1]))[0]) == 0
