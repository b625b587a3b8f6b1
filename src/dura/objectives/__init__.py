"""Objectives: what a batch of questions should score.

The 1-vs-all cross entropy is computed in blocks of questions: scores, loss and both gradients in one pass over a buffer that
is used again, so that nothing of size |batch| × |entities| is kept. The sampled one scores a few entities instead. To add an
objective: a class and a row in `OBJECTIVES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor

from dura.registry import Registry
from dura.tables.table import Table
from dura.types import BadInput

SCORE_BYTES = 96 << 20
"""How large the score buffer should grow; past that a block shrinks, down to `SMALLEST` questions."""
LARGEST, SMALLEST = 1024, 128
"""Each block reads and writes the whole gradient of the table once: below 128 questions that takes as long as the products."""


SAFE_MASS = 1e20
"""Exponentials whose sum stays within this and its inverse leave room for the products that follow, even in 32 bits."""


class Objective(ABC):
    """A loss over questions and their answers that brings its own gradients."""

    product_type: torch.dtype | None = None
    """The type of the matrix products where it is not that of the tables (bfloat16 on devices that have it)."""

    @abstractmethod
    def prepare(self, frequency: Tensor) -> Tensor | None:
        """Learn how often each entity is an answer; the weight of each as an answer, None where all weigh the same."""

    @abstractmethod
    def __call__(
        self, query: Tensor, targets: Table, offsets: list[int], answers: Tensor, weights: Tensor | None, seed: int
    ) -> tuple[Tensor, Tensor]:
        """The mean loss over the facts and its gradient by `query`; the gradient by `targets` is added to the table's.

        The answers of query i are `answers[offsets[i]:offsets[i + 1]]`, at least one; `weights` stand beside them. Whatever
        is drawn follows from `seed`.
        """


class CrossEntropy(Objective):
    """Cross entropy over all entities, mean over facts, divided by the sum of the weights where there are any.

    `w0` weighs a fact by its answer's frequency: w(t) = w0·#t/max# + (1 − w0). `block` is the number of questions scored
    at once ("auto": from the number of entities); it changes speed and memory, never the result beyond rounding.
    """

    def __init__(self, w0: float = 0.0, block: int | Literal["auto"] = "auto") -> None:
        self.w0 = check_share(w0)
        self.block = 0 if block == "auto" else block  # settings of version 0.1.0 say 0
        if self.block < 0:
            raise BadInput(f"objective.block is {block}, but it is 'auto' or a number of questions")
        self._buffer = torch.empty(0)

    def prepare(self, frequency: Tensor) -> Tensor | None:
        """w(t) for every entity."""
        return frequency_weights(self.w0, frequency)

    def __call__(
        self,
        query: Tensor,
        targets: Table,
        offsets: list[int],
        answers: Tensor,
        weights: Tensor | None,
        seed: int,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """One pass over the blocks; see the class."""
        share, low = shares(query, answers, weights), self.product_type or query.dtype
        q, e = query.to(low), targets.detach().to(low)
        gradient, loss = torch.empty_like(query), query.new_zeros(())
        size = self.size(len(query), len(targets))
        for a in range(0, len(query), size):
            b = min(a + size, len(query))
            facts = slice(offsets[a], offsets[b])
            row = torch.repeat_interleave(torch.tensor(offsets[a : b + 1], device=query.device).diff())
            scores = torch.mm(q[a:b], e.mT, out=self._room(b - a, e)).to(query.dtype)
            loss_here, scale = _softmax_gradient_(scores, row, answers[facts], share[facts], q[a:b], e)
            loss += loss_here
            down = scores.to(low)
            if low == query.dtype:
                torch.mm(down, e, out=gradient[a:b]).mul_(scale[:, None])
            else:
                gradient[a:b] = torch.mm(down, e) * scale[:, None]
            targets.add_product(down, (query[a:b] * scale[:, None]).to(low))
        return loss, gradient

    def size(self, questions: int, entities: int) -> int:
        """How many of so many questions are scored at once."""
        return min(questions, self.block or max(SMALLEST, min(LARGEST, SCORE_BYTES // (4 * entities))))

    def _room(self, rows: int, targets: Tensor) -> Tensor:
        """The score buffer, grown when needed and used again."""
        wanted, old = rows * len(targets), self._buffer
        if old.numel() < wanted or old.device != targets.device or old.dtype != targets.dtype:
            self._buffer = torch.empty(wanted, dtype=targets.dtype, device=targets.device)
        return self._buffer[:wanted].view(rows, len(targets))


class SampledCrossEntropy(Objective):
    """Cross entropy whose sum over all entities is estimated from a sample: for graphs where scoring every entity is too dear.

    A batch shares `samples` entities, drawn with replacement, all alike ("uniform") or by how often they are answers
    ("frequency": (# + 1)^¾). Each stands for 1/(samples · its chance) entities, the importance correction of sampled softmax;
    the answers of a question are counted exactly and left out of its sample, so the sum has the right expectation.
    """

    def __init__(self, samples: int = 1000, draw: Literal["uniform", "frequency"] = "uniform", w0: float = 0.0) -> None:
        if samples < 1:
            raise BadInput(f"objective.samples is {samples}, but at least one entity must be drawn")
        self.samples, self.draw, self.w0 = samples, draw, check_share(w0)
        self._chance = torch.empty(0, dtype=torch.float64)

    def prepare(self, frequency: Tensor) -> Tensor | None:
        """The chance of each entity to be drawn, and w(t)."""
        likely = frequency.cpu().double()
        likely = torch.ones_like(likely) if self.draw == "uniform" else (likely + 1) ** 0.75
        self._chance = likely / likely.sum()
        self._below = self._chance.cumsum(0)
        return frequency_weights(self.w0, frequency)

    def drawn(self, seed: int) -> tuple[Tensor, Tensor]:
        """The sampled entities, ascending, and the logarithm of how many entities each stands for."""
        points = torch.rand(self.samples, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        ids = torch.searchsorted(self._below, points).clamp_(max=len(self._chance) - 1).sort().values
        return ids, -(self.samples * self._chance[ids]).log()

    def __call__(
        self, query: Tensor, targets: Table, offsets: list[int], answers: Tensor, weights: Tensor | None, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Answers one by one, the sample by one product; see the class."""
        share, low = shares(query, answers, weights), self.product_type or query.dtype
        row = torch.repeat_interleave(torch.tensor(offsets, device=query.device).diff())
        drawn, stands_for = (tensor.to(query.device) for tensor in self.drawn(seed))
        table = targets.detach()
        q, sample, truths = query[row], table.index_select(0, drawn), table.index_select(0, answers)
        others = torch.mm(query.to(low), sample.to(low).mT).to(query.dtype) + stands_for.to(query.dtype)
        others[_hits(row, answers, drawn)] = -torch.inf
        own = torch.linalg.vecdot(q, truths)

        top = others.amax(1).scatter_reduce_(0, row, own, "amax")
        others.sub_(top[:, None]).exp_()
        mine = (own - top[row]).exp_()
        mass = others.sum(1).index_add_(0, row, mine)
        loss = share @ (top + mass.log())[row] - share @ own
        factor = torch.zeros_like(top).index_add_(0, row, share) / mass
        by_own = (mine * factor[row] - share)[:, None]
        others.mul_(factor[:, None])
        down = others.to(low)
        gradient = torch.mm(down, sample.to(low)).to(query.dtype).index_add_(0, row, by_own * truths)
        targets.add_rows(drawn, torch.mm(down.mT, query.to(low)).to(query.dtype))
        targets.add_rows(answers, by_own * q)
        return loss, gradient


def _hits(row: Tensor, answers: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """The cells (question, place in the ascending sample) where a question's own answer was drawn."""
    first = torch.searchsorted(drawn, answers)
    times = torch.searchsorted(drawn, answers, right=True) - first
    place = torch.arange(int(times.sum()), device=row.device) - torch.repeat_interleave(times.cumsum(0) - times, times)
    return torch.repeat_interleave(row, times), torch.repeat_interleave(first, times) + place


def check_share(w0: float) -> float:
    """`w0` where it is a share, else an error."""
    if not 0 <= w0 <= 1:
        raise BadInput(f"objective.w0 is {w0}, but it is a share between 0 and 1")
    return w0


def frequency_weights(w0: float, frequency: Tensor) -> Tensor | None:
    """w(t) = w0·#t/max# + (1 − w0) of every entity; None where that is 1."""
    return w0 * (frequency / frequency.max()) + (1 - w0) if w0 else None


def shares(query: Tensor, answers: Tensor, weights: Tensor | None) -> Tensor:
    """What each fact counts for in the mean."""
    weights = query.new_ones(len(answers)) if weights is None else weights
    return weights / weights.sum()


def _softmax_gradient_(
    scores: Tensor, row: Tensor, answers: Tensor, share: Tensor, query: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Turn a block of scores in place into the gradient of its loss, up to a factor a row; return (loss, factors).

    With softmax = exp / mass, row i's gradient is Σ share · softmax − share at the answers = factor · (exp − share · mass /
    Σ share at the answers), where factor = Σ share / mass is left to the small matrices on the other side of the products.
    The exponentials are taken of the scores as they are, which saves two passes over the block; a row whose mass shows that they
    are too large or too small for that is scored again and its maximum taken off.
    """
    cell = row * scores.shape[1] + answers
    flat = scores.view(-1)
    truth, ones = flat[cell], scores.new_ones(scores.shape[1])
    mass = scores.exp_() @ ones
    unsafe = (~((mass > 1 / SAFE_MASS) & (mass < SAFE_MASS))).nonzero().flatten()
    if len(unsafe):
        again = torch.mm(query[unsafe], targets.mT).to(scores.dtype)
        top = again.amax(1)
        scores[unsafe] = again.sub_(top[:, None]).exp_()
        mass[unsafe] = again @ ones
        truth -= torch.zeros_like(mass).index_copy_(0, unsafe, top)[row]
    total = torch.zeros_like(mass).index_add_(0, row, share)
    flat.index_add_(0, cell, -share * (mass / total)[row])
    return share @ mass.log()[row] - share @ truth, total / mass


OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    "dura.objectives",
    {"cross-entropy": CrossEntropy, "sampled-cross-entropy": SampledCrossEntropy},
)
