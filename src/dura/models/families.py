"""Families: how a relation acts on a row.

`Relations` says which relation each row of a batch uses, each distinct one standing once. A family knows what its rows
mean: `apply` is x·R̄ (the query), `adjoint` is x·Rᵀ (the reverse query); both are adjoint in the real inner product:
<apply(h), t> = <h, adjoint(t)>.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Relations:
    """The distinct relations of a batch, `rows` [k, ...], and for each item of the batch its row, `index` [n]."""

    rows: Tensor
    index: Tensor

    def at(self, items: Tensor) -> Relations:
        """The relations of these items of the batch."""
        return Relations(self.rows, self.index[items])


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
        return x * relations.rows.index_select(0, relations.index)

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """The same: a real diagonal matrix is its own adjoint."""
        return self.apply(x, relations)


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
        r = as_complex(relations.rows.index_select(0, relations.index))
        return as_real(as_complex(x) * r.conj())

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x∘r."""
        r = as_complex(relations.rows.index_select(0, relations.index))
        return as_real(as_complex(x) * r)


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
        return grouped(x, relations.rows, relations.index)

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x·Rᵀ."""
        return grouped(x, relations.rows.mT, relations.index)


def as_complex(x: Tensor) -> Tensor:
    """Interleaved reals [..., 2d] seen as complex numbers [..., d], without a copy."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def as_real(x: Tensor) -> Tensor:
    """Complex numbers [..., d] seen as interleaved reals [..., 2d], without a copy."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def grouped(x: Tensor, matrices: Tensor, index: Tensor) -> Tensor:
    """`x[i] @ matrices[index[i]]` for each row i, as one product a distinct matrix."""
    product: Tensor = _Grouped.apply(x, matrices, index)  # type: ignore[no-untyped-call]
    return product


class _Grouped(torch.autograd.Function):
    """Rows sorted by their matrix; each run of rows is one product, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor, index: Tensor) -> Tensor:
        order = torch.argsort(index, stable=True)
        ends = torch.bincount(index, minlength=len(matrices)).cumsum(0).tolist()
        runs = [(g, a, b) for g, (a, b) in enumerate(zip([0, *ends], ends, strict=False)) if b > a]
        by_group, result = x[order], torch.empty_like(x)
        for g, a, b in runs:
            torch.mm(by_group[a:b], matrices[g], out=result[a:b])
        ctx.save_for_backward(by_group, matrices, order)
        ctx.runs = runs
        return torch.empty_like(x).index_copy_(0, order, result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        by_group, matrices, order = ctx.saved_tensors
        gradient = gradients[0][order]
        x_gradient = torch.empty_like(by_group)
        matrix_gradient = torch.zeros_like(matrices, memory_format=torch.contiguous_format)
        for g, a, b in ctx.runs:
            torch.mm(gradient[a:b], matrices[g].mT, out=x_gradient[a:b])
            torch.mm(by_group[a:b].mT, gradient[a:b], out=matrix_gradient[g])
        return torch.empty_like(x_gradient).index_copy_(0, order, x_gradient), matrix_gradient, None
