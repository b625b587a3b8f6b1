from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.categories import relation_categories
from dura.types import IntArray


def literal(facts: IntArray, relation: int) -> str:
    """The definition, word for word."""
    own = {(h, t) for h, r, t in facts.tolist() if r == relation}
    if not own:
        return "unseen"
    tails_a_head = len(own) / len({h for h, _ in own})
    heads_a_tail = len(own) / len({t for _, t in own})
    return f"{'N' if heads_a_tail >= 1.5 else '1'}-{'N' if tails_a_head >= 1.5 else '1'}"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40))
def test_categories_equal_the_definition(rows: list[tuple[int, int, int]]) -> None:
    facts = np.array(rows, dtype=np.int32)
    assert relation_categories(facts, 6).tolist() == [literal(facts, relation) for relation in range(6)]


@pytest.mark.parametrize(
    ("pairs", "category"),
    [
        ([(0, 1), (2, 3)], "1-1"),
        ([(0, 1), (0, 2), (3, 4)], "1-N"),  # three tails for two heads: exactly 1.5
        ([(1, 0), (2, 0), (4, 3)], "N-1"),
        ([(0, 1), (0, 2), (5, 1), (5, 2)], "N-N"),
        ([(0, 1), (0, 2), (3, 4), (5, 6)], "1-1"),  # 4/3 tails a head
    ],
)
def test_threshold(pairs: list[tuple[int, int]], category: str) -> None:
    facts = np.array([(head, 0, tail) for head, tail in pairs])
    assert relation_categories(facts, 1).tolist() == [category]
