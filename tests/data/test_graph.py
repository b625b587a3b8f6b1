from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dura.data.graph import Graph, distinct
from dura.data.memory import from_facts
from dura.types import BadInput, Sizes


@pytest.fixture
def graph() -> Graph:
    return from_facts(
        [("a", "r", "b"), ("b", "s", "c")],
        [("c", "r", "a")],
        [("a", "s", "new")],
        labels={"a": "Anna", "x": "X"},
    )


def test_ids_follow_the_sorted_names(graph: Graph) -> None:
    assert list(graph.entities) == ["a", "b", "c", "new"]
    assert list(graph.relations) == ["r", "s"]
    assert graph.train.tolist() == [[0, 0, 1], [1, 1, 2]]
    assert graph.valid.tolist() == [[2, 0, 0]]
    assert graph.test.tolist() == [[0, 1, 3]]
    assert graph.train.dtype == np.int32
    assert graph.sizes == Sizes(entities=4, relations=2)


def test_splits_labels_and_unseen(graph: Graph) -> None:
    assert graph.facts("test") is graph.test
    with pytest.raises(BadInput, match="'dev' is not known; the splits are train, valid, test"):
        graph.facts("dev")  # type: ignore[arg-type]
    assert (graph.label("a"), graph.label("b")) == ("Anna", "b")
    assert graph.labels == {"a": "Anna"}
    assert graph.unseen.tolist() == [3]


def test_questions_are_of_train_and_known_of_all(graph: Graph) -> None:
    assert graph.questions.facts == 4
    assert graph.known.facts == 8
    assert graph.known.known(np.array([0]), np.array([1])).answers.tolist() == [3]


def test_digest_changes_with_facts_splits_and_names(graph: Graph) -> None:
    swapped = replace(graph, valid=graph.test, test=graph.valid)
    renamed = from_facts([("a", "r", "b"), ("b", "s", "c")], [("c", "r", "a")], [("a", "s", "newer")])
    same = replace(graph, train=graph.train.astype(np.int64), labels={})
    assert same.digest == graph.digest
    assert len({graph.digest, swapped.digest, renamed.digest}) == 3


def test_a_graph_needs_facts(graph: Graph) -> None:
    with pytest.raises(BadInput, match="has no facts to train on"):
        replace(graph, train=graph.train[:0])
    assert "2 train + 1 valid + 1 test facts" in repr(graph)


def test_distinct_keeps_the_order() -> None:
    facts = np.array([[5, 0, 1], [2, 0, 3], [5, 0, 1], [2, 1, 3]], dtype=np.int32)
    assert distinct(facts).tolist() == [[5, 0, 1], [2, 0, 3], [2, 1, 3]]
    assert distinct(facts).dtype == np.int32
    assert distinct(facts[:0]).shape == (0, 3)
