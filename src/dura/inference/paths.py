"""Paths: the training facts of a graph as a place to walk in. Rules are found, counted and followed on it.

A path is a sequence of relations, its *body*. Relations r + |R| are reciprocal: followed from the tail to the head. Paths ignore
times: a fact counts if it holds at any time. Memory is bounded by the facts and by `MOST_PATHS`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph, distinct
from dura.data.questions import Questions, segments
from dura.types import IntArray

MOST_PATHS = 50_000
"""A body that holds for more pairs of entities is counted at a sample of its heads with about this many pairs."""
MOST_HEADS = 2_000
"""At how many heads a body is counted at most."""
MOST_NEAR, HUB = 200, 500
"""Bodies of three relations are looked for at this many facts of the head, and not through entities with more facts than a hub."""


class Paths:
    """The training facts of a graph in both directions, without times."""

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        self._graph, self._seed = graph, seed
        self._pairs_of: tuple[int, IntArray] = -1, np.zeros(0, np.int64)

    @cached_property
    def facts(self) -> Questions:
        """The facts as questions with answers."""
        if self._graph.times is None:
            return self._graph.questions
        return Questions.of(distinct(self._graph.train[:, :3]), relations=self.relations)

    @property
    def relations(self) -> int:
        """How many relations there are without reciprocal ones."""
        return len(self._graph.relations)

    @property
    def entities(self) -> int:
        """How many entities there are."""
        return len(self._graph.entities)

    def back(self, relation: int) -> int:
        """The reciprocal of a relation, or the relation of a reciprocal one."""
        return (relation + self.relations) % (2 * self.relations)

    # -- looking up -----------------------------------------------------------------------------------------------

    @cached_property
    def _by_relation(self) -> tuple[IntArray, IntArray]:
        """The positions of the questions by relation, and where each relation begins."""
        order = np.argsort(self.facts.relation, kind="stable")
        return order, np.searchsorted(self.facts.relation, np.arange(2 * self.relations + 1), sorter=order)

    @cached_property
    def _by_head(self) -> tuple[IntArray, IntArray]:
        """The relation of each fact, and where the facts of each entity begin."""
        begin = self.facts.offsets[np.searchsorted(self.facts.head, np.arange(self.entities + 1))]
        return np.repeat(self.facts.relation.astype(np.int64), self.facts.counts), begin

    def _questions(self, relation: int) -> IntArray:
        order, starts = self._by_relation
        return order[starts[relation] : starts[relation + 1]]

    def heads(self, relation: int) -> IntArray:
        """The entities that are heads of a relation."""
        return self.facts.head[self._questions(relation)].astype(np.int64)

    def of(self, relation: int) -> tuple[IntArray, IntArray]:
        """The heads and tails of all facts of a relation."""
        some = self.facts.take(self._questions(relation))
        return np.repeat(some.head, some.counts), some.answers

    def near(self, entity: int) -> tuple[IntArray, IntArray]:
        """The relations and tails of all facts of an entity, in both directions."""
        relations, begin = self._by_head
        own = slice(begin[entity], begin[entity + 1])
        return relations[own], self.facts.answers[own].astype(np.int64)

    def near_each(self, entities: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The same for several entities, and the place of the entity. Hubs have none here."""
        relations, begin = self._by_head
        start, length = begin[entities], begin[entities + 1] - begin[entities]
        length = np.where(length <= HUB, length, 0)
        at = segments(start, length)
        return np.repeat(np.arange(len(entities)), length), relations[at], self.facts.answers[at].astype(np.int64)

    def answers(self, head: int, relation: int) -> IntArray:
        """The tails of the training facts (head, relation, ?)."""
        return self.facts.known(np.array([head]), np.array([relation])).answers.astype(np.int64)

    def hold(self, heads: IntArray, relation: int, tails: IntArray) -> NDArray[np.bool_]:
        """For each pair of entities whether the relation holds."""
        if self._pairs_of[0] != relation:
            own, ends = self.of(relation)
            self._pairs_of = relation, np.sort(own.astype(np.int64) * self.entities + ends)
        pairs, wanted = self._pairs_of[1], heads * self.entities + tails
        at = np.searchsorted(pairs, wanted)
        return np.asarray(np.append(pairs, -1)[at] == wanted)

    def fact(self, head: int, relation: int, tail: int) -> tuple[int, int, int]:
        """The fact without a reciprocal relation."""
        back = relation >= self.relations
        return (tail, relation - self.relations, head) if back else (head, relation, tail)

    # -- bodies ---------------------------------------------------------------------------------------------------

    def code(self, body: tuple[int, ...]) -> int:
        """A number for a body. Shorter bodies have smaller ones."""
        code = 0
        for relation in body:
            code = code * (2 * self.relations + 1) + relation + 1
        return code

    def body(self, code: int) -> tuple[int, ...]:
        """The body of a code."""
        body: list[int] = []
        while code:
            code, digit = divmod(code, 2 * self.relations + 1)
            body.insert(0, digit - 1)
        return tuple(body)

    def between(self, head: int, tail: int, relation: int) -> IntArray:
        """The codes of the bodies of one and two relations that hold between two entities, each once.

        The fact itself is not one of them.
        """
        one, z = self.near(head)
        direct = one[z == tail]
        here = (z != head) & (z != tail)
        codes = self._joined(one[here] + 1, z[here], tail)
        return np.unique(np.concatenate([direct[direct != relation] + 1, codes]))

    def longer(self, head: int, tail: int) -> IntArray:
        """The codes of the bodies of three relations that hold between two entities, each once."""
        one, z = self.near(head)
        here = (z != head) & (z != tail)
        one, z = one[here][:MOST_NEAR], z[here][:MOST_NEAR]
        place, two, y = self.near_each(z)
        here = (y != head) & (y != tail)
        first = (one[place[here]] + 1) * (2 * self.relations + 1)
        return np.unique(self._joined(first + two[here] + 1, y[here], tail))

    def _joined(self, codes: IntArray, ends: IntArray, tail: int) -> IntArray:
        """The codes of bodies that lead to `ends`, each continued by a fact that leads on to the tail."""
        last, y = self.near(tail)
        order = np.argsort(y, kind="stable")
        low, high = (np.searchsorted(y, ends, side, sorter=order) for side in ("left", "right"))
        width = 2 * self.relations
        onward = (last[order][segments(low, high - low)] + self.relations) % width
        return np.repeat(codes, high - low) * (width + 1) + onward + 1

    def pairs(self, body: tuple[int, ...]) -> tuple[IntArray, IntArray, bool]:
        """The pairs of different entities for which a body holds, each once, and whether they are only a sample."""
        every = np.random.default_rng([self._seed, *body]).permutation(self.heads(body[0]))
        heads, sampled = every[:MOST_HEADS], len(every) > MOST_HEADS
        ends = heads
        for relation in body:
            at = self.facts.find(ends, np.full_like(ends, relation))
            start = np.where(at >= 0, self.facts.offsets[at], 0)
            length = np.where(at >= 0, self.facts.offsets[at + 1] - start, 0)
            # Whole heads are kept, at least one: each has all its pairs, or none.
            total = np.cumsum(length)
            whole = np.flatnonzero(np.append(heads[1:] != heads[:-1], True))
            last = max(0, int(np.searchsorted(total[whole], MOST_PATHS, "right")) - 1)
            kept = int(whole[last]) + 1 if len(heads) else 0
            sampled |= kept < len(heads)
            heads, start, length = heads[:kept], start[:kept], length[:kept]
            heads, ends = np.repeat(heads, length), self.facts.answers[segments(start, length)].astype(np.int64)
        different = heads != ends
        codes = np.unique(heads[different] * self.entities + ends[different])
        return *np.divmod(codes, self.entities), sampled

    def ends(self, body: tuple[int, ...], heads: IntArray) -> tuple[IntArray, IntArray]:
        """Where a body leads from each of these heads: the place of the head and the end, each once, and never the head itself."""
        place, ends = np.arange(len(heads)), heads.astype(np.int64)
        for relation in body:
            step = self.facts.known(ends, np.full_like(ends, relation))
            place, ends = place[step.question], step.answers.astype(np.int64)
            place, ends = np.divmod(np.unique(place * self.entities + ends), self.entities)
        other = ends != heads[place]
        return place[other], ends[other]
