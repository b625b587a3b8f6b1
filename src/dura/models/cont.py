"""ConT: a core of numbers for each time says how head, relation and tail meet."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dura.models.distance import Defaults, Moving, uniform
from dura.models.temporal import check_times
from dura.tables import Table
from dura.types import BadInput, Sizes

MOST_NUMBERS = 100_000_000
"""How many numbers the cores of all times may have together. The optimizer and the gradient need as much again each."""


class ConT(Moving):
    """Σ h_a·r_b·t_c·G_τ[a, b, c]: each time has its own core G_τ of d³ numbers.

    Rows and cores start uniformly within ±`init_scale`.
    """

    temporal = True
    defaults: ClassVar[Defaults] = {
        "model": {"rank": 20},
        "regularizer": {"name": "none"},
        "loss": {"name": "softmax"},
        "candidates": {"name": "all"},
        "optimizer": {"name": "adagrad", "lr": 0.1},
        "smoothness": {"weight": 0.0},
        "training": {"batch": 500},
    }

    def __init__(self, sizes: Sizes, rank: int = 20, init_scale: float = 0.3) -> None:
        check_times(sizes)
        super().__init__(sizes, rank, rank, init_scale)
        if sizes.times * rank**3 > MOST_NUMBERS:
            most = int((MOST_NUMBERS / sizes.times) ** (1 / 3))
            raise BadInput(
                f"model.rank is {rank}, but each of {sizes.times:,} times has rank³ numbers, which is too much: use at most {most}"
            )
        self.relations = uniform(2 * sizes.relations, rank, init_scale)
        self.cores = uniform(sizes.times, rank**3, init_scale)

    @property
    def timeline(self) -> tuple[Table, int]:
        """The cores of all times."""
        return self.cores, 1

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """G_τ(h, r, ·), one product per distinct time."""
        assert time is not None
        order = time.argsort(stable=True)
        times, counts = torch.unique_consecutive(time[order], return_counts=True)
        rows = self.heads(head[order]), self.relations.read(relation[order])
        met = torch.einsum("ba,bc->bac", *rows).flatten(1).split(counts.tolist())
        cores = self.cores.read(times).unflatten(1, (-1, self.rank)).unbind()
        if not len(times):
            return rows[0]
        found = torch.cat([pairs @ core for pairs, core in zip(met, cores, strict=True)])
        return torch.empty_like(found).index_copy(0, order, found)
