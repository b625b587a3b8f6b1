"""Objectives: what a batch of questions should score.

The 1-vs-all cross entropy is computed in blocks of questions: scores, loss and both gradients in one pass over a buffer that
is used again, so that nothing of size |batch| × |entities| is kept. To add an objective: a class and a row in `OBJECTIVES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from dura.registry import Registry
from dura.types import BadInput

SCORE_BYTES = 48 << 20
"""How large the score buffer should grow; past that a block shrinks, down to `SMALLEST` questions."""
LARGEST, SMALLEST = 256, 64
"""Blocks of at least 64 questions keep the products near full speed, more than 256 gain nothing (benchmarks/blocks.py)."""


class Objective(ABC):
    """A loss over questions and their answers that brings its own gradients."""

    product_type: torch.dtype | None = None
    """The type of the matrix products where it is not that of the tables (bfloat16 on devices that have it)."""

    @abstractmethod
    def entity_weights(self, frequency: Tensor) -> Tensor | None:
        """The weight of each entity as an answer, from how often it occurs; None where all weigh the same."""

    @abstractmethod
    def __call__(
        self,
        query: Tensor,
        targets: Tensor,
        offsets: list[int],
        answers: Tensor,
        weights: Tensor | None,
        targets_gradient: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The mean loss over the facts and its gradient by `query`; the gradient by `targets` is added in place.

        The answers of query i are `answers[offsets[i]:offsets[i + 1]]`, at least one; `weights` stand beside them.
        """


class CrossEntropy(Objective):
    """Cross entropy over all entities, mean over facts, divided by the sum of the weights where there are any.

    `w0` weighs a fact by its answer's frequency: w(t) = w0·#t/max# + (1 − w0). `block` is the number of questions scored
    at once (0: chosen from the number of entities); it changes speed and memory, never the result beyond rounding.
    """

    def __init__(self, w0: float = 0.0, block: int = 0) -> None:
        if not 0 <= w0 <= 1:
            raise BadInput(f"objective.w0 is {w0}, but it is a share between 0 and 1")
        if block < 0:
            raise BadInput(f"objective.block is {block}, but it is 0 (chosen for you) or a number of questions")
        self.w0, self.block = w0, block
        self._buffer = torch.empty(0)

    def entity_weights(self, frequency: Tensor) -> Tensor | None:
        """w(t) for every entity."""
        return self.w0 * (frequency / frequency.max()) + (1 - self.w0) if self.w0 else None

    def __call__(
        self,
        query: Tensor,
        targets: Tensor,
        offsets: list[int],
        answers: Tensor,
        weights: Tensor | None,
        targets_gradient: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """One pass over the blocks; see the class."""
        weights = query.new_ones(len(answers)) if weights is None else weights
        share = weights / weights.sum()
        low = self.product_type
        q, e = (query, targets) if low is None else (query.to(low), targets.to(low))
        gradient, loss = torch.empty_like(query), query.new_zeros(())
        size = self._size(len(query), len(targets))
        for a in range(0, len(query), size):
            b = min(a + size, len(query))
            facts = slice(offsets[a], offsets[b])
            row = torch.repeat_interleave(torch.tensor(offsets[a : b + 1], device=query.device).diff())
            scores = torch.mm(q[a:b], e.mT, out=self._room(b - a, e))
            scores = scores if low is None else scores.to(query.dtype)
            loss_here, scale = _softmax_gradient_(scores, row, answers[facts], share[facts])
            loss += loss_here
            scaled = query[a:b] * scale[:, None]
            if low is None:
                torch.mm(scores, e, out=gradient[a:b]).mul_(scale[:, None])
                targets_gradient.addmm_(scores.mT, scaled)
            else:
                gradient[a:b] = torch.mm(scores.to(low), e) * scale[:, None]
                targets_gradient += torch.mm(scores.to(low).mT, scaled.to(low))
        return loss, gradient

    def _size(self, questions: int, entities: int) -> int:
        return min(questions, self.block or max(SMALLEST, min(LARGEST, SCORE_BYTES // (4 * entities))))

    def _room(self, rows: int, targets: Tensor) -> Tensor:
        """The score buffer, grown when needed and used again."""
        wanted, old = rows * len(targets), self._buffer
        if old.numel() < wanted or old.device != targets.device or old.dtype != targets.dtype:
            self._buffer = torch.empty(wanted, dtype=targets.dtype, device=targets.device)
        return self._buffer[:wanted].view(rows, len(targets))


def _softmax_gradient_(scores: Tensor, row: Tensor, answers: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Turn a block of scores in place into the gradient of its loss, up to a factor a row; return (loss, factors).

    Row i's gradient is Σ share · softmax − share at the answers = factor · (exp(s − max) − share/factor at the answers):
    the division by the sum is left to the small matrices on the other side of the products.
    """
    cell = row * scores.shape[1] + answers
    flat = scores.view(-1)
    truth = flat[cell]
    top = scores.amax(1)
    total = torch.zeros_like(top).index_add_(0, row, share)
    scores.sub_(top[:, None]).exp_()
    mass = scores.sum(1)
    loss = total @ (top + mass.log()) - share @ truth
    factor = total / mass
    flat.index_add_(0, cell, -share / factor[row])
    return loss, factor


OBJECTIVES: Registry[Objective] = Registry("objective", "dura.objectives", {"cross-entropy": CrossEntropy})
