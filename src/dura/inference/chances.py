"""Chances: the probabilities and answer sets of a block of questions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.inference.calibration import Calibration
from dura.types import FloatArray, IntArray


@dataclass(frozen=True)
class Chances:
    """What a calibration must know of some questions: relation ids, numbers of known answers, and totals; each [m]."""

    calibration: Calibration
    relation: IntArray
    known: IntArray
    total: FloatArray

    @classmethod
    def of(cls, calibration: Calibration, relation: IntArray, known: IntArray, scores: Tensor) -> Chances:
        """For scores [m, entities of this process], -inf for known answers. All processes hold the same totals."""
        parts = (scores.double() / calibration.temperature).logsumexp(dim=1)
        most = world.highest(parts.clone())
        most = most.masked_fill(most == -math.inf, 0.0)  # every answer is known
        sums = world.total((parts - most).exp())
        total = torch.where(sums > 0, sums.log() + most, most)
        return cls(calibration, relation, known, total.cpu().numpy())

    def cut_(self, scores: Tensor, is_known: Tensor, coverage: float) -> list[int]:
        """Leave only known answers and the new ones in the set of this coverage. Returns the sizes of the sets."""
        least = self.calibration.least_score(self.relation, self.known, self.total, coverage)
        outside = (scores.double() < torch.from_numpy(least).to(scores.device)[:, None]) & ~is_known
        sizes = world.total((~outside & ~is_known).sum(dim=1))
        scores.masked_fill_(outside, -math.inf)
        return [int(size) for size in sizes]

    def told(
        self, scores: Tensor, is_known: Tensor, others: IntArray
    ) -> tuple[list[list[float | None]], list[list[bool]]]:
        """The probability of each shown answer [m, k], and whether it contradicts a known one. A known answer has 1.

        `others` [m, k] is how many answers are known to the other question of each fact; see `Calibration.told`.
        """
        known, values = is_known.cpu().numpy(), scores.cpu().double().numpy()
        p, marks = self.calibration.told(self.relation, self.known, self.total, values, others)
        return np.where(known, 1.0, p).tolist(), (marks & ~known).tolist()
