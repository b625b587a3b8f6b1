"""HAKE: moduli for the levels of a hierarchy, phases for what is on one level."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from dura.models.comparators import Polar
from dura.models.distance import SAMPLED, Defaults, Moving, sign, spread, uniform
from dura.tables import Table
from dura.types import Sizes


class HAKE(Moving):
    """−λ·‖m_h∘(|m_r| + b) − m_t∘(1 − b)‖ − μ·Σ|sin((p_h + p_r − p_t)/2)| for moduli m and phases p.

    b is clipped to [−|m_r|, 1]. λ and μ are learned; they start from `modulus_weight` and `phase_weight`. A reciprocal swaps the
    two factors and turns back, so there is one row per relation, and a fact has the same score from both sides.

    Phases are stored at the scale of the moduli, as in the authors' program: a step of the optimizer then turns them farther.
    """

    defaults: ClassVar[Defaults] = SAMPLED

    def __init__(self, sizes: Sizes, rank: int = 100, modulus_weight: float = 1.0, phase_weight: float = 0.5) -> None:
        scale = spread(rank)
        super().__init__(sizes, rank, 2 * rank, scale)
        self.comparator = Polar(rate=math.pi / (2 * scale))
        start = torch.cat([torch.ones(sizes.relations, rank), torch.zeros(sizes.relations, rank)], 1)
        self.relations = Table(torch.cat([start, uniform(sizes.relations, rank, scale).detach()], 1))
        self.weights = nn.Parameter(torch.tensor([modulus_weight, phase_weight * scale]))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The head's moduli and phases after the relation, the factors of the tails' moduli, and the two weights."""
        modulus, phase = self.heads(head).chunk(2, 1)
        scale, bias, turn = self.relation_rows(relation)[0].chunk(3, 1)
        scale, forward = scale.abs(), sign(relation, self.sizes)
        bias = torch.maximum(bias.clamp(max=1), -scale)
        grow, keep = scale + bias, 1 - bias
        mine, theirs = torch.where(forward > 0, grow, keep), torch.where(forward > 0, keep, grow)
        return torch.cat([modulus * mine, theirs, phase + turn * forward, self.weights.expand(len(head), 2)], 1)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """Modulus, bias and phase of each relation, as they are stored."""
        return (self.relations.read(relations % self.sizes.relations),)
