"""BoxTE: a relation is a pair of boxes, and a time moves the points that must lie in them."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from dura.models.comparators import Boxes
from dura.models.distance import Defaults, Moving, uniform
from dura.models.temporal import check_times
from dura.tables import Table
from dura.types import BadInput, Sizes

NARROWEST = 1e-9
"""Widths count as at least this, so that their geometric mean is not zero."""


class BoxTE(Moving):
    """The head's point tanh(e_h + b_t + τ) should lie in one box of the relation, the tail's point tanh(e_t + b_h + τ) in another.

    Each entity has a base e and a bump b, which moves the entity on the other side. τ is a sum of `bumps` rows of the time, each
    with a factor of the relation. A reciprocal relation swaps the two boxes, so there is one row per relation.
    """

    comparator = Boxes()
    temporal = True
    defaults: ClassVar[Defaults] = {
        "regularizer": {"name": "none"},
        "loss": {"name": "softmax"},
        "candidates": {"name": "negatives", "count": 75},
        "optimizer": {"name": "adam", "lr": 5e-3},
        "smoothness": {"weight": 0.05, "p": 4},
        "training": {"batch": 500, "anneal": 20, "validate_every": 10, "patience": 4},
    }

    def __init__(self, sizes: Sizes, rank: int = 64, bumps: int = 2) -> None:
        check_times(sizes)
        if bumps < 1:
            raise BadInput(f"model.bumps is {bumps}, but a time has at least one row")
        scale = 0.5 / max(1, rank) ** 0.5
        super().__init__(sizes, rank, 2 * rank, scale)
        self.bumps = bumps
        self.centres = uniform(sizes.relations, 2 * rank, scale)
        self.widths = uniform(sizes.relations, 2 * rank, scale)
        self.scales = uniform(sizes.relations, 2, 1.0)
        self.times = uniform(sizes.times, bumps * rank, scale)
        self.weights = Table(nn.init.normal_(torch.empty(sizes.relations, bumps), 1.0, 0.1))

    @property
    def timeline(self) -> tuple[Table, int]:
        """All rows of all times."""
        return self.times, 1

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The bump and the base of the head, moved by the time, and the corners of the box that each one meets."""
        assert time is not None
        own, back = relation % self.sizes.relations, (relation >= self.sizes.relations)[:, None, None]
        rows = self.times.read(time).unflatten(1, (self.bumps, -1))
        moved = torch.einsum("bk,bkd->bd", self.weights.read(own), rows)
        base, bump = self.heads(head).chunk(2, 1)
        corners = [torch.where(back, corner, corner.flip(1)).flatten(1) for corner in self._boxes(own)]
        return torch.cat([bump + moved, base + moved, *corners], 1)

    def _boxes(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Two opposite corners of the boxes of heads and of tails [b, 2, d]."""
        centre, width = (table.read(relation).unflatten(1, (2, -1)) for table in (self.centres, self.widths))
        size = nn.functional.elu(self.scales.read(relation)) + 1
        mean = width.abs().clamp(min=NARROWEST).log().mean(2).exp()
        half = width * (size / mean)[:, :, None]
        return torch.tanh(centre - half), torch.tanh(centre + half)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The centres of the boxes."""
        return (self.centres.read(relations % self.sizes.relations),)
