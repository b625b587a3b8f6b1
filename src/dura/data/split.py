"""Split: one list of facts to train, valid and test, so that train knows every entity and relation.

Facts are held out in a random order fixed by the seed, each only if its head, its relation and its tail stay in train. The split
follows from the set of facts and the seed, not from the order of the facts, and no fact is in two splits. A sparse graph may
have too few facts that can be held out: then valid and test are smaller than wanted, and in a tiny graph they may be empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import distinct
from dura.types import BadInput, IntArray

SHARE = 0.1
"""The share of facts that valid gets, and that test gets, if no share is given."""
MOST = 10_000
"""The most facts that valid gets, and that test gets, if no share is given: more tell little and take long to rank."""


class Splits(NamedTuple):
    """The facts of the three splits, each sorted by (head, relation, tail, time)."""

    train: IntArray
    valid: IntArray
    test: IntArray


def split(
    facts: IntArray, *, valid_share: float | None = None, test_share: float | None = None, seed: int = 0
) -> Splits:
    """Split facts [n, 3], or [n, 4] and [n, 5] with times, into train, valid and test. Repeated facts count once.

    Train knows every entity and relation, but not every time: if each time had to stay in train, a graph with few facts per
    time could not hold out any.

    >>> facts = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 2], [2, 0, 0]])
    >>> [len(part) for part in split(facts, valid_share=0.25, test_share=0)]
    [3, 1, 0]
    """
    for name, share in (("valid_share", valid_share), ("test_share", test_share)):
        if share is not None and not 0 <= share < 1:
            raise BadInput(f"{name} must be at least 0 and below 1, not {share:g}")
    if (valid_share or 0) + (test_share or 0) >= 1:
        raise BadInput(f"valid_share {valid_share:g} and test_share {test_share:g} leave nothing to train on")
    facts = distinct(facts)
    facts = facts[np.lexsort(facts.T[::-1])]
    valid, test = wanted(len(facts), valid_share), wanted(len(facts), test_share)
    held = hold_out(facts, valid + test, seed)
    # If fewer facts than wanted can be held out, valid and test share them in proportion.
    first = valid if len(held) == valid + test else round(len(held) * valid / max(1, valid + test))
    train = np.ones(len(facts), dtype=bool)
    train[held] = False
    return Splits(facts[train], facts[np.sort(held[:first])], facts[np.sort(held[first:])])


def wanted(facts: int, share: float | None) -> int:
    """How many facts are to be held out for a share; without a share a tenth, at most 10,000.

    >>> wanted(500, None), wanted(1_000_000, None), wanted(1_000_000, 0.05)
    (50, 10000, 50000)
    """
    return min(round(SHARE * facts), MOST) if share is None else round(share * facts)


def hold_out(facts: IntArray, count: int, seed: int) -> IntArray:
    """The positions of `count` random facts that can be held out so that every entity and relation still occurs.

    There are fewer only if no further fact can be held out.
    """
    order = np.random.default_rng(seed).permutation(len(facts))
    queue = facts[order]
    left = np.arange(len(facts))
    held = left[:0]
    while len(held) < count:
        spared = left[_spare(queue[left])][: count - len(held)]
        if not len(spared):
            break
        held = np.concatenate([held, spared])
        left = np.setdiff1d(left, spared, assume_unique=True)
    return order[held]


def _spare(facts: IntArray) -> NDArray[np.bool_]:
    """True for facts that can all be held out together, so that each name is still used by a fact that stays.

    A name used by `c` facts may lose `c - 1` of them; earlier facts go first. At least one fact goes if any can.
    """
    head, relation, tail = facts[:, 0], facts[:, 1], facts[:, 2]
    every = np.arange(len(facts))
    two = np.flatnonzero(head != tail)  # a self loop uses its entity once
    entities = 1 + int(facts[:, [0, 2]].max(initial=0))
    name = np.concatenate([head, tail[two], relation + entities]).astype(np.int64)
    fact = np.concatenate([every, two, every])
    uses = np.bincount(name)
    alone = np.zeros(len(facts), dtype=bool)
    alone[fact[uses[name] == 1]] = True
    name, fact = name[~alone[fact]], fact[~alone[fact]]
    order = np.lexsort((fact, name))
    name, fact = name[order], fact[order]
    start = np.searchsorted(name, name)
    late = np.arange(len(name)) - start >= uses[name] - 1
    spared = ~alone
    spared[fact[late]] = False
    return spared
