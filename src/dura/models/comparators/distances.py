"""Distances between a query and a target of the same width."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import torch
from torch import Tensor

from dura.models.comparators import kernels
from dura.models.comparators.base import Comparator, Pull
from dura.tables import Collector, Packed, Table

TILE = 2**17
"""How many differences are made at a time: they and what is computed of them fit in the processor's second cache."""
WIDEST = 1e3
"""The square root of a width that no row has."""
MANY_ROWS = 8
"""A table has at most this many rows for each that gets a gradient, if its whole gradient is made."""
TINY = 1e-18
"""Shorter differences have a gradient shorter than 1, down to zero at zero. Its square is a normal number in 32 bits."""


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


class Elementwise(Comparator):
    """A distance that adds up the numbers of t − q one by one, so no matrix product helps.

    All work is done a tile of differences at a time, which stays in the processor's cache, and gradients have closed forms. With
    numba the loops are compiled, see `kernels`.
    """

    kind: ClassVar[kernels.Kind]

    @abstractmethod
    def _distance(self, d: Tensor) -> tuple[Tensor, Tensor]:
        """The distances [...] of differences [..., w], and what `_turn_` needs besides."""

    @abstractmethod
    def _turn_(self, d: Tensor, kept: Tensor, slopes: Tensor) -> Tensor:
        """Overwrite differences [..., w] with slopes [...] times the gradient of the score by the target."""

    @abstractmethod
    def _live(self, d: Tensor) -> Tensor:
        """The distances of differences, differentiable."""

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """Minus the distances."""
        d = targets - query
        return -self._live(d) if d.requires_grad else self._distance(d)[0].neg_()

    def duel(self, query: Tensor, targets: Tensor) -> tuple[Tensor, Pull]:
        """The differences are made once for the scores and their gradient."""
        d = targets - query
        distances, kept = self._distance(d)

        def pull(slopes: Tensor) -> tuple[Tensor, Tensor]:
            by_targets = self._turn_(d, kept, slopes)
            return by_targets.sum_to_size(query.shape).neg(), by_targets.sum_to_size(targets.shape)

        return distances.neg_(), pull

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """By the closed form."""
        return self.duel(query, targets)[1](slopes)

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """A tile of queries and targets at a time."""
        live = torch.is_grad_enabled() and (query.requires_grad or getattr(targets, "requires_grad", False))
        if isinstance(targets, Packed) or live:
            return super().scores(query, targets, out)
        scores = query.new_empty(len(query), len(targets)) if out is None else out
        if kernels.usable(query, targets, scores):
            kernels.spread(kernels.kernels_of(self.kind).scores, len(query), query, targets, scores)
            return scores
        for m, n in tiles(query, targets):
            torch.neg(self._distance(targets[n] - query[m, None])[0], out=scores[m, n])
        return scores

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """A tile at a time, by the closed form."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        by_query, rows, gradient = torch.zeros_like(query), targets.rows, targets.gradient()
        if kernels.usable(query, rows, slopes, gradient):
            kernel = kernels.kernels_of(self.kind)
            kernels.spread(kernel.pull, query.shape[1] // kernel.parts, slopes, query, rows, by_query, gradient)
            targets.mark()
            return by_query.neg_()
        for m, n in tiles(query, rows):
            d = rows[n] - query[m, None]
            _, kept = self._distance(d)
            turned = self._turn_(d, kept, slopes[m, n])
            by_query[m] -= turned.sum(1)
            gradient[n] += turned.sum(0)
        targets.mark()
        return by_query

    def among(
        self, query: Tensor, row: Tensor, table: Table, ids: Tensor
    ) -> tuple[Tensor, Callable[[Tensor, Tensor], None]] | None:
        """By the compiled loops, if numba is there and the table's whole gradient is worth its memory."""
        rows = table.rows
        if not ids.numel() or MANY_ROWS * ids.numel() < len(rows) or not kernels.usable(query, rows):
            return None
        kernel, keys, scores = kernels.kernels_of(self.kind), kernels.by_target(ids), query.new_empty(ids.shape)
        kernels.spread(kernel.some_scores, ids.numel(), query, row, rows, keys, scores)

        def pull(slopes: Tensor, by_query: Tensor) -> None:
            columns, own = query.shape[1] // kernel.parts, torch.zeros_like(query)
            gradient = table.gradient()
            kernels.spread(kernel.some_pull, columns, slopes.contiguous(), query, row, rows, keys, own, gradient)
            table.mark(ids.flatten())
            by_query -= own

        return scores, pull

    def bound(self, query: float, targets: float) -> float:
        """√w times the largest distance by Pythagoras, if its square does not overflow."""
        return max((query + targets) ** 2, WIDEST * (query + targets))


class L1(Elementwise):
    """−Σ|q − t|."""

    kind = "l1"

    def _distance(self, d: Tensor) -> tuple[Tensor, Tensor]:
        return d.abs().sum(-1), d

    def _turn_(self, d: Tensor, kept: Tensor, slopes: Tensor) -> Tensor:
        return d.sign_().mul_(-slopes[..., None])

    def _live(self, d: Tensor) -> Tensor:
        return d.abs().sum(-1)


class Modulus(Elementwise):
    """−Σ|q − t| over complex numbers. The first half of a row has their real parts, the second half their imaginary parts."""

    kind = "modulus"

    def _distance(self, d: Tensor) -> tuple[Tensor, Tensor]:
        real, imaginary = d.chunk(2, -1)
        moduli = real.square().addcmul_(imaginary, imaginary).sqrt_()
        return moduli.sum(-1), moduli

    def _turn_(self, d: Tensor, kept: Tensor, slopes: Tensor) -> Tensor:
        # Where both parts are zero, so is the gradient: zero times a large number.
        factor = torch.div(-slopes[..., None], kept.clamp_(min=TINY), out=kept)
        for part in d.chunk(2, -1):
            part.mul_(factor)
        return d

    def _live(self, d: Tensor) -> Tensor:
        moduli: Tensor = torch.linalg.vector_norm(d.unflatten(-1, (2, -1)), dim=-2)
        return moduli.sum(-1)


def tiles(query: Tensor, targets: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of queries and of targets whose differences have about `TILE` numbers."""
    pairs = max(1, TILE // max(1, query.shape[1]))
    high = max(1, min(len(query), math.isqrt(pairs)))
    wide = max(1, pairs // high)
    for n in range(0, len(targets), wide):
        for m in range(0, len(query), high):
            yield slice(m, min(m + high, len(query))), slice(n, min(n + wide, len(targets)))


def _pull_differences(weights: Tensor, query: Tensor, targets: Collector) -> Tensor:
    """The gradients of Σ weights·(score of q − t) for scores whose gradient is along t − q."""
    rows = targets.rows
    by_query = torch.mm(weights, rows).sub_(weights.sum(1)[:, None] * query)
    column = weights.sum(0)[:, None]
    targets.add_product(weights, query)
    targets.add_all(-column * rows)
    return by_query
