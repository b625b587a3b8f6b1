"""Alternating least squares instead of steps along gradients: an epoch is one sweep of the model over all facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

from dura.data.questions import Questions
from dura.models import Model
from dura.types import BadInput, IntArray


class Alternating(torch.optim.Optimizer):
    """The settings of a sweep, in the form of an optimizer, which keeps no state: see `Model.alternate`.

    `ridge` is the weight of the squares of all numbers next to the squared error. `newton` is the number of steps of Newton's
    method for what has no closed form.
    """

    def __init__(self, params: Iterable[nn.Parameter], ridge: float = 1e-2, newton: int = 1) -> None:
        if not ridge >= 0:
            raise BadInput(f"optimizer.ridge is {ridge}, but a weight is zero or more")
        if newton < 1 or newton != int(newton):
            raise BadInput(f"optimizer.newton is {newton}, but it is the number of steps, at least 1")
        self.ridge, self.newton = ridge, int(newton)
        super().__init__(params, {"lr": 0.0})

    def step(self, closure: Any = None) -> Any:
        """There are no steps along gradients."""
        raise NotImplementedError("alternating least squares makes sweeps: call `sweep`")

    def sweep(self, model: Model, questions: Questions, epoch: int) -> tuple[float, float]:
        """One sweep over the facts of all questions. Returns (loss, penalty)."""
        facts = facts_of(questions, model.sizes.relations)
        return model.alternate(facts, first=epoch == 0, ridge=self.ridge, newton=self.newton)


def facts_of(questions: Questions, relations: int) -> IntArray:
    """The facts [n, 3 or 4] of questions, without their reciprocals.

    >>> facts_of(Questions.of(np.array([[0, 0, 1], [0, 0, 2]]), relations=1), relations=1).tolist()
    [[0, 0, 1], [0, 0, 2]]
    """
    each = questions.one_by_one()
    columns = [each.head, each.relation, each.answers, *([] if each.time is None else [each.time])]
    facts: IntArray = np.stack([column[each.relation < relations] for column in columns], axis=1)
    return facts
