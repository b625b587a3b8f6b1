"""Patterns: what `synth` plants in a graph, so that some facts follow from others.

Entities live in communities (32 to 1,024 entities, few of them large) and have one of a few types. A relation leads from one type
to another inside a community, so a model that learns communities and types knows most tails. A draw plants a pattern for an entity:

| pattern | planted facts | conclusion |
|---|---|---|
| symmetric | (a, r, b) | (b, r, a) |
| inverse | (a, r, b) | (b, r', a) |
| composed | (a, r1, b), (b, r2, c) | (a, r3, c) |
| hierarchical | (a, r1, hub of its community), (hub, r1, hub of the community above) | (a, r2, hub above) |
| temporal | (a, r, b) at a time; the type of b changes from one eighth of all times to the next | (a, r, b) at a time close to it |

Tails follow from a hash of head and relation, so nothing has to be looked up, and everything is computed for many draws at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dura.types import FloatArray, IntArray

KINDS = {"symmetric": 1, "inverse": 2, "composed": 3, "hierarchical": 2, "temporal": 1}
"""The patterns, and how many relations one of each kind takes."""
ROLES = {
    "symmetric": ("both-ways",),
    "inverse": ("there", "back"),
    "composed": ("first", "second", "whole"),
    "hierarchical": ("parent", "grandparent"),
    "temporal": ("then",),
}
SYMMETRIC, INVERSE, COMPOSED, HIERARCHICAL, TEMPORAL = range(5)
TYPES, PHASES, SLOTS = 8, 8, 8
"""Types of entities; parts into which times are divided; tails that a head can have by one relation."""
SMALLEST, LARGEST = 32, 1024
"""How many entities a community has."""


@dataclass(frozen=True)
class Plan:
    """The planted patterns: the kind, the relations [n, 3] and the types of each, and the names of the relations, sorted.

    `order` has the patterns of the first type, then those of the second and so on, in each the frequent ones first.
    """

    kind: IntArray
    relations: IntArray
    domain: IntArray
    middle: IntArray
    range: IntArray
    order: IntArray
    types: int
    names: list[str]

    def kind_of_relation(self) -> IntArray:
        """The kind of each relation."""
        found = np.zeros(len(self.names), dtype=np.int64)
        for role in range(3):
            has = self.relations[:, role] >= 0
            found[self.relations[has, role]] = self.kind[has]
        return found


def plan(relations: int, dated: bool, seed: int) -> Plan:
    """Patterns of all kinds in turn until the relations are used up. Only dated facts have temporal patterns."""
    sizes = list(KINDS.values())[: 5 if dated else 4]
    kinds, left = list[int](), relations
    while left:
        following = [(len(kinds) + more) % len(sizes) for more in range(len(sizes))]
        kinds.append(next(kind for kind in following if sizes[kind] <= left))
        left -= sizes[kinds[-1]]
    labels = list(KINDS)
    named = [
        (f"{labels[kind]}-{number:04d}-{role}", number, at)
        for number, kind in enumerate(kinds)
        for at, role in enumerate(ROLES[labels[kind]])
    ]
    table = np.full((len(kinds), 3), -1, dtype=np.int64)
    for relation, (_, number, at) in enumerate(sorted(named)):
        table[number, at] = relation
    kind = np.array(kinds)
    domain, turn, types = _domains(kind)
    middle, last = ((domain + 1 + (turn + more) % max(1, types - 1)) % types for more in (0, 1))
    order = np.lexsort((np.random.default_rng([seed, 1]).permutation(len(kind)), domain))
    return Plan(kind, table, domain, middle, last, order, types, [name for name, *_ in sorted(named)])


def _domains(kind: IntArray) -> tuple[IntArray, IntArray, int]:
    """The type at which each pattern begins, in which turn, and the number of types.

    Every type has a symmetric or inverse pattern: only these give a head many tails.
    """
    mutual = kind <= INVERSE
    types = min(TYPES, int(mutual.sum()))
    place = np.where(mutual, np.cumsum(mutual), np.cumsum(~mutual)) - 1
    return place % types, place // types, types


@dataclass(frozen=True)
class Communities:
    """Where each community begins, how many entities it has, and where its types begin, as shares."""

    start: IntArray
    size: IntArray
    shares: FloatArray
    seed: int

    @classmethod
    def of(cls, entities: int, types: int, seed: int) -> Communities:
        """Communities of all entities, with sizes from a power law that does not depend on the number of entities."""
        power = 1.2
        drawn = np.random.default_rng([seed, 2]).random(entities // SMALLEST + 1)
        sizes = (SMALLEST * (1 - drawn * (1 - (SMALLEST / LARGEST) ** power)) ** (-1 / power)).astype(np.int64)
        ends = np.cumsum(sizes)
        ends = np.append(ends[ends <= entities - SMALLEST], entities)
        start = np.append(0, ends[:-1])
        weights = np.arange(1, types + 1) ** -0.5
        return cls(start, ends - start, np.append(0, np.cumsum(weights) / weights.sum()), seed)

    def cell(self, community: IntArray, kind: IntArray) -> tuple[IntArray, IntArray]:
        """The first entity of a type in a community, and how many there are."""
        size = self.size[community]
        low = (size * self.shares[kind]).astype(np.int64)
        return self.start[community] + low, (size * self.shares[kind + 1]).astype(np.int64) - low

    def type_of(self, entity: IntArray, community: IntArray) -> IntArray:
        """The type of each entity."""
        place, size = entity - self.start[community], self.size[community]
        found = np.zeros(len(entity), dtype=np.int64)
        for share in self.shares[1:-1]:
            found += place >= (size * share).astype(np.int64)
        return found

    def tail(self, head: IntArray, key: IntArray, community: IntArray, kind: IntArray) -> IntArray:
        """The tail that belongs to a head and a key, in a cell; it is never the head. Tails follow Zipf's law."""
        first, count = self.cell(community, kind)
        place = zipf(self._uniform(head, key), count)
        return np.where(first + place == head, first + (place + 1) % np.maximum(count, 1), first + place)

    def hub(self, community: IntArray, key: IntArray) -> IntArray:
        """The entity at the top of a community, by key."""
        return self.start[community] + zipf(self._uniform(community, -1 - key), self.size[community])

    def above(self, community: IntArray) -> IntArray:
        """The community above each community, one of those before it, by Zipf's law. So the hubs of the first are known to many."""
        return np.maximum(0, zipf(self._uniform(community, -1 - len(self.start) - community), community))

    def _uniform(self, *numbers: IntArray) -> FloatArray:
        """A number from 0 to 1 that follows from the seed and the given numbers (splitmix64)."""
        state = np.full(len(numbers[0]), self.seed, dtype=np.uint64)
        for number in numbers:
            state = (state ^ number.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x7F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def zipf(uniform: FloatArray, count: IntArray) -> IntArray:
    """A place below `count` for each uniform number; the k-th place has a chance of about 1/k.

    >>> zipf(np.array([0.0, 0.5, 0.999]), np.array([8, 8, 8])).tolist()
    [0, 2, 7]
    """
    place: IntArray = np.exp(uniform * np.log(count + 1.0)).astype(np.int64) - 1
    return np.minimum(place, count - 1)


@dataclass(frozen=True)
class Draws:
    """What some draws plant: rows of (head, relation, tail, time). A second fact or a conclusion with tail -1 does not exist."""

    first: IntArray
    second: IntArray
    conclusion: IntArray


def draw(plan: Plan, homes: Communities, entity: IntArray, times: int, rng: np.random.Generator) -> Draws:
    """Plant one pattern for each of these entities (an entity may occur many times)."""
    community = np.searchsorted(homes.start, entity, side="right") - 1
    own = homes.type_of(entity, community)
    which = _patterns(plan, own, rng)
    time = rng.integers(max(1, times), size=len(entity))
    first, second, conclusion = (np.full((len(entity), 4), -1, dtype=np.int64) for _ in range(3))
    first[:, 3] = second[:, 3] = conclusion[:, 3] = time
    slot = rng.integers(SLOTS, size=len(entity))
    for kind, plant in enumerate((_mutual, _mutual, _composed, _hierarchical, _temporal)):
        at = np.flatnonzero(plan.kind[which] == kind)
        some = _Some(plan, homes, entity[at], community[at], which[at], slot[at], time[at], times, rng)
        first[at, :3], second[at, :3], conclusion[at] = plant(some)
    return Draws(first, second, conclusion)


def _patterns(plan: Plan, own: IntArray, rng: np.random.Generator) -> IntArray:
    """The pattern of each draw: one that begins at the entity's type. Patterns follow Zipf's law."""
    counts = np.bincount(plan.domain, minlength=plan.types)
    starts = np.cumsum(counts) - counts
    chosen: IntArray = plan.order[starts[own] + zipf(rng.random(len(own)), counts[own])]
    return chosen


@dataclass(frozen=True)
class _Some:
    """Draws of one kind."""

    plan: Plan
    homes: Communities
    entity: IntArray
    community: IntArray
    which: IntArray
    slot: IntArray
    time: IntArray
    times: int
    rng: np.random.Generator

    def relation(self, role: int) -> IntArray:
        """The relation of each draw in this role."""
        found: IntArray = self.plan.relations[self.which, role]
        return found

    def tail(self, head: IntArray, role: int, kind: IntArray, slot: IntArray | int = 0) -> IntArray:
        """The tail of each head by this role's relation."""
        return self.homes.tail(head, self.relation(role) * SLOTS + slot, self.community, kind)


def _rows(*columns: IntArray) -> IntArray:
    return np.stack(columns, axis=1)


_Planted = tuple[IntArray, IntArray, IntArray]


def _mutual(some: _Some) -> _Planted:
    """Symmetric and inverse: both directions of one link."""
    plan, a = some.plan, some.entity
    symmetric = plan.kind[some.which] == SYMMETRIC
    b = some.tail(a, 0, np.where(symmetric, plan.domain[some.which], plan.range[some.which]), some.slot)
    back = np.where(symmetric, some.relation(0), some.relation(1))
    none = np.full((len(a), 3), -1)
    return _rows(a, some.relation(0), b), none, _rows(b, back, a, some.time)


def _composed(some: _Some) -> _Planted:
    """Two links after each other, and the link from the first entity to the last."""
    a, plan = some.entity, some.plan
    b = some.tail(a, 0, plan.middle[some.which])
    c = some.tail(b, 1, plan.range[some.which])
    whole = _rows(a, some.relation(2), np.where(c == a, -1, c), some.time)
    return _rows(a, some.relation(0), b), _rows(b, some.relation(1), c), whole


def _hierarchical(some: _Some) -> _Planted:
    """The hub of the community, the hub of the community above it, and the link to the latter. The top has nothing above it."""
    a, homes, community = some.entity, some.homes, some.community
    hub, over = homes.hub(community, some.which), homes.hub(homes.above(community), some.which)
    top, is_hub = community == 0, a == hub
    beside = homes.start[community] + (a - homes.start[community] + 1) % homes.size[community]
    parent = np.where(is_hub, np.where(top, beside, over), hub)
    missing = top | is_hub
    second = _rows(hub, some.relation(0), np.where(missing, -1, over))
    return (
        _rows(a, some.relation(0), parent),
        second,
        _rows(a, some.relation(1), np.where(missing, -1, over), some.time),
    )


def _temporal(some: _Some) -> _Planted:
    """A link whose tail has another type in each phase; it holds at two times of the same phase."""
    a, plan, times = some.entity, some.plan, max(1, some.times)
    phases = min(PHASES, times)
    phase = some.time * phases // times
    b = some.tail(a, 0, (plan.range[some.which] + phase) % plan.types)
    low, high = -(-phase * times // phases), -(-(phase + 1) * times // phases)
    later = some.rng.integers(low, high)
    again = _rows(a, some.relation(0), np.where(later == some.time, -1, b), later)
    return _rows(a, some.relation(0), b), np.full((len(a), 3), -1), again
