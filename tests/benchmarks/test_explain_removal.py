"""The benchmark of explanations: which facts a way removes, and what is left."""

from __future__ import annotations

import numpy as np
import pytest

from doubles import built
from dura.evaluation import rank
from dura.inference.influence import around, influence
from explain import ordered, places, without
from graphs import random_graph


def test_ways_name_facts_of_the_two_entities_and_only_these_go() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    answer = graph.test[0].astype(np.int64)
    both, rng = around(model, graph, answer), np.random.default_rng(0)
    named = {way: ordered(way, both, int(answer[0]), rng) for way in ("explain", "dot", "cosine", "head", "around")}
    assert named["explain"].tolist() == influence(model, graph, answer)[0].tolist()
    assert (named["head"][:, [0, 2]] == answer[0]).any(1).all() and len(named["head"]) < len(named["around"])
    assert all(len(facts) == len(named["explain"]) for way, facts in named.items() if way != "head")
    left = without(graph, named["explain"][:3])
    assert len(left.train) == len(graph.train) - 3 and len(left.entities) == len(graph.entities)
    assert not {tuple(f) for f in left.train.tolist()} & {tuple(f) for f in named["explain"][:3].tolist()}


def test_places_are_those_of_the_evaluation() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    ranks, logs = places(model, graph, graph.test)
    expected = rank(model, graph.test, graph.known, len(graph.relations)).ranks()[: len(graph.test)]
    assert ranks.tolist() == pytest.approx(expected.tolist())
    assert (logs < 0).all()
