"""Deal: which process works on which questions of a batch. With one process, every part is the whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from dura import world
from dura.data.questions import Questions


@dataclass(frozen=True)
class Deal:
    """A batch and its parts."""

    whole: Questions
    """The batch of all processes."""
    group: Questions
    """The questions that this process scores its own targets for: those of its replica."""
    mine: Questions
    """The questions whose queries and penalties this process computes."""
    sizes: tuple[int, ...]
    """How many questions of the group each shard has as its own."""

    @classmethod
    def of(cls, batch: Questions) -> Deal:
        """Deal the questions of a batch out to replicas, and those of a replica to its shards, in order and evenly."""
        grid = world.grid()
        if grid.groups is None:
            return cls(batch, batch, batch, (len(batch),))
        edges = _edges(len(batch), grid.replicas)
        group = _part(batch, edges, grid.replica)
        edges = _edges(len(group), grid.shards)
        sizes = tuple(b - a for a, b in pairwise(edges))
        return cls(batch, group, _part(group, edges, grid.shard), sizes)

    @property
    def parts(self) -> list[slice]:
        """The questions of the group that each shard has."""
        return [slice(end - size, end) for size, end in zip(self.sizes, accumulate(self.sizes), strict=True)]


def _edges(count: int, parts: int) -> list[int]:
    return [count * i // parts for i in range(parts + 1)]


def _part(batch: Questions, edges: list[int], at: int) -> Questions:
    return batch if len(edges) == 2 else batch.take(np.arange(edges[at], edges[at + 1]))
