"""Distances between a query and a target of the same width."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.models.comparators.base import Comparator
from dura.tables import Collector, Packed


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


def _pull_differences(weights: Tensor, query: Tensor, targets: Collector) -> Tensor:
    """The gradients of Σ weights·(score of q − t) for scores whose gradient is along t − q."""
    rows = targets.rows
    by_query = torch.mm(weights, rows).sub_(weights.sum(1)[:, None] * query)
    column = weights.sum(0)[:, None]
    targets.add_product(weights, query)
    targets.add_all(-column * rows)
    return by_query
