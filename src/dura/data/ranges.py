"""Ranges: which entities facts have with each relation, on each side."""

from __future__ import annotations

from dataclasses import dataclass

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
