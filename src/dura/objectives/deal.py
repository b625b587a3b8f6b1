"""Deal: which process works on which questions of a batch. With one process, every part is the whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch

from dura import world
from dura.data.questions import Questions


@dataclass(frozen=True)
class Deal:
    """The part of a batch that this process has, and how large the whole batch is."""

    questions: int
    """How many questions the batch of all processes has."""
    facts: int
    """How many facts the batch of all processes has."""
    group: Questions
    """The questions that this process scores its own targets for: those of its replica."""
    mine: Questions
    """The questions whose queries and penalties this process computes."""
    sizes: tuple[int, ...]
    """How many questions of the group each shard has as its own."""

    @classmethod
    def of(cls, group: Questions) -> Deal:
        """Deal the questions of a replica, which are its part of the batch, out to its shards, in order and evenly."""
        grid = world.grid()
        if grid.groups is None:
            return cls(len(group), group.facts, group, group, (len(group),))
        questions, facts = world.total(torch.tensor([len(group), group.facts]), "replicas").tolist()
        edges = [len(group) * i // grid.shards for i in range(grid.shards + 1)]
        sizes = tuple(b - a for a, b in pairwise(edges))
        first, last = edges[grid.shard : grid.shard + 2]
        mine = group if grid.shards == 1 else group.take(np.arange(first, last))
        return cls(questions, facts, group, mine, sizes)

    @property
    def parts(self) -> list[slice]:
        """The questions of the group that each shard has."""
        return [slice(end - size, end) for size, end in zip(self.sizes, accumulate(self.sizes), strict=True)]
