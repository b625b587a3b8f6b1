"""Comparator: what training, ranking and prediction ask of the way in which a query meets its targets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from dura.tables import Collector, Packed, Table

PART = 2**20
"""How many numbers an element-wise comparison may produce at a time, so that they stay near the processor."""
Pull = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From the gradient of the scores to those of queries and targets; called at most once."""
SURELY_FINITE = 1e37
"""Scores whose bound lies below this cannot overflow."""


class Comparator(ABC):
    """How queries are compared with targets. Higher scores are better."""

    rows_only = True
    """True if a score depends on nothing but the two rows. Entities with equal rows then tie."""

    by_product = False
    """True if scores and gradients are one matrix product each, so that it pays to keep these products small and aligned."""

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """How many numbers `_block` holds at a time for one pair of rows. Blocks are cut so that they stay near the processor."""
        return max(query.shape[-1], targets.shape[-1])

    @abstractmethod
    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The score of each pair of rows: [..., w] and [..., w] give [...]. Leading dimensions broadcast."""

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores [m, n] of queries [m, w] against targets [n, w], written to `out` if it is given."""
        if isinstance(targets, Packed):
            scores = query.new_empty(len(query), len(targets)) if out is None else out
            for part, rows in targets.blocks():
                scores[:, part] = self.scores(query, rows)
            return scores
        blocks = (self._block(query, targets[part]) for part in self._parts(query, targets))
        if out is None:
            return torch.cat(list(blocks), 1)
        at = 0
        for block in blocks:
            out[:, at : at + block.shape[1]] = block
            at += block.shape[1]
        return out

    def _parts(self, query: Tensor, targets: Tensor) -> Iterator[slice]:
        """Slices of the targets whose comparison with all queries holds about `PART` numbers at a time."""
        size = max(1, PART // max(1, len(query) * self.numbers(query, targets)))
        return (slice(at, min(at + size, len(targets))) for at in range(0, len(targets), size))

    def _block(self, query: Tensor, targets: Tensor) -> Tensor:
        """The scores of few targets, differentiable."""
        return self.pairs(query[:, None], targets)

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """From the gradient of the scores [m, n] to that of the queries [m, w]; that of the targets is added to `targets`.

        `scale` [m] multiplies each row of `slopes`, which may be overwritten. The default is autograd, a block at a time.
        """
        if scale is not None:
            slopes.mul_(scale[:, None])
        by_query, rows, gradient = torch.zeros_like(query), targets.rows, targets.gradient()
        for part in self._parts(query, rows):
            with torch.enable_grad():
                q, t = query.detach().requires_grad_(), rows[part].detach().requires_grad_()
                one, two = torch.autograd.grad(self._block(q, t), (q, t), slopes[:, part])
            by_query += one
            gradient[part] += two
        targets.mark()
        return by_query

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradient of `pairs` to those of the queries and of the targets. The default is autograd."""
        with torch.enable_grad():
            q, t = query.detach().requires_grad_(), targets.detach().requires_grad_()
            by_query, by_targets = torch.autograd.grad(self.pairs(q, t), (q, t), slopes)
        return by_query, by_targets

    def duel(self, query: Tensor, targets: Tensor) -> tuple[Tensor, Pull]:
        """`pairs`, and `pull_pairs` for the same rows. A comparator may keep what both need."""
        return self.pairs(query, targets), lambda slopes: self.pull_pairs(slopes, query, targets)

    def among(
        self, query: Tensor, row: Tensor, table: Table, ids: Tensor
    ) -> tuple[Tensor, Callable[[Tensor, Tensor], None]] | None:
        """The scores [f, k] of the query `row[f]` and the rows `ids[f, k]` of a table, without copies of these rows.

        The second result takes the gradients of the scores and of the queries [m, w]. It adds to the latter and to the gradient of
        the table, in place. None, the default, if there is no faster way than `duel`.
        """
        return None

    def bound(self, query: float, targets: float) -> float:
        """No score is larger than this in absolute value, if no row has a norm above `query` and `targets`."""
        return math.inf

    def finite(self, query: float, targets: float) -> bool:
        """True if rows with these norms cannot give an infinite score, so that no one has to look at each score."""
        return self.bound(query, targets) < SURELY_FINITE


def inner(one: Tensor, other: Tensor) -> Tensor:
    """<one, other> with leading dimensions that broadcast: a matrix product if each query of `Comparator.pairs` meets many rows."""
    if one.dim() == 3 and one.shape[1] == 1 and other.dim() == 2:
        return torch.mm(one[:, 0], other.mT)
    if one.dim() == 3 and one.shape[1] == 1 and one.shape[0] == other.shape[0]:
        return torch.bmm(one, other.mT)[:, 0]
    product: Tensor = torch.linalg.vecdot(one, other)
    return product


def root(squares: Tensor) -> Tensor:
    """√x where rounding may have made x negative; the gradient at zero is zero. What is not a number stays so."""
    none = squares <= 0
    return torch.where(none, 1, squares).sqrt().masked_fill(none, 0)
