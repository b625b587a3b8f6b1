"""Split: one list of facts to train, valid and test.

There are four ways:
  random    Facts are held out in a random order.
  grouped   As random, but facts that give each other away (see `leaks`) are held out together or not at all.
  relation  As random, but every relation gives the same share of its facts.
  time      The latest facts are test, those before are valid. Facts without a time stay in train.
Except by time, a fact is held out only if its head, its relation and its tail stay in train. A sparse graph may have too few such
facts: then valid and test are smaller than wanted, and in a tiny graph they may be empty. The split follows from the set of facts
and the seed, not from the order of the facts, and no fact is in two splits.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dura.config.sections import Splitting
from dura.data.graph import distinct
from dura.data.leaks import Leak, find_leaks
from dura.types import BadInput, IntArray

SHARE = 0.1
"""The share of facts that valid gets, and that test gets, if no share is given."""
MOST = 10_000
"""The most facts that valid gets, and that test gets, if no share is given: more tell little and take long to rank."""
FAR = 2
"""A split by time begins with a new time if this gives at most FAR times as many facts as wanted, and at least 1 / FAR."""

Held = tuple[IntArray, IntArray]
"""The positions of the facts of valid and of test."""


class Splits(NamedTuple):
    """The facts of the three splits, each sorted by (head, relation, tail, time)."""

    train: IntArray
    valid: IntArray
    test: IntArray


def split(
    facts: IntArray,
    *,
    valid_share: float | None = None,
    test_share: float | None = None,
    seed: int = 0,
    how: Splitting = "random",
    undated: int | None = None,
) -> Splits:
    """Split facts [n, 3], or [n, 4] and [n, 5] with times, into train, valid and test. Repeated facts count once.

    `undated` is the id of no time, if some facts have none. Train need not know every time: if each time had to stay in train, a
    graph with few facts per time could not hold out any.

    >>> facts = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 2], [2, 0, 0]])
    >>> [len(part) for part in split(facts, valid_share=0.25, test_share=0)]
    [3, 1, 0]
    """
    for name, share in (("valid_share", valid_share), ("test_share", test_share)):
        if share is not None and not 0 <= share < 1:
            raise BadInput(f"{name} must be at least 0 and below 1, not {share:g}")
    if (valid_share or 0) + (test_share or 0) >= 1:
        raise BadInput(f"valid_share {valid_share:g} and test_share {test_share:g} leave nothing to train on")
    if how not in get_args(Splitting):
        raise BadInput(f"the split {how!r} is not known; facts can be split by {', '.join(get_args(Splitting))}")
    facts = distinct(facts)
    facts = facts[np.lexsort(facts.T[::-1])]
    if how == "time":
        dated = _dated(facts, undated)
        latest = _latest(facts[dated, 3], wanted(len(dated), valid_share), wanted(len(dated), test_share), seed)
        held = dated[latest[0]], dated[latest[1]]
    else:
        held = _HOW[how](facts, wanted(len(facts), valid_share), wanted(len(facts), test_share), seed)
    return Splits(facts[_others(facts, held)], *(facts[np.sort(part)] for part in held))


def wanted(facts: int, share: float | None) -> int:
    """How many facts are to be held out for a share; without a share a tenth, at most 10,000.

    >>> wanted(500, None), wanted(1_000_000, None), wanted(1_000_000, 0.05)
    (50, 10000, 50000)
    """
    return min(round(SHARE * facts), MOST) if share is None else round(share * facts)


def _others(facts: IntArray, held: Held) -> NDArray[np.bool_]:
    """True for facts that are not held out."""
    stay = np.ones(len(facts), dtype=bool)
    stay[np.concatenate(held)] = False
    return stay


def _randomly(facts: IntArray, valid: int, test: int, seed: int) -> Held:
    """Random facts."""
    return _hold_out(facts, np.arange(len(facts)), _one(valid), _one(test), np.zeros(len(facts), np.int64), seed)


def _one(count: int) -> IntArray:
    return np.array([count], dtype=np.int64)


def _per_relation(facts: IntArray, valid: int, test: int, seed: int) -> Held:
    """The same share of every relation. A relation that cannot give its share gives less, and no other one gives more."""
    relation = facts[:, 1].astype(np.int64)
    sizes = np.bincount(relation)
    sizes[sizes < 2] = 0  # its only fact stays in train
    return _hold_out(facts, np.arange(len(facts)), _quota(sizes, valid), _quota(sizes, test), relation, seed)


def _quota(sizes: IntArray, count: int) -> IntArray:
    """A count dealt out in proportion to sizes; where it does not divide, the largest fractions are rounded up.

    >>> _quota(np.array([50, 30, 12, 8]), 10).tolist()
    [5, 3, 1, 1]
    """
    total = max(1, int(sizes.sum()))
    whole, part = np.divmod(sizes.astype(np.int64) * min(count, total), total)
    up = np.argsort(-part, kind="stable")[: int(min(count, sizes.sum()) - whole.sum())]
    whole[up] += 1
    return np.asarray(whole)


def _grouped(facts: IntArray, valid: int, test: int, seed: int) -> Held:
    """Random groups of facts that give each other away.

    A relation may give away another one in train alone, if its share in all facts is just too low. Then these two are joined as
    well, and the facts are split again. This ends, because joined relations never answer a test fact.
    """
    joined = np.arange(int(facts[:, 1].max(initial=0)) + 1)
    leaky = np.zeros(len(joined), dtype=bool)
    found = find_leaks(facts, facts[:0]).found
    while True:
        _join(joined, leaky, found)
        group = _groups(facts, joined, leaky)
        kind = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        held = _hold_out(facts, group, _one(valid), _one(test), kind, seed)
        found = [
            leak for leak in find_leaks(facts[_others(facts, held)], facts[np.concatenate(held)]).found if leak.answered
        ]
        if not found:
            return held


def _join(joined: IntArray, leaky: NDArray[np.bool_], found: list[Leak]) -> None:
    """Give relations that leak into each other the same number, and mark them."""
    for leak in found:
        leaky[[leak.giver, leak.given]] = True
        if joined[leak.giver] != joined[leak.given]:
            joined[joined == joined[leak.given]] = joined[leak.giver]


def _groups(facts: IntArray, joined: IntArray, leaky: NDArray[np.bool_]) -> IntArray:
    """The group of each fact: the same for facts of joined relations over the same two entities in either direction."""
    head, relation, tail = facts[:, 0], facts[:, 1], facts[:, 2]
    group = np.arange(len(facts))
    some = np.flatnonzero(leaky[relation])
    key = np.stack([np.minimum(head, tail)[some], np.maximum(head, tail)[some], joined[relation[some]]])
    order = np.lexsort(key)
    key = key[:, order]
    new = np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))[: len(some)]
    first = np.flatnonzero(new)
    group[some[order]] = some[order][first][np.cumsum(new) - 1]  # a group has the number of its first fact
    return np.unique(group, return_inverse=True)[1]


class _Room:
    """How many facts of each kind may still be held out. A group has a size and is of one kind."""

    def __init__(self, sizes: IntArray, kinds: IntArray, left: IntArray) -> None:
        self.sizes, self.kinds, self.left = sizes, kinds, left.copy()

    def fits(self) -> NDArray[np.bool_]:
        """True for groups for which there is room if they come alone."""
        return np.asarray(self.sizes <= self.left[self.kinds])

    def take(self, groups: IntArray) -> IntArray:
        """Those of the groups that fit if one after the other comes; later ones find less room."""
        taken = groups[:0]
        while len(groups := groups[self.fits()[groups]]):
            by_kind = groups[np.argsort(self.kinds[groups], kind="stable")]
            kinds, sums = self.kinds[by_kind], np.cumsum(self.sizes[by_kind])
            before = np.append(0, sums)[np.searchsorted(kinds, kinds)]
            fit = by_kind[sums - before <= self.left[kinds]]
            self.left -= np.bincount(self.kinds[fit], self.sizes[fit], len(self.left)).astype(np.int64)
            came = np.zeros(len(self.sizes), dtype=bool)
            came[fit] = True
            groups = groups[~came[groups]]
            taken = np.concatenate([taken, fit])
        return np.sort(taken)


def _hold_out(facts: IntArray, group: IntArray, valid: IntArray, test: IntArray, kind: IntArray, seed: int) -> Held:
    """Hold out random groups, as many facts of each kind as valid and test want, so that every entity and relation stays.

    There are fewer only if no further group can be held out. Then valid and test share what there is in proportion.
    """
    order = np.random.default_rng(seed).permutation(len(kind))
    place = np.argsort(order)[group]  # from here on, a group is its place in the random order
    sizes, kind = np.bincount(place, minlength=len(kind)), kind[order]
    held = _drawn(facts, place, _Room(sizes, kind, valid + test), sizes <= np.maximum(valid, test)[kind])
    drawn = np.bincount(kind[held], sizes[held], len(valid))
    first = np.round(drawn * valid / np.maximum(1, valid + test)).astype(np.int64)
    early = _Room(sizes, kind, first).take(held)
    part = np.zeros(len(kind), dtype=np.int8)
    part[held], part[early] = 2, 1
    return np.flatnonzero(part[place] == 1), np.flatnonzero(part[place] == 2)


def _drawn(facts: IntArray, group: IntArray, room: _Room, may: NDArray[np.bool_]) -> IntArray:
    """The groups that are held out: earlier ones first, only those that may, and as many as there is room for."""
    name, user = _uses(facts, group)
    held = group[:0]
    while (able := may & room.fits()).any():
        taken = room.take(_spare(name, user, able))
        if not len(taken):
            break
        held = np.concatenate([held, taken])
        may[taken] = False
        held_out = np.zeros(len(may), dtype=bool)
        held_out[taken] = True
        name, user = name[~held_out[user]], user[~held_out[user]]
    return held


def _uses(facts: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Which group uses which entity or relation: each pair once, sorted by name, then by group."""
    entities, groups = 1 + int(facts[:, [0, 2]].max(initial=0)), 1 + int(group.max(initial=0))
    columns = (facts[:, 0].astype(np.int64), facts[:, 2].astype(np.int64), facts[:, 1].astype(np.int64) + entities)
    uses = np.sort(np.concatenate([column * groups + group for column in columns]))
    uses = uses[np.append(True, uses[1:] != uses[:-1])[: len(uses)]]  # np.unique takes ten times as long
    return uses // groups, uses % groups


