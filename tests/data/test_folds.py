"""Folds: every fact is in one fold or in none, and no fold takes the last fact of a name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.folds import KEPT, deal
from dura.types import BadInput
from graphs import random_graph

FACTS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=60, unique=True
)


@settings(max_examples=150, deadline=None)
@given(FACTS, st.integers(2, 5), st.integers(0, 3), st.booleans())
def test_the_facts_outside_of_a_fold_have_all_names(
    rows: list[tuple[int, int, int]], folds: int, seed: int, pairs: bool
) -> None:
    facts = np.array(rows)
    fold = deal(facts, folds, seed, pairs=pairs)
    assert fold.shape == (len(facts),)
    assert set(fold.tolist()) <= {KEPT, *range(folds)}
    for number in range(folds):
        rest = facts[fold != number]
        assert set(rest[:, [0, 2]].flat) == set(facts[:, [0, 2]].flat)
        assert set(rest[:, 1]) == set(facts[:, 1])
    if pairs:
        together: dict[tuple[int, ...], set[int]] = {}
        for (h, _, t), number in zip(rows, fold.tolist(), strict=True):
            together.setdefault(tuple(sorted((h, t))), set()).add(number)
        assert all(len(numbers) == 1 for numbers in together.values())


def test_folds_have_about_the_same_size_and_few_facts_are_kept() -> None:
    graph = random_graph(entities=50, relations=4, facts=1000)
    fold = deal(graph.train, 5, seed=1)
    sizes = np.bincount(fold[fold != KEPT])
    assert sizes.min() > 0.9 * sizes.max()
    assert (fold == KEPT).sum() < 5
    assert (fold == deal(graph.train, 5, seed=1)).all()
    assert (fold != deal(graph.train, 5, seed=2)).any()


def test_the_only_fact_of_an_entity_is_kept() -> None:
    facts = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 1], [0, 0, 7]])
    assert deal(facts, 3, seed=0)[4] == KEPT


def test_one_fold_is_refused() -> None:
    with pytest.raises(BadInput, match="folds is 1, but facts are dealt into at least 2 folds"):
        deal(np.array([[0, 0, 1]]), 1, seed=0)


def test_more_folds_than_facts_are_refused() -> None:
    with pytest.raises(BadInput, match="folds is 100,000, but there are only 3 facts to deal"):
        deal(np.array([[0, 0, 1], [1, 0, 0], [0, 0, 2]]), folds=100_000, seed=0)
