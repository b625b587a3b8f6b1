"""Paths: the training facts of a graph as a place to walk in. Rules are found, counted and followed on it.

The relations of a path are its *body*. Relations r + |R| are reciprocal: followed from the tail to the head. A path of three
relations visits four different entities: walking back and forth over one fact says nothing. Paths ignore times: a fact counts if
it holds at any time. Memory is bounded by the facts and by `MOST_PATHS`.
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
        return np.repeat(self.facts.relation, self.facts.counts), begin

    @cached_property
    def _marked(self) -> NDArray[np.bool_]:
        """A place to mark entities in; all are unmarked between calls."""
        return np.zeros(self.entities, dtype=bool)

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
        return relations[own].astype(np.int64), self.facts.answers[own].astype(np.int64)

    def near_each(self, entities: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The same for several entities, and the place of the entity. Hubs have none here."""
        relations, begin = self._by_head
        start, length = begin[entities], begin[entities + 1] - begin[entities]
        length = np.where(length <= HUB, length, 0)
        at = segments(start, length)
        place = np.repeat(np.arange(len(entities)), length)
        return place, relations[at].astype(np.int64), self.facts.answers[at].astype(np.int64)

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
        one, z = one[here], z[here]
        if len(z) > MOST_NEAR:  # spread over all relations
            some = np.linspace(0, len(z) - 1, MOST_NEAR).astype(np.int64)
            one, z = one[some], z[some]
        place, two, y = self.near_each(z)
        here = (y != head) & (y != tail) & (y != z[place])
        first = (one[place[here]] + 1) * (2 * self.relations + 1)
        return np.unique(self._joined(first + two[here] + 1, y[here], tail))

    def _joined(self, codes: IntArray, ends: IntArray, tail: int) -> IntArray:
        """The codes of bodies that lead to `ends`, each continued by a fact that leads on to the tail."""
        last, y = self.near(tail)
        self._marked[ends] = True
        last, y = last[self._marked[y]], y[self._marked[y]]  # a tail may have a million facts; most lead elsewhere
        self._marked[ends] = False
        order = np.argsort(y, kind="stable")
        low, high = (np.searchsorted(y, ends, side, sorter=order) for side in ("left", "right"))
        width = 2 * self.relations
        onward = (last[order][segments(low, high - low)] + self.relations) % width
        return np.repeat(codes, high - low) * (width + 1) + onward + 1

    # -- walking --------------------------------------------------------------------------------------------------

    def pairs(self, body: tuple[int, ...]) -> tuple[IntArray, IntArray, bool]:
        """The pairs of different entities for which a body holds, each once, and whether they are only a sample."""
        every = np.random.default_rng([self._seed, *body]).permutation(self.heads(body[0]))
        place, ends, cut = self._walk(body, every[:MOST_HEADS], MOST_PATHS)
        codes = np.unique(every[place] * self.entities + ends)
        return *np.divmod(codes, self.entities), cut or len(every) > MOST_HEADS

    def ends(self, body: tuple[int, ...], heads: IntArray) -> tuple[IntArray, IntArray]:
        """Where a body leads from each of these heads: the place of the head and the end, each once, and never the head itself."""
        return self._walk(body, heads.astype(np.int64))[:2]

    def _walk(self, body: tuple[int, ...], heads: IntArray, most: int | None = None) -> tuple[IntArray, IntArray, bool]:
        """The place of the head and the end of each path, each once, and whether some were cut off.

        With more than `most` paths only the first heads are kept, at least one, and each has all its paths or none.
        """
        place: IntArray = np.arange(len(heads))
        ends, cut = heads, False
        simple = len(body) > 2
        low = high = ends
        for nth, relation in enumerate(body):
            at = self.facts.find(ends, np.full_like(ends, relation))
            start = np.where(at >= 0, self.facts.offsets[at], 0)
            length = np.where(at >= 0, self.facts.offsets[at + 1] - start, 0)
            if most is not None and length.sum() > most:
                total = np.cumsum(np.bincount(place, length, minlength=len(heads)))
                kept = max(int(place[0]) + 1, int(np.searchsorted(total, most, "right")))
                rows = int(np.searchsorted(place, kept))
                cut |= rows < len(place)
                place, ends, low, high, start, length = (
                    column[:rows] for column in (place, ends, low, high, start, length)
                )
            row, last = np.repeat(np.arange(len(place)), length), nth == len(body) - 1
            before, place, ends = ends[row], place[row], self.facts.answers[segments(start, length)].astype(np.int64)
            if simple or last:
                other = ends != heads[place]
                if simple:
                    other &= ends != before
                if simple and last:  # not the entity after the head, unless there is another way
                    other &= (ends != low[row]) | (ends != high[row])
                keys = (place * self.entities + ends)[other]
                if last:
                    keys = np.unique(keys)
                else:
                    keys, low, high = _distinct(keys, before[other])
                place, ends = np.divmod(keys, self.entities)
        return place, ends, cut


def _distinct(keys: IntArray, values: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The different keys in order, and the smallest and the largest value of each."""
    order = np.lexsort([values, keys])
    keys, values = keys[order], values[order]
    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    return keys[first], values[first], values[np.append(first, True)[1:]]
