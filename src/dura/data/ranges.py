"""Ranges: which entities facts have with each relation, on each side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dura.types import IntArray

ROWS = 1 << 22
"""How many facts are looked at in one go."""


@dataclass(frozen=True)
class Ranges:
    """For each relation the distinct tails that facts have with it; for each reciprocal relation r + |R| the heads. CSR.

    >>> ranges = Ranges.of(np.array([[5, 0, 1], [2, 0, 1], [2, 1, 3]]), entities=6, relations=2)
    >>> [ranges.of_relation(r).tolist() for r in range(4)]
    [[1], [3], [2, 5], [2]]
    """

    offsets: IntArray
    entities: IntArray

    @classmethod
    def of(cls, facts: IntArray, entities: int, relations: int) -> Ranges:
        """The ranges of facts [n, 3 or more]."""
        keys = np.empty(0, dtype=np.int64)
        for at in range(0, len(facts), ROWS):
            head, relation, tail = np.asarray(facts[at : at + ROWS, :3], dtype=np.int64).T
            keys = np.unique(
                np.concatenate([keys, relation * entities + tail, (relation + relations) * entities + head])
            )
        edges = np.arange(2 * relations + 1, dtype=np.int64) * entities
        return cls(np.searchsorted(keys, edges), keys % entities)

    def of_relation(self, relation: int) -> IntArray:
        """The entities that answer a question with this relation, or reciprocal relation, in ascending order."""
        return self.entities[self.offsets[relation] : self.offsets[relation + 1]]

    def alike(self, relation: int) -> IntArray:
        """Entities that could be in the range of a relation, or reciprocal relation, but are not: they are used in the same ways.

        A use of an entity is a relation and the side on which facts have the entity. An entity is like the range if each of its
        uses is a use of an entity in the range too. The ids ascend.

        >>> cities = [[0, 0, 9], [1, 0, 9], [0, 1, 8], [1, 1, 8], [2, 1, 8], [8, 2, 9]]  # 2 has no fact of relation 0
        >>> ranges = Ranges.of(np.array(cities), entities=10, relations=3)
        >>> ranges.of_relation(3).tolist(), ranges.alike(3).tolist()
        ([0, 1], [2])
        """
        inside = np.zeros(len(self._uses), dtype=bool)
        inside[self.of_relation(relation)] = True
        shared = np.bincount(self._use[inside[self.entities]], minlength=len(self.offsets) - 1)
        fitting = np.bincount(self.entities, shared[self._use] > 0, minlength=len(inside)) == self._uses
        return np.flatnonzero(fitting & (self._uses > 0) & ~inside)

    @cached_property
    def _use(self) -> IntArray:
        """The relation of each of `entities`, or the reciprocal relation."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def _uses(self) -> IntArray:
        """How many uses each entity has."""
        return np.bincount(self.entities)
