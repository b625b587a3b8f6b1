from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.config.sections import Splitting
from dura.data import load
from dura.data.leaks import find_leaks
from dura.data.split import Splits, split, wanted
from dura.types import BadInput, IntArray

FACTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60).map(
    lambda facts: np.array(facts, dtype=np.int32)
)
DATED = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=60
).map(lambda facts: np.array(facts, dtype=np.int32))
SHARES = st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.45])
KNOWING: tuple[Splitting, ...] = ("random", "grouped", "relation")
"""The ways to split after which train knows every entity and relation."""
EVERY: tuple[Splitting, ...] = (*KNOWING, "time")
UNDATED = 6


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


def as_before(facts: IntArray, valid: float, test: float, seed: int) -> Splits:
    """The random split word for word: each round holds out the first facts whose names all stay in use."""
    facts = np.unique(facts, axis=0)
    counts = round(valid * len(facts)), round(test * len(facts))
    left = np.random.default_rng(seed).permutation(len(facts)).tolist()
    held: list[int] = []
    while len(held) < sum(counts):
        uses: dict[tuple[str, int], list[int]] = {}
        used = {at: {("e", int(facts[at, 0])), ("r", int(facts[at, 1])), ("e", int(facts[at, 2]))} for at in left}
        for at in left:
            for name in used[at]:
                uses.setdefault(name, []).append(at)
        alone = {users[0] for users in uses.values() if len(users) == 1}
        late = {users[-1] for users in uses.values() if not alone & set(users)}
        spared = [at for at in left if at not in alone and at not in late][: sum(counts) - len(held)]
        if not spared:
            break
        held += spared
        left = [at for at in left if at not in set(spared)]
    first = round(len(held) * counts[0] / max(1, sum(counts)))
    return Splits(facts[sorted(left)], facts[sorted(held[:first])], facts[sorted(held[first:])])


