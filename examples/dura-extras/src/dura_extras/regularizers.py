"""A regularizer for every model."""

from __future__ import annotations

from torch import Tensor

from dura.regularizers import Regularizer
from dura.types import Factors


class L1Norm(Regularizer):
    """Σ|h| + Σ|t| per fact. It makes many entries of the entities small, so that they can be left out later."""

    def __init__(self, weight: float = 1e-3) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """The rows of a question occur once, however many facts it has: `counts` says how many."""
        return factors.head.abs().sum(1) @ factors.counts + factors.tail.abs().sum()
