"""MuRE and MuRP: a relation scales the head and shifts the tail, in flat and in hyperbolic space, and each entity has biases."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from dura.models.comparators import Biased, Poincare, SquaredL2
from dura.models.distance import SAMPLED, Defaults, Moving
from dura.tables import Table
from dura.types import Sizes

START = 1e-3
"""How far from zero rows start."""


class _MuR(Moving):
    """Entities with a bias as tails (the last number of a row) and one as heads, and [scale, shift] for each relation."""

    defaults: ClassVar[Defaults] = SAMPLED

    def __init__(self, sizes: Sizes, rank: int = 50) -> None:
        super().__init__(sizes, rank, rank + 1, START)
        assert isinstance(self.entity, Table)
        self.head_bias = Table(torch.zeros(sizes.entities, 1))
        self.relations = Table(torch.empty(2 * sizes.relations, 2 * rank))
        with torch.no_grad():
            self.entity[:, -1] = 0
            nn.init.uniform_(self.relations[:, :rank], -1, 1)
            nn.init.normal_(self.relations[:, rank:], std=START)

    def heads(self, entities: Tensor) -> Tensor:
        """The rows without the bias."""
        return self.entity.read(entities)[:, :-1]


class MuRE(_MuR):
    """−‖h∘s − (t + r)‖² + b_h + b_t: a relation scales the head by s and shifts the tail by r; entities have biases.

    Each reciprocal has rows of its own.
    """

    comparator = Biased(SquaredL2(), both=True)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """[h∘s − r, b_h]."""
        scale, shift = self.relations.read(relation).chunk(2, 1)
        return torch.cat([self.heads(head) * scale - shift, self.head_bias.read(head)], 1)


class MuRP(_MuR):
    """−d(exp₀(h∘s), exp₀(t) ⊕ exp₀(r))² + b_h + b_t: MuRE with the distance of the Poincaré ball.

    Tables hold tangent vectors at the middle of the ball, so any optimizer can change them. A ball has more room than flat space
    for the leaves of trees, and small ranks suffice.
    """

    comparator = Biased(Poincare(), both=True)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """[h∘s, r, b_h]."""
        scale, shift = self.relations.read(relation).chunk(2, 1)
        return torch.cat([self.heads(head) * scale, shift, self.head_bias.read(head)], 1)
