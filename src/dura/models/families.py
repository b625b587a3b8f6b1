"""Families: how a relation acts on a row.

`Relations` says which relation each row of a batch uses. A family knows what the rows of a relation mean: `apply` is x·R̄ (the
query), `adjoint` is x·Rᵀ (the reverse query); both are adjoint in the real inner product: <apply(h), t> = <h, adjoint(t)>.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dura.table import Table

Weights = tuple[float, float]
"""Of the plain rows and of the turned ones."""


@dataclass(frozen=True)
class Relations:
    """Rows [k, ...] of relations, a whole table or some that were computed, and for each item of a batch its row, `index` [n]."""

    rows: Tensor
    index: Tensor

    def at(self, items: Tensor) -> Relations:
        """The relations of these items of the batch."""
        return Relations(self.rows, self.index[items])

    def read(self, index: Tensor | None = None) -> Tensor:
        """A copy of the rows at `index`, or of each item's."""
        index = self.index if index is None else index
        return self.rows.read(index) if isinstance(self.rows, Table) else self.rows.index_select(0, index)


class Family(ABC):
    """How R acts. `diagonal` says whether R is a vector acting element by element, `complex` whether over pairs."""

    diagonal: bool
    complex: bool

    @abstractmethod
    def width(self, rank: int) -> int:
        """How many reals a row of an entity holds."""

    @abstractmethod
    def shape(self, rank: int) -> tuple[int, ...]:
        """The shape of one relation."""

    @abstractmethod
    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x·R̄, one row each."""

    @abstractmethod
    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x·Rᵀ, one row each."""

    def tail_squares(self, x: Tensor, relations: Relations, items: Tensor, weights: Weights) -> Tensor | None:  # noqa: ARG002
        """Σ plain·‖x_i‖² + turned·‖x_i·Rᵀ‖², R that of item `items[i]`; None where there is no shorter way than by `adjoint`.

        `weights` are (plain, turned).
        """
        return None


class Diagonal(Family):
    """R is a real vector: both directions multiply element by element."""

    diagonal, complex = True, False

    def width(self, rank: int) -> int:
        """One real a dimension."""
        return rank

    def shape(self, rank: int) -> tuple[int, ...]:
        """A vector."""
        return (rank,)

    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x∘r."""
        return x * relations.read()

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """The same: a real diagonal matrix is its own adjoint."""
        return self.apply(x, relations)

    def tail_squares(self, x: Tensor, relations: Relations, items: Tensor, weights: Weights) -> Tensor:
        """Σ x²·(plain + turned·r²)."""
        return scaled_squares(x, relations.read(), items, *weights, 1)


class ComplexDiagonal(Family):
    """R is a complex vector, stored as interleaved reals [2d], so that a score is one real inner product."""

    diagonal, complex = True, True

    def width(self, rank: int) -> int:
        """Two reals a dimension."""
        return 2 * rank

    def shape(self, rank: int) -> tuple[int, ...]:
        """A vector of complex numbers as reals."""
        return (2 * rank,)

    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x∘r̄."""
        r = as_complex(relations.read())
        return as_real(as_complex(x) * r.conj())

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x∘r."""
        r = as_complex(relations.read())
        return as_real(as_complex(x) * r)

    def tail_squares(self, x: Tensor, relations: Relations, items: Tensor, weights: Weights) -> Tensor:
        """Σ |x|²·(plain + turned·|r|²)."""
        return scaled_squares(x, relations.read(), items, *weights, 2)


class Dense(Family):
    """R is a full matrix: items are grouped by relation, one product a relation, no copy of R an item."""

    diagonal, complex = False, False

    def width(self, rank: int) -> int:
        """One real a dimension."""
        return rank

    def shape(self, rank: int) -> tuple[int, ...]:
        """A square matrix."""
        return (rank, rank)

    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x·R."""
        return grouped(x, relations)

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x·Rᵀ."""
        return grouped(x, relations, transposed=True)


def as_complex(x: Tensor) -> Tensor:
    """Interleaved reals [..., 2d] seen as complex numbers [..., d], without a copy."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def as_real(x: Tensor) -> Tensor:
    """Complex numbers [..., d] seen as interleaved reals [..., 2d], without a copy."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def scaled_squares(x: Tensor, r: Tensor, items: Tensor, plain: float, turned: float, parts: int) -> Tensor:
    """Σ |x_i|²·(plain + turned·|r_items[i]|²) over numbers of so many real parts."""
    total: Tensor = _ScaledSquares.apply(x, r, items, plain, turned, parts)  # type: ignore[no-untyped-call]
    return total


class _ScaledSquares(torch.autograd.Function):
    """Neither x∘r nor its gradient is made: squares are summed by item, and the weight of an item stands beside each real of x.

    Items are fewer than rows of x, and every pass over the rows counts.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, r: Tensor, items: Tensor, plain: float, turned: float, parts: int) -> Tensor:
        sums = torch.zeros_like(r).index_add_(0, items, x * x)
        weight = sum_of_parts(r * r, parts).mul_(turned).add_(plain)
        ctx.save_for_backward(x, r, items, sums, weight)
        ctx.turned, ctx.parts = turned, parts
        return sums.flatten() @ weight.flatten()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        x, r, items, sums, weight = ctx.saved_tensors
        factor = 2 * gradients[0]
        by_relation = sum_of_parts(sums, ctx.parts) * (factor * ctx.turned)
        return (weight * factor).index_select(0, items).mul_(x), by_relation.mul_(r), None, None, None, None


