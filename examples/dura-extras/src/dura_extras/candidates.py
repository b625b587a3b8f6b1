"""A kind of candidates: negatives that are drawn by how often they are answers."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.objectives import Known, Negatives
from dura.types import BadInput


class FrequentNegatives(Negatives):
    """Negatives drawn with chance (# + 1)^power, where # is how often an entity is an answer. Frequent entities are harder.

    It extends `Negatives`, so its `kind` is "negatives" and every loss over negatives can be used with it.
    """

    def __init__(self, count: int = 64, filtered: bool = True, power: float = 0.75) -> None:
        super().__init__(count, filtered=filtered)
        if not 0 <= power <= 10:
            raise BadInput(f"candidates.power is {power}, but it must be from 0 (all alike) to 10")
        self.power = power

    def prepare(self, known: Known, frequency: Tensor) -> None:
        """Called once before the first step."""
        super().prepare(known, frequency)
        self.known, self.below = known, ((frequency.cpu().double() + 1) ** self.power).cumsum(0)

    def drawn(self, batch: Questions, seed: int, group: int = 0) -> tuple[Tensor, Tensor]:
        """The negatives [f, count], and which of them are left out. Everything drawn follows from the seed of the step."""
        rng = torch.Generator().manual_seed((seed + group) % 2**63)
        points = torch.rand(batch.facts, self.count, dtype=torch.float64, generator=rng) * self.below[-1]
        ids = torch.searchsorted(self.below, points).clamp_(max=len(self.below) - 1)
        out = ids == torch.as_tensor(batch.answers).long()[:, None]
        return ids, out | torch.as_tensor(self.known.holds(batch, ids.numpy())) if self.filtered else out
