from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data import leaks
from dura.data.leaks import Leaks, find_leaks
from dura.types import IntArray

Found = tuple[int, int, bool, float, int, int]


def literal(train: IntArray, test: IntArray, least: int, among: IntArray) -> tuple[set[Found], int]:
    """Leaks by sets of pairs, word for word."""
    pairs: dict[int, set[tuple[int, int]]] = {}
    known: dict[int, set[tuple[int, int]]] = {}
    for facts, found_in in ((among, pairs), (train, known)):
        for head, relation, tail in facts.tolist():
            if head != tail:
                found_in.setdefault(relation, set()).add((head, tail))
    asked = {(h, r, t) for h, r, t in test.tolist() if h != t}
    found, answered = set(), set()
    for giver, own in pairs.items():
        for given_, others in pairs.items():
            for inverse in (False, True):
                if len(own) < least or (giver == given_ and not inverse):
                    continue
                turned = {(t, h) for h, t in own} if inverse else own
                share = len(turned & others) / len(own)
                if share >= 0.8:
                    there = known.get(giver, set())
                    hits = {(h, r, t) for h, r, t in asked if r == given_ and ((t, h) if inverse else (h, t)) in there}
                    found.add((giver, given_, inverse, share, len(own), len(hits)))
                    answered |= hits
    return found, len(answered)


FACTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60).map(
    lambda facts: np.array(facts, dtype=np.int32)
)


@pytest.mark.parametrize("joined", [5, 20_000_000])
def test_leaks_equal_the_definition(joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "LEAST", 2)
    monkeypatch.setattr(leaks, "JOINED", joined)

    @settings(max_examples=25)
    @given(FACTS, FACTS)
    def law(train: IntArray, test: IntArray) -> None:
        everything = np.concatenate([train, test])
        same(find_leaks(train, test), *literal(train, test, 2, train))
        same(find_leaks(train, test, everything), *literal(train, test, 2, everything))

    def same(result: Leaks, found: set[Found], answered: int) -> None:
        assert {
            (leak.giver, leak.given, leak.inverse, leak.share, leak.facts, leak.answered) for leak in result.found
        } == found
        assert len(result.found) == len(found)
        assert result.answered == answered

    law()


def test_inverse_repeating_and_symmetric_relations_are_found() -> None:
    pairs = [(i, i + 1) for i in range(0, 40, 2)]
    train = [(h, 0, t) for h, t in pairs]
    train += [(t, 1, h) for h, t in pairs[:18]]  # 1 inverts 0
    train += [(h, 2, t) for h, t in pairs[:16]]  # 2 repeats 0 and inverts 1
    train += [(h, 3, 100 + h) for h, _ in pairs] + [(100 + h, 3, h) for h, _ in pairs[:-1]]  # symmetric
    test = np.array([(pairs[19][1], 1, pairs[19][0]), (100 + pairs[-1][0], 3, pairs[-1][0]), (0, 0, 3)])
    result = find_leaks(np.array(train), test)
    assert result.answered == 2
    by_pair = {(leak.giver, leak.given, leak.inverse): leak for leak in result.found}
    assert by_pair[0, 1, True].share == 18 / 20
    assert by_pair[0, 1, True].answered == 1
    assert by_pair[1, 0, True].share == 1
    assert by_pair[2, 0, False].share == 1
    assert by_pair[0, 2, False].share == 16 / 20
    assert by_pair[3, 3, True].symmetric
    assert by_pair[3, 3, True].answered == 1
    assert [leak.answered for leak in result.found[:3]] == [1, 1, 0]


def test_a_symmetric_relation_is_seen_in_all_facts_though_train_hides_it() -> None:
    both = np.array([(2 * i + k, 0, 2 * i + 1 - k) for i in range(50) for k in (0, 1)])
    test, train = both[:50:2], np.delete(both, np.arange(0, 50, 2), axis=0)
    assert find_leaks(train, test).found == []  # 50 of 75 pairs are there in both directions
    (leak,) = find_leaks(train, test, both).found
    assert (leak.share, leak.facts, leak.answered) == (1, 100, 25)


def test_small_relations_and_self_loops_do_not_count() -> None:
    few = np.array([(i, r, i + 50) for i in range(9) for r in (0, 1)])
    loops = np.array([(i, r, i) for i in range(30) for r in (0, 1)])
    assert find_leaks(few, few[:0]).found == []
    assert find_leaks(loops, loops).found == []