def _spare(name: IntArray, user: IntArray, able: NDArray[np.bool_]) -> IntArray:
    """Groups that can all be held out together, so that each name is still used by a group that stays.

    A name used by `c` groups may lose `c - 1` of them; earlier groups go first. At least one group goes if any can.
    """
    uses = np.bincount(name)
    able = able.copy()
    able[user[uses[name] == 1]] = False
    name, user = name[able[user]], user[able[user]]
    late = np.arange(len(name)) - np.searchsorted(name, name) >= uses[name] - 1
    able[user[late]] = False
    return np.flatnonzero(able)


_HOW = {"random": _randomly, "grouped": _grouped, "relation": _per_relation}


def _dated(facts: IntArray, undated: int | None) -> IntArray:
    """The positions of facts with a time. Intervals have the time of their begin."""
    if facts.shape[1] < 4:
        raise BadInput(
            "a split by time needs facts with times, but these have none: name the column of the time, or choose another split"
        )
    return np.flatnonzero(facts[:, 3] != (-1 if undated is None else undated))


def _latest(times: IntArray, valid: int, test: int, seed: int) -> Held:
    """The latest facts for test and those before for valid. Facts of one time stay together if this is near to what is wanted."""
    order = np.lexsort((np.random.default_rng(seed).permutation(len(times)), times))
    ordered = times[order]
    end = _begin(ordered, test, len(ordered) - valid - 1)
    begin = _begin(ordered[:end], valid, end - 1)
    return order[begin:end], order[end:]


def _begin(times: IntArray, count: int, most: int) -> int:
    """Where the last facts begin: about `count` of them, at most `most`, if possible with the first fact of a time."""
    at = len(times) - min(count, max(most, 0))
    firsts = 1 + np.flatnonzero(times[1:] != times[:-1])
    sizes = len(times) - firsts
    near = firsts[(sizes * FAR >= count) & (sizes <= min(count * FAR, most))]
    return int(near[np.argmin(np.abs(near - at))]) if len(near) and count else at