@settings(max_examples=80)
@given(st.one_of(FACTS, DATED), SHARES, SHARES, st.integers(0, 5))
def test_a_random_split_is_what_it_always_was(facts: IntArray, valid: float, test: float, seed: int) -> None:
    parts = split(facts, valid_share=valid, test_share=test, seed=seed)
    for mine, theirs in zip(parts, as_before(facts, valid, test, seed), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("how", EVERY)
def test_nothing_is_lost_or_in_two_splits(how: Splitting) -> None:
    @settings(max_examples=60)
    @given(DATED, SHARES, SHARES, st.integers(0, 5))
    def law(facts: IntArray, valid: float, test: float, seed: int) -> None:
        parts = split(facts, valid_share=valid, test_share=test, seed=seed, how=how, undated=UNDATED)
        assert as_set(np.concatenate(parts)) == as_set(facts)
        assert sum(map(len, parts)) == len(as_set(facts))
        assert len(parts.train)
        if how != "time":
            assert names(parts.train) == names(facts)
            asked = round(valid * len(as_set(facts))) + round(test * len(as_set(facts)))
            assert len(parts.valid) + len(parts.test) <= asked

    law()


@pytest.mark.parametrize("how", EVERY)
def test_the_order_of_the_facts_does_not_matter(how: Splitting) -> None:
    @settings(max_examples=25)
    @given(DATED, st.integers(0, 99))
    def law(facts: IntArray, seed: int) -> None:
        def parts(given: IntArray) -> Splits:
            return split(given, valid_share=0.2, test_share=0.2, seed=1, how=how, undated=UNDATED)

        shuffled = np.random.default_rng(seed).permutation(facts)
        repeated = np.concatenate([facts, facts[: len(facts) // 2]])
        for other in (facts, shuffled, repeated):
            for mine, theirs in zip(parts(other), parts(facts), strict=True):
                np.testing.assert_array_equal(mine, theirs)

    law()


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
        train = as_set(split(facts, valid_share=0, test_share=0.2, seed=seed).train)
        times += [tuple(fact) not in train for fact in facts.tolist()]
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


def planted(seed: int) -> IntArray:
    """Random facts, some of whose relations nearly repeat or invert another one, or are nearly symmetric."""
    rng = np.random.default_rng(seed)
    entities, width = int(rng.integers(15, 60)), int(rng.integers(40, 150))
    base = [
        np.stack([rng.integers(0, entities, width), np.full(width, r), rng.integers(0, entities, width)], axis=1)
        for r in range(4)
    ]
    copies = []
    for relation, (of, turn) in enumerate([(0, [2, 1, 0]), (1, [0, 1, 2]), (2, [2, 1, 0])], start=4):
        kept = base[of][rng.random(width) < rng.uniform(0.75, 1)][:, turn]  # also shares near to the limit
        kept[:, 1] = relation if relation < 6 else of  # relation 2 is symmetric
        copies.append(kept)
    return np.concatenate([*base, *copies]).astype(np.int32)


def leaked(parts: Splits) -> int:
    """How many valid and test facts train gives away: by leaks of all facts, and by those that train alone shows."""
    held = np.concatenate([parts.valid, parts.test])
    return find_leaks(parts.train, held, np.concatenate(parts)).answered + find_leaks(parts.train, held).answered


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.2, 0.4]))
def test_groups_leave_no_leak(seed: int, share: float) -> None:
    facts = planted(seed)
    parts = split(facts, valid_share=share, test_share=share, seed=seed, how="grouped")
    assert leaked(parts) == 0
    assert names(parts.train) == names(facts)
    asked = round(share * len(as_set(facts)))
    assert abs(len(parts.valid) - asked) <= 4 and abs(len(parts.test) - asked) <= 4


@pytest.mark.parametrize("graph", ["umls", "nations", "kinships"])
def test_groups_leave_no_leak_in_known_graphs(graph: str) -> None:
    known = load(graph)
    facts = np.concatenate([known.train, known.valid, known.test])
    parts = split(facts, how="grouped")
    assert leaked(parts) == 0 < leaked(split(facts))
    asked = wanted(sum(map(len, parts)), None)
    assert len(parts.valid) == len(parts.test) == asked
    assert names(parts.train) == names(facts)


def test_a_group_larger_than_a_split_stays_in_train() -> None:
    pair = np.array([(0, r, 1) for r in range(30)])  # relations that repeat each other everywhere, so this is one group
    others = np.array([(2 * i, r, 2 * i + 1) for i in range(1, 12) for r in range(30)])
    cycle = np.array([(i, 30, (i + 1) % 24) for i in range(24)])
    facts = np.concatenate([pair, others, cycle])
    parts = split(facts, valid_share=0.05, test_share=0.05, how="grouped")
    assert set(parts.valid[:, 1]) == set(parts.test[:, 1]) == {30}  # facts of the cycle, which stand alone
    larger = split(facts, valid_share=0.1, test_share=0.1, how="grouped")
    assert leaked(larger) == 0 and len(larger.test) >= 30


def test_every_relation_gives_its_share() -> None:
    rng = np.random.default_rng(2)
    sizes = [5000, 1000, 300, 40, 15, 5, 1]
    facts = np.concatenate(
        [np.stack([rng.integers(0, 80, n), np.full(n, r), rng.integers(0, 80, n)], axis=1) for r, n in enumerate(sizes)]
    )
    facts = np.unique(facts, axis=0)
    parts = split(facts, valid_share=0.1, test_share=0.2, how="relation")
    counts = np.bincount(facts[:, 1])
    for part, share in ((parts.valid, 0.1), (parts.test, 0.2)):
        assert len(part) == round(share * len(facts))
        assert (np.abs(np.bincount(part[:, 1], minlength=7) - share * counts) < 1).all()
    assert counts[6] == 1 and not np.isin(6, np.concatenate([parts.valid, parts.test])[:, 1])


@settings(max_examples=80)
@given(DATED, SHARES, SHARES, st.integers(0, 5))
def test_train_comes_before_valid_and_valid_before_test(facts: IntArray, valid: float, test: float, seed: int) -> None:
    parts = split(facts, valid_share=valid, test_share=test, seed=seed, how="time", undated=UNDATED)
    dated = [part[part[:, 3] != UNDATED, 3] for part in parts]
    assert len(dated[1]) == len(parts.valid) and len(dated[2]) == len(parts.test)
    spans = [times for times in dated if len(times)]
    assert all(before.max() <= after.min() for before, after in itertools.pairwise(spans))
    for part, share in ((parts.valid, valid), (parts.test, test)):
        asked = round(share * sum(map(len, dated)))
        assert len(part) <= 2 * asked
        assert 2 * len(part) >= asked or sum(map(len, dated)) < 5


def test_facts_of_one_time_stay_together() -> None:
    facts = np.array([(i % 7, i % 3, i % 11, i // 12) for i in range(360)])
    parts = split(facts, valid_share=0.08, test_share=0.11, how="time")
    assert not set(parts.train[:, 3]) & set(parts.valid[:, 3])
    assert not set(parts.valid[:, 3]) & set(parts.test[:, 3])
    assert (len(parts.valid), len(parts.test)) == (24, 36)


def test_a_time_with_too_many_facts_is_cut() -> None:
    facts = np.array([(i % 7, i % 3, i, i > 20) for i in range(100)])
    parts = split(facts, valid_share=0.1, test_share=0.1, how="time")
    assert (len(parts.valid), len(parts.test)) == (10, 10)
    assert set(parts.test[:, 3]) == {1}
    assert as_set(parts.test) != as_set(split(facts, valid_share=0.1, test_share=0.1, how="time", seed=1).test)


def test_intervals_are_split_by_their_begin() -> None:
    facts = np.array([(i % 7, i % 3, i, i, 99) for i in range(50)])
    parts = split(facts, valid_share=0.1, test_share=0.1, how="time")
    assert sorted(parts.test[:, 3]) == [45, 46, 47, 48, 49]


def test_facts_without_times_have_no_latest() -> None:
    with pytest.raises(BadInput, match="a split by time needs facts with times, but these have none"):
        split(dense(50), how="time")


@pytest.mark.parametrize("how", EVERY)
def test_all_undated_or_single_facts_stay_in_train(how: Splitting) -> None:
    parts = split(np.array([[0, 0, 1, UNDATED]]), how=how, undated=UNDATED, valid_share=0.4, test_share=0.4)
    assert tuple(map(len, parts)) == (1, 0, 0)
