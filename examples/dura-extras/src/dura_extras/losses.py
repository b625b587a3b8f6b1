"""A loss over negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.objectives import Loss
from dura.types import BadInput


class SquaredHinge(Loss):
    """[margin + s(negative) − s(fact)]₊², the mean over the negatives of a fact.

    Only `value` is defined, so dura refuses other candidates than negatives. Autograd gives the gradient.
    """

    def __init__(self, margin: float = 1.0) -> None:
        if not margin >= 0:
            raise BadInput(f"loss.margin is {margin}, but a margin is zero or more")
        self.margin = margin

    def value(self, positive: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """`there` is false for negatives that are left out. Their score is -inf: replace it before computing with it."""
        hinges = torch.relu(self.margin + torch.where(there, negative, 0.0) - positive[:, None])
        return torch.where(there, hinges.square(), 0.0).sum(1) / there.sum(1).clamp(min=1)