def sum_of_parts(x: Tensor, parts: int) -> Tensor:
    """Each real replaced by the sum of the parts of its number: (a, b) by (a + b, a + b) where there are two."""
    return x if parts == 1 else (x[..., 0::2] + x[..., 1::2]).repeat_interleave(2, dim=-1)


def grouped(x: Tensor, relations: Relations, transposed: bool = False) -> Tensor:
    """`x[i] @ R[index[i]]` for each row i (Rᵀ where `transposed`), as one product a distinct matrix."""
    product: Tensor = _Grouped.apply(x, relations.rows, relations.index, transposed)  # type: ignore[no-untyped-call]
    return product


class _Grouped(torch.autograd.Function):
    """Items sorted by their matrix; each run of items is one product, forward and backward. No matrix is copied.

    The gradient of a table's matrices is added to it in place; that of computed ones flows on.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor, index: Tensor, transposed: bool) -> Tensor:
        order = torch.argsort(index, stable=True)
        distinct, counts = torch.unique_consecutive(index[order], return_counts=True)
        ends = counts.cumsum(0).tolist()
        runs = list(zip(distinct.tolist(), [0, *ends], ends, strict=False))
        by_matrix, result, plain = x[order], torch.empty_like(x), matrices.detach()
        for g, a, b in runs:
            torch.mm(by_matrix[a:b], plain[g].mT if transposed else plain[g], out=result[a:b])
        # A table is not saved but held: its gradient is written in place, and nothing else changes it before backward.
        ctx.save_for_backward(by_matrix, order, distinct)
        ctx.matrices, ctx.runs, ctx.transposed = matrices, runs, transposed
        return torch.empty_like(x).index_copy_(0, order, result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        by_matrix, order, distinct = ctx.saved_tensors
        matrices, gradient = ctx.matrices, gradients[0][order]
        plain, x_gradient = matrices.detach(), torch.empty_like(by_matrix)
        flowing = None if isinstance(matrices, Table) else torch.zeros_like(plain)
        for g, a, b in ctx.runs:
            torch.mm(gradient[a:b], plain[g] if ctx.transposed else plain[g].mT, out=x_gradient[a:b])
            left, right = (gradient, by_matrix) if ctx.transposed else (by_matrix, gradient)
            if flowing is None:
                matrices.add_matrix(g, left[a:b], right[a:b])
            else:
                torch.mm(left[a:b].mT, right[a:b], out=flowing[g])
        if flowing is None:
            matrices.mark(distinct)
        return torch.empty_like(x_gradient).index_copy_(0, order, x_gradient), flowing, None, None
