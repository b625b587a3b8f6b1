from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.split import Splits, hold_out, split, wanted
from dura.types import BadInput, IntArray

FACTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60).map(
    lambda facts: np.array(facts, dtype=np.int32)
)
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.45])


def names(facts: IntArray) -> tuple[set[int], set[int]]:
    return set(facts[:, [0, 2]].ravel().tolist()), set(facts[:, 1].tolist())


def as_set(facts: IntArray) -> set[tuple[int, ...]]:
    return {tuple(fact) for fact in facts.tolist()}


def could_spare(train: IntArray) -> bool:
    """True if some fact of train could still go: the literal definition."""
    return any(names(np.delete(train, i, axis=0)) == names(train) for i in range(len(train)))


@settings(max_examples=80)
@given(FACTS, SHARES, SHARES, st.integers(0, 5))
def test_nothing_is_lost_leaked_or_short(facts: IntArray, valid: float, test: float, seed: int) -> None:
    parts = split(facts, valid_share=valid, test_share=test, seed=seed)
    every = as_set(facts)
    assert as_set(parts.train) | as_set(parts.valid) | as_set(parts.test) == every
    assert len(parts.train) + len(parts.valid) + len(parts.test) == len(every)
    assert names(parts.train) == names(facts)
    asked_valid, asked_test = round(valid * len(every)), round(test * len(every))
    held = len(parts.valid) + len(parts.test)
    if held == asked_valid + asked_test:
        assert (len(parts.valid), len(parts.test)) == (asked_valid, asked_test)
    else:
        assert held < asked_valid + asked_test
        assert not could_spare(parts.train)
        fair = held * asked_valid / (asked_valid + asked_test)
        assert abs(len(parts.valid) - fair) <= 0.5


@settings(max_examples=30)
@given(FACTS, st.integers(0, 99))
def test_the_order_of_the_facts_does_not_matter(facts: IntArray, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(facts)
    repeated = np.concatenate([facts, facts[: len(facts) // 2]])
    expected = split(facts, valid_share=0.2, test_share=0.2)
    for other in (shuffled, repeated):
        for mine, theirs in zip(split(other, valid_share=0.2, test_share=0.2), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def dense(count: int = 5000) -> IntArray:
    rng = np.random.default_rng(1)
    return np.stack([rng.integers(0, 60, count), rng.integers(0, 4, count), rng.integers(0, 60, count)], axis=1)


def test_same_seed_same_split_other_seed_another() -> None:
    facts = dense()
    first, again, other = split(facts, seed=3), split(facts, seed=3), split(facts, seed=4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert as_set(first.test) != as_set(other.test)


def test_the_held_out_facts_are_drawn_evenly() -> None:
    facts = np.unique(dense(), axis=0)
    times = np.zeros(len(facts))
    for seed in range(200):
        times[hold_out(facts, len(facts) // 5, seed)] += 1
    assert abs(times.mean() - 40) < 0.5
    assert times.std() < 8  # a fair coin gives 5.7
    assert 10 < times.min() < times.max() < 75


def test_default_shares_are_a_tenth_but_at_most_ten_thousand() -> None:
    parts = split(dense())
    total = sum(map(len, parts))
    assert len(parts.valid) == len(parts.test) == round(total / 10)
    assert wanted(99_999, None) == 10_000
    assert wanted(500_000, None) == 10_000
    assert wanted(500_000, 0.1) == 50_000


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([(0, 0, 1)], (1, 0, 0)),
        ([(0, 0, 0)], (1, 0, 0)),
        ([(0, 0, 1), (0, 0, 1)], (1, 0, 0)),
        ([(0, 0, 1), (1, 0, 0)], (1, 1, 0)),
        ([(0, 0, 1), (0, 1, 1)], (2, 0, 0)),
        ([(0, 0, 1), (1, 0, 2), (2, 0, 0)], (2, 0, 1)),
        ([(0, 0, 1), (2, 0, 3), (4, 0, 5)], (3, 0, 0)),
    ],
)
def test_tiny_graphs(facts: list[tuple[int, int, int]], expected: tuple[int, int, int]) -> None:
    parts = split(np.array(facts, dtype=np.int32), valid_share=0.4, test_share=0.2)
    assert tuple(map(len, parts)) == expected
    assert isinstance(parts, Splits)
    assert all(part.shape[1] == 3 for part in parts)


@pytest.mark.parametrize(
    ("valid", "test", "sentence"),
    [
        (-0.1, 0.1, "valid_share must be at least 0 and below 1, not -0.1"),
        (0.1, 1.0, "test_share must be at least 0 and below 1, not 1"),
        (0.5, 0.5, "leave nothing to train on"),
        (float("nan"), 0.1, "valid_share"),
    ],
)
def test_impossible_shares(valid: float, test: float, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        split(dense(10), valid_share=valid, test_share=test)
