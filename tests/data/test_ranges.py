"""Ranges: the entities of each relation and side, compared with plain sets."""

from __future__ import annotations

import pytest

from dura.data import ranges
from dura.data.graph import Graph
from dura.data.ranges import Ranges
from graphs import dated_graph, random_graph


@pytest.mark.parametrize("rows", [7, 1 << 20])
@pytest.mark.parametrize("graph", [random_graph(), dated_graph(intervals=True)], ids=["plain", "intervals"])
def test_ranges_are_those_of_the_training_facts(graph: Graph, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "ROWS", rows)
    count = len(graph.relations)
    found = Ranges.of(graph.train, len(graph.entities), count)
    for relation in range(count):
        facts = [fact for fact in graph.train.tolist() if fact[1] == relation]
        assert found.of_relation(relation).tolist() == sorted({fact[2] for fact in facts})
        assert found.of_relation(relation + count).tolist() == sorted({fact[0] for fact in facts})
