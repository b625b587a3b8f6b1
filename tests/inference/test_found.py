"""Facts that were found, as they are printed."""

from __future__ import annotations

import numpy as np

import dura
from dura.inference.found import Found


def test_labels_follow_names_that_differ_from_them() -> None:
    facts = [("Q1", "P1", "Q2"), ("Q2", "P1", "Kobe")]
    graph = dura.from_facts(facts, labels={"Q1": "Berlin\x07"}, relation_labels={"P1": "twin of"})
    fact = [graph.entity("Q1"), graph.relation("P1"), graph.entity("Kobe")]
    found = Found.of(graph, np.array([fact]), {"share": [0.25]}, {})
    assert repr(found) == "   1.  (Q1 (Berlin\\u0007), P1 (twin of), Kobe)  share 0.25"
    marked = Found.of(graph, np.array([fact] * 2), {"probability": [0.25, 0.02], "contradicts": [False, True]}, {})
    first, second = repr(marked).splitlines()
    assert first.endswith("probability 0.25") and second.endswith("probability 0.02  (contradicts a known answer)")
