"""Families: how a relation acts on a row.

`Relations` says which relation each row of a batch uses. A family knows what the rows of a relation mean. `apply` is x·R̄ (the
query) and `adjoint` is x·Rᵀ (the reverse query). They are adjoint in the real inner product: <apply(h), t> = <h, adjoint(t)>.
The score is linear in R too: <apply(h), t> = <between(h, t), R>.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dura.tables.table import Runs, Table, sum_of_parts

Weights = tuple[float, float]
"""The weights of ‖x‖² and of ‖x·Rᵀ‖²."""


class Relations(ABC):
    """Which relation each item of a batch has."""

    @abstractmethod
    def tables(self) -> tuple[tuple[Table, Tensor], ...]:
        """The tables whose rows are multiplied, element by element, to an item's relation, and each item's row in them [n]."""

    @abstractmethod
    def at(self, items: Tensor) -> Relations:
        """The relations of these items of the batch."""

    @abstractmethod
    def read(self) -> Tensor:
        """The relation of each item [n, ...]."""

    def once(self) -> tuple[Tensor, Tensor]:
        """Relations [k, ...] and the one of each item [n], with as few copies of equal ones as is cheap."""
        return self.read(), torch.arange(len(self.tables()[0][1]))

    @abstractmethod
    def distinct(self, items: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """The distinct relations of these items [k, ...], and how many items have each [k].

        If a relation is a sum of parts, each part is a separate tensor, as regularizers need it.
        """


@dataclass(frozen=True)
class Rows(Relations):
    """Rows [k, ...], from a table or computed (perhaps as a sum of `parts`), and the row `index` [n] of each item."""

    rows: Tensor
    index: Tensor
    parts: tuple[Tensor, ...] = ()

    def tables(self) -> tuple[tuple[Table, Tensor], ...]:
        """The rows, which must be a table."""
        assert isinstance(self.rows, Table)
        return ((self.rows, self.index),)

    def at(self, items: Tensor) -> Rows:
        """The same rows, fewer items."""
        return Rows(self.rows, self.index[items], self.parts)

    def read(self) -> Tensor:
        """A copy of each item's row."""
        return self._pick(self.rows, self.index)

    def once(self) -> tuple[Tensor, Tensor]:
        """Each row that an item of a table has, once. Computed rows are there once as they are."""
        if not isinstance(self.rows, Table):
            return self.rows, self.index
        distinct, place = torch.unique(self.index, return_inverse=True)
        return self.rows.read(distinct), place

    def distinct(self, items: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """As in `Relations`."""
        index, counts = torch.unique(self.index[items], return_counts=True)
        return tuple(self._pick(part, index) for part in self.parts or (self.rows,)), counts

    @staticmethod
    def _pick(rows: Tensor, index: Tensor) -> Tensor:
        return rows.read(index) if isinstance(rows, Table) else rows.index_select(0, index)


@dataclass(frozen=True)
class Products(Relations):
    """Products of rows of several tables. Each product is computed where it is needed and not kept."""

    of: tuple[tuple[Table, Tensor], ...]

    def tables(self) -> tuple[tuple[Table, Tensor], ...]:
        """The tables that are multiplied."""
        return self.of

    def at(self, items: Tensor) -> Products:
        """The same tables, fewer items."""
        return Products(tuple((table, index[items]) for table, index in self.of))

    def read(self) -> Tensor:
        """All of them at once."""
        first, *others = (table.read(index) for table, index in self.of)
        for other in others:
            first = first * other
        return first

    def distinct(self, items: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """As in `Relations`."""
        ids, counts = torch.unique(torch.stack([index[items] for _, index in self.of]), dim=1, return_counts=True)
        each = Products(tuple((table, index) for (table, _), index in zip(self.of, ids, strict=True)))
        return (each.read(),), counts


@dataclass(frozen=True)
class Facts:
    """Facts by their tails. Fact j has the relation of item `item[j]`."""

    read_tails: Callable[[], tuple[Tensor, Runs]]
    """The row of each distinct tail [d, w], and the facts of each of them as a run."""
    relations: Relations
    item: Tensor


class Family(ABC):
    """How R acts. `diagonal`: R is a vector that acts element by element. `complex`: pairs of reals are complex numbers."""

    diagonal: bool
    complex: bool

    @abstractmethod
    def width(self, rank: int) -> int:
        """How many reals an entity's row has."""

    @abstractmethod
    def shape(self, rank: int) -> tuple[int, ...]:
        """The shape of one relation."""

    @abstractmethod
    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x·R̄, one row each."""

    @abstractmethod
    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x·Rᵀ, one row each."""

    @abstractmethod
    def between(self, h: Tensor, t: Tensor) -> Tensor:
        """What meets R in the score of (h, R, t): <between(h, t), R>, flattened to [n, numbers of R]."""

    def tail_squares(self, facts: Facts, weights: Weights) -> Tensor | None:
        """Σ plain·‖x‖² + turned·‖x·Rᵀ‖² over facts with a row x and a relation R.

        `weights` are (plain, turned). None if there is no shorter way than through `adjoint`.
        """
        return None


class Diagonal(Family):
    """R is a real vector: both directions multiply element by element."""

    diagonal, complex = True, False

    def width(self, rank: int) -> int:
        """One real per dimension."""
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

    def between(self, h: Tensor, t: Tensor) -> Tensor:
        """h∘t."""
        return h * t

    def tail_squares(self, facts: Facts, weights: Weights) -> Tensor:
        """Σ x²·(plain + turned·r²)."""
        return scaled_squares(facts, *weights, 1)


class ComplexDiagonal(Family):
    """R is a complex vector, stored as interleaved reals [2d], so that a score is one real inner product."""

    diagonal, complex = True, True

    def width(self, rank: int) -> int:
        """Two reals per dimension."""
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

    def between(self, h: Tensor, t: Tensor) -> Tensor:
        """h∘t̄, since Re<h̄∘r∘t> = <r, h∘t̄> over the reals."""
        return as_real(as_complex(h) * as_complex(t).conj())

    def tail_squares(self, facts: Facts, weights: Weights) -> Tensor:
        """Σ |x|²·(plain + turned·|r|²)."""
        return scaled_squares(facts, *weights, 2)


class Dense(Family):
    """R is a full matrix. Items are grouped by relation: one product per relation, and no matrix is copied."""

    diagonal, complex = False, False

    def width(self, rank: int) -> int:
        """One real per dimension."""
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

    def between(self, h: Tensor, t: Tensor) -> Tensor:
        """The outer product of h and t."""
        return (h[:, :, None] * t[:, None, :]).flatten(1)


def as_complex(x: Tensor) -> Tensor:
    """Interleaved reals [..., 2d] seen as complex numbers [..., d], without a copy."""
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def as_real(x: Tensor) -> Tensor:
    """Complex numbers [..., d] seen as interleaved reals [..., 2d], without a copy."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def scaled_squares(facts: Facts, plain: float, turned: float, parts: int) -> Tensor:
    """Σ |x|²·(plain + turned·|r|²) over the facts, where a number has `parts` real parts."""
    r, place = facts.relations.once()
    tail, by_tail = facts.read_tails()
    total: Tensor = _ScaledSquares.apply(tail, r, by_tail, place[facts.item], plain, turned, parts)  # type: ignore[no-untyped-call]
    return total


class _ScaledSquares(torch.autograd.Function):
    """Squares of tails are summed for each relation, and what relations ask of a tail for each tail.

    So no tensor has a row per fact, and neither x∘r nor its gradient is computed.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, r: Tensor, by_tail: Runs, relation: Tensor, plain: float, turned: float, parts: int
    ) -> Tensor:
        sums = Runs(relation, len(r)).sums(x * x, by_tail.run)
        weight = sum_of_parts(r * r, parts).mul_(turned).add_(plain)
        ctx.save_for_backward(x, r, sums, weight)
        ctx.by_tail, ctx.relation, ctx.turned, ctx.parts = by_tail, relation, turned, parts
        return sums.flatten() @ weight.flatten()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, r, sums, weight = ctx.saved_tensors
        factor = 2 * gradients[0]
        by_relation = sum_of_parts(sums, ctx.parts) * (factor * ctx.turned)
        by_tail = ctx.by_tail.sums(weight * factor, ctx.relation)
        return by_tail.mul_(x), by_relation.mul_(r), None, None, None, None, None


def grouped(x: Tensor, relations: Relations, transposed: bool = False) -> Tensor:
    """`x[i] @ R_i` for each row i (R_iᵀ if `transposed`), as one product per distinct matrix."""
    tables, index = zip(*relations.tables(), strict=True)
    product: Tensor = _Grouped.apply(x, index, transposed, *tables)  # type: ignore[no-untyped-call]
    return product


class _Grouped(torch.autograd.Function):
    """Items are sorted by their matrix. Each run of items is one product, forward and backward. No matrix is copied.

    A matrix that is the product of two tables' rows is computed in a buffer that stays in the cache, once forward and once
    backward: there may be nearly as many pairs as items. Gradients are added to the tables in place. There are many small
    products, so views of all runs and rows are taken at once: taken one by one, they cost as much as some of the products.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: tuple[Tensor, ...], transposed: bool, *tables: Table) -> Tensor:
        key = index[0]
        for table, other in zip(tables[1:], index[1:], strict=True):
            key = key * len(table) + other
        order = torch.argsort(key, stable=True)
        _, counts = torch.unique_consecutive(key[order], return_counts=True)
        first = order[counts.cumsum(0) - counts]
        rows, runs = [ids[first] for ids in index], counts.tolist()
        by_matrix, result = x[order], torch.empty_like(x)
        for r, run, out in zip(
            _matrices(tables, rows, transposed), by_matrix.split(runs), result.split(runs), strict=True
        ):
            torch.mm(run, r, out=out)
        # Autograd does not save a table: its gradient is written in place, and nothing else changes it before backward.
        ctx.save_for_backward(by_matrix, order, *rows)
        ctx.tables, ctx.runs, ctx.transposed = tables, runs, transposed
        return torch.empty_like(x).index_copy_(0, order, result)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_matrix, order, *rows = ctx.saved_tensors
        tables: tuple[Table, ...] = ctx.tables
        gradient, x_gradient = gradients[0][order], torch.empty_like(by_matrix)
        left, right = (gradient, by_matrix) if ctx.transposed else (by_matrix, gradient)
        matrices, add = _matrices(tables, rows, not ctx.transposed), _add_gradients(tables, rows)
        runs = (part.split(ctx.runs, dim) for part, dim in ((gradient, 0), (x_gradient, 0), (left.mT, 1), (right, 0)))
        for i, (r, run, out, a, b) in enumerate(zip(matrices, *runs, strict=True)):
            torch.mm(run, r, out=out)
            add(i, a, b)
        for table, used in zip(tables, rows, strict=True):
            table.mark(used)
        return torch.empty_like(x_gradient).index_copy_(0, order, x_gradient), None, None, *(None for _ in tables)


def _each(table: Tensor, rows: Tensor) -> list[Tensor]:
    """A view of each of these rows. Taking views of all rows at once is cheaper only if most are wanted."""
    views = table.unbind() if 2 * len(rows) > len(table) else table
    return [views[row] for row in rows.tolist()]


def _matrices(tables: tuple[Table, ...], rows: list[Tensor], transposed: bool) -> Iterable[Tensor]:
    """The matrices of these rows: those of one table, or products of two in a buffer that the next product overwrites."""
    views = [
        _each(table.detach().mT if transposed else table.detach(), ids) for table, ids in zip(tables, rows, strict=True)
    ]
    if len(views) == 1:
        return views[0]
    room = torch.empty_like(views[0][0])
    return (torch.mul(one, two, out=room) for one, two in zip(*views, strict=True))


def _add_gradients(tables: tuple[Table, ...], rows: list[Tensor]) -> Callable[[int, Tensor, Tensor], object]:
    """A function that adds left·right to the gradient of the i-th matrix of these rows."""
    by_table = [_each(table.gradient(), ids) for table, ids in zip(tables, rows, strict=True)]
    if len(by_table) == 1:
        return lambda i, left, right: by_table[0][i].addmm_(left, right)
    one, two = (_each(table.detach(), ids) for table, ids in zip(tables, rows, strict=True))
    by_one, by_two = by_table
    room = torch.empty_like(one[0])

    def add(i: int, left: Tensor, right: Tensor) -> None:
        torch.mm(left, right, out=room)
        by_one[i].addcmul_(room, two[i])
        by_two[i].addcmul_(room, one[i])

    return add
