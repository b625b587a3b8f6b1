"""Comparators: how a query meets its targets.

A comparator turns queries [m, w] and target rows [n, w] into scores [m, n]. Training, ranking, prediction and explanation all go
through it. To add one, write a class with `pairs`: all other methods have a default that derives from it, block by block.
Override them where a formula is faster. Comparators hold no state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from dura.tables import Collector, Packed

PART = 2**20
"""How many numbers an element-wise comparison may produce at a time, so that they stay near the processor."""
SURELY_FINITE = 1e37
"""Scores whose bound lies below this cannot overflow."""


class Comparator(ABC):
    """How queries are compared with targets. Higher scores are better."""

    rows_only = True
    """True if a score depends on nothing but the two rows. Entities with equal rows then tie."""

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
        parts = (self._block(query, targets[part]) for part in _parts(query, targets))
        if out is None:
            return torch.cat(list(parts), 1)
        at = 0
        for block in parts:
            out[:, at : at + block.shape[1]] = block
            at += block.shape[1]
        return out

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
        for part in _parts(query, rows):
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

    def bound(self, query: float, targets: float) -> float:
        """No score is larger than this in absolute value, if no row has a norm above `query` and `targets`."""
        return math.inf

    def finite(self, query: float, targets: float) -> bool:
        """True if rows with these norms cannot give an infinite score, so that no one has to look at each score."""
        return self.bound(query, targets) < SURELY_FINITE


class Dot(Comparator):
    """The inner product <q, t>."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """<q, t>."""
        product: Tensor = torch.linalg.vecdot(query, targets)
        return product

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """One matrix product."""
        if isinstance(targets, Packed):
            return targets.product(query, out)
        return torch.mm(query, targets.mT, out=out)

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """Two matrix products. The scale of a row is applied to the small matrices."""
        by_query = torch.mm(slopes, targets.rows.to(slopes.dtype)).to(query.dtype)
        if scale is not None:
            by_query.mul_(scale[:, None])
            query = query * scale[:, None]
        targets.add_product(slopes, query.to(slopes.dtype))
        return by_query

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """slope·t and slope·q."""
        by_targets = slopes[..., None] * query
        if query.dim() == targets.dim() == 3 and query.shape[1] == 1:
            return torch.bmm(slopes[:, None], targets), by_targets
        return slopes[..., None] * targets, by_targets

    def bound(self, query: float, targets: float) -> float:
        """Cauchy and Schwarz."""
        return query * targets


class SquaredL2(Comparator):
    """−‖q − t‖², computed as 2<q, t> − ‖q‖² − ‖t‖²."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """−Σ (q − t)²."""
        return -(query - targets).square().sum(-1)

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """One matrix product and the squared norms."""
        if isinstance(targets, Packed):
            return super().scores(query, targets, out)
        products = torch.mm(query, targets.mT, out=out)
        products = products.mul_(2) if out is not None else 2 * products
        norms = query.square().sum(1)[:, None], targets.square().sum(1)
        return products.sub_(norms[0]).sub_(norms[1]) if out is not None else products - norms[0] - norms[1]

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """2(slopes·T − Σ slopes∘q) and 2(slopesᵀ·Q − Σ slopes∘t)."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        return _pull_differences(slopes.mul_(2), query, targets)

    def bound(self, query: float, targets: float) -> float:
        """The square of the largest distance."""
        return (query + targets) ** 2


class L2(Comparator):
    """−‖q − t‖."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """−√Σ (q − t)²; the gradient at zero is zero."""
        distance: Tensor = torch.linalg.vector_norm(query - targets, dim=-1)
        return -distance

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The square root of `SquaredL2`; distances that rounding makes negative count as zero."""
        if isinstance(targets, Packed):
            return super().scores(query, targets, out)
        squares = SquaredL2().scores(query, targets, out)
        if out is not None:
            return squares.neg_().clamp_(min=0).sqrt_().neg_()
        return -squares.neg().clamp(min=0).sqrt()

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """As for `SquaredL2`, with each slope divided by its distance."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        distances = self.scores(query, targets.rows).neg_()
        slopes.div_(distances).masked_fill_(distances == 0, 0)
        return _pull_differences(slopes, query, targets)

    def bound(self, query: float, targets: float) -> float:
        """The largest distance, if its square does not overflow."""
        return (query + targets) ** 2


class L1(Comparator):
    """−Σ|q − t|."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """−Σ|q − t|."""
        return -(query - targets).abs().sum(-1)

    def _block(self, query: Tensor, targets: Tensor) -> Tensor:
        return -torch.cdist(query, targets, p=1.0)


class Modulus(Comparator):
    """−Σ|q − t| over complex numbers, stored as neighbouring reals (2i, 2i + 1)."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """−Σ √(re² + im²); the gradient at zero is zero."""
        moduli: Tensor = torch.linalg.vector_norm((query - targets).unflatten(-1, (-1, 2)), dim=-1)
        return -moduli.sum(-1)


class Biased(Comparator):
    """Another comparator plus a bias per target, which is the last number of the target's row.

    Because the bias is a part of the row, entities with equal rows still tie.
    """

    def __init__(self, inner: Comparator) -> None:
        self.inner, self.rows_only = inner, inner.rows_only

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The inner score plus the bias."""
        return self.inner.pairs(query, targets[..., :-1]) + targets[..., -1]

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The inner scores plus the biases."""
        if isinstance(targets, Packed):
            return super().scores(query, targets, out)
        scores = self.inner.scores(query, targets[:, :-1], out)
        return scores + targets[:, -1] if out is None else scores.add_(targets[:, -1])

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """The inner gradient for the row, and the sum of the slopes for the bias."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        whole = targets.gradient()
        whole[:, -1] += slopes.sum(0).to(whole.dtype)
        targets.mark()
        return self.inner.pull(slopes, query, _Narrow(targets.rows[:, :-1], whole[:, :-1]))

    def bound(self, query: float, targets: float) -> float:
        """The inner bound and the largest bias."""
        return self.inner.bound(query, targets) + targets


class _Narrow:
    """Some columns of a collector."""

    def __init__(self, rows: Tensor, gradient: Tensor) -> None:
        self.rows, self._gradient = rows, gradient

    def gradient(self) -> Tensor:
        return self._gradient

    def add_all(self, gradient: Tensor) -> None:
        self._gradient.add_(gradient)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        if left.dtype == self._gradient.dtype:
            self._gradient.addmm_(left.mT, right)
        else:
            self._gradient.add_(torch.mm(left.mT, right))

    def mark(self, index: Tensor | None = None) -> None:
        """The collector is marked already."""


def _parts(query: Tensor, targets: Tensor) -> Iterator[slice]:
    """Slices of the targets whose element-wise comparison with all queries has about `PART` numbers."""
    size = max(1, PART // max(1, query.numel()))
    return (slice(at, min(at + size, len(targets))) for at in range(0, len(targets), size))


def _pull_differences(weights: Tensor, query: Tensor, targets: Collector) -> Tensor:
    """The gradients of Σ weights·(score of q − t) for scores whose gradient is along t − q."""
    rows = targets.rows
    by_query = torch.mm(weights, rows).sub_(weights.sum(1)[:, None] * query)
    column = weights.sum(0)[:, None]
    targets.add_product(weights, query)
    targets.add_all(-column * rows)
    return by_query
