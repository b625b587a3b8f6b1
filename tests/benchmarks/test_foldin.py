"""The benchmark of fold-in asks only what neither model has seen."""

from __future__ import annotations

import dura
import foldin


def test_facts_to_rank_are_neither_trained_nor_folded_in() -> None:
    graph = dura.load("umls")
    smaller, given, whole = foldin.parted(graph)
    new = set(whole.entities) - set(smaller.entities)
    assert len(new) >= round(foldin.SHARE * len(graph.entities))
    facts = {tuple(row) for row in whole.train.tolist()}
    assert len(facts) == len(smaller.train) + len(given)
    assert not facts & {tuple(row) for row in whole.test.tolist()}
    names = whole.entities.names
    assert all({h, t} & new for h, t in zip(names(whole.test[:, 0]), names(whole.test[:, 2]), strict=True))
    assert set(smaller.entities) <= set(whole.entities)
