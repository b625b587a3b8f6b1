"""Table: the rows of a model, with a gradient that is collected in place.

torch's own lookup builds a dense table of zeros in every backward pass, and clearing a gradient is one more pass over the memory.
Here a gradient of few rows is kept as these rows, and a table-sized gradient exists only if something reaches most rows. A product
that reaches every row overwrites what the last step left. The optimizer can ask which rows have a gradient at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn


@contextmanager
def flushing() -> Iterator[None]:
    """Treat denormal numbers (below about 1e-38) as zero. Also works as a decorator.

    A regularizer that shrinks unused entries (FRO) produces such numbers, and processors are a hundred times slower with them. A
    new thread copies this mode from the thread that starts it, so enter this before torch starts its own threads.
    """
    before = bool(torch.full((), 1e-40) * 1 == 0)  # torch cannot be asked
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def sum_of_parts(x: Tensor, parts: int) -> Tensor:
    """Replace each real by the sum of the parts of its number: (a, b) becomes (a + b, a + b) if a number has two parts."""
    return x if parts == 1 else (x[..., 0::2] + x[..., 1::2]).repeat_interleave(2, dim=-1)


class Collector(Protocol):
    """Rows whose gradient is collected: a `Table`, or rows that were `Gathered`."""

    @property
    def rows(self) -> Tensor:
        """The values [n, w], without autograd."""

    def gradient(self) -> Tensor:
        """The gradient so far [n, w], to add to in place; call `mark` afterwards."""

    def add_all(self, gradient: Tensor) -> None:
        """Add to the gradient of all rows."""

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ·right to the gradient of all rows."""

    def mark(self, index: Tensor | None = None) -> None:
        """Note that these rows have a gradient; without an index, all of them."""


class Table(nn.Parameter):
    """A parameter whose gradient is collected in place, by rows or as a whole.

    >>> table = Table(torch.ones(3, 2))
    >>> (2 * table.read(torch.tensor([0, 2, 2]))).sum().backward()
    >>> table.gradient()[:, 0].tolist(), table.used().tolist()
    ([2.0, 0.0, 4.0], [0, 2])
    """

    _index: list[Tensor]
    _rows: list[tuple[Tensor, Tensor]]
    _whole: bool
    _live: bool
    """True if `grad` holds the gradient of this step."""
    _clean: bool
    """True if `grad` is zero everywhere, so that it need not be cleared."""
    _room: Room
    """Where the gradient of the rows of a step is put together."""
    _block: Room
    """Where the products of a lower precision are computed."""
    _places: Tensor
    """The place of each row among those of a step. Places of other rows are left over from earlier steps."""

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Table:
        """The gradient begins as nothing."""
        table: Table = super().__new__(cls, data, requires_grad)
        table._index, table._rows, table._whole, table._live, table._clean = [], [], False, False, False
        table._room, table._block, table._places = Room(), Room(), torch.empty(0, dtype=torch.long)
        return table

    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`. When backward runs, their gradient is added to the table's in place."""
        if not torch.is_grad_enabled():
            return self.detach().index_select(0, index)
        rows: Tensor = _Read.apply(self, index)  # type: ignore[no-untyped-call]
        return rows

    @property
    def rows(self) -> Tensor:
        """The values, without autograd."""
        return self.detach()

    def gradient(self) -> Tensor:
        """The gradient since the last `forget`, with zeros where nothing was added."""
        if self.grad is None:
            self.grad = torch.zeros_like(self)
        elif not self._live and not self._clean:
            self.grad.zero_()
        self._live, self._clean = True, False
        for index, rows in self._rows:
            self.grad.index_add_(0, index, rows)
        self._rows = []
        return self.grad

    def add_rows(self, index: Tensor, gradient: Tensor) -> None:
        """Add `gradient[i]` to the gradient of row `index[i]`. Few rows are kept as they are until someone needs a whole table."""
        if self._live or sum(map(len, self._index)) + len(index) > len(self):
            self.gradient().index_add_(0, index, gradient)
        else:
            self._rows.append((index, gradient))
        self._index.append(index)

    def gradient_of(self, rows: Tensor) -> Tensor:
        """The gradient of these rows, ascending. All rows that have a gradient must be among them.

        It is written to memory that the next call uses again.
        """
        if self._live:
            return self.gradient().index_select(0, rows)
        if len(self._places) != len(self) or self._places.device != rows.device:
            self._places = torch.empty(len(self), dtype=torch.long, device=rows.device)
        self._places[rows] = torch.arange(len(rows), device=rows.device)
        some = self._room.of((len(rows), *self.shape[1:]), self).zero_()
        for index, gradient in self._rows:
            some.index_add_(0, self._places[index], gradient)
        return some

    def set_gradient(self, rows: Tensor, gradient: Tensor) -> None:
        """Replace the gradient: these rows, ascending, have this one and all others have none."""
        self.forget()
        self._room = Room()  # the old one may hold this very gradient, see `gradient_of`
        self.add_rows(rows, gradient)

    def add_all(self, gradient: Tensor) -> None:
        """Add to the gradient of all rows."""
        self.gradient().add_(gradient)
        self._whole = True

    def mark(self, index: Tensor | None = None) -> None:
        """Note that these rows have a gradient; without an index, all of them."""
        if index is None:
            self._whole = True
        else:
            self._index.append(index)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ·right to the gradient of all rows."""
        if self._rows:
            self.gradient()
        blank = not self._live
        if self.grad is None:
            self.grad = torch.empty_like(self)
        self._whole, self._live, self._clean = True, True, False
        add_product_(self.grad, left, right, self._block, blank)

    def used(self) -> Tensor | None:
        """The rows that have a gradient, ascending. None if that is most of the table."""
        if self._whole or sum(len(index) for index in self._index) > 8 * len(self):
            return None
        rows = self._distinct(torch.cat(self._index)) if self._index else torch.zeros(0, dtype=torch.long)
        return None if 2 * len(rows) > len(self) else rows

    def _distinct(self, index: Tensor) -> Tensor:
        """The distinct rows, ascending. If there are many, marking them in a list of all rows is faster than to sort."""
        if 16 * len(index) < len(self):
            rows: Tensor = index.unique()
            return rows
        marks = torch.zeros(len(self), dtype=torch.bool, device=index.device).index_fill_(0, index, True)
        found: Tensor = marks.nonzero().flatten()
        return found

    def forget(self) -> None:
        """End a step: from now on the gradient is zero."""
        if self._live and self.grad is not None and (rows := self.used()) is not None:
            self.grad.index_fill_(0, rows.to(self.device), 0)
            self._clean = True
        self._index, self._rows, self._whole, self._live = [], [], False, False


@dataclass(frozen=True)
class Runs:
    """Item j belongs to run `run[j]`, of as many as `runs` says. A run may be empty.

    >>> runs = Runs(torch.tensor([2, 0, 2]), 3)
    >>> runs.sums(torch.tensor([[1.0], [10.0], [100.0]])).flatten().tolist()
    [10.0, 0.0, 101.0]
    """

    run: Tensor
    runs: int

    @classmethod
    def by(cls, key: Tensor) -> tuple[Tensor, Runs]:
        """The distinct keys, ascending, and the items of each of them as a run."""
        found, run = torch.unique(key, return_inverse=True)
        return found, cls(run, found.shape[0])

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        """The items in the order of their runs, and where each run starts."""
        counts = torch.bincount(self.run, minlength=self.runs)
        return torch.argsort(self.run, stable=True), counts.cumsum(0) - counts

    def sums(self, rows: Tensor, which: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Σ weights[j]·rows[which[j]] over the items j of each run. Item j has row j and the weight 1 if nothing else is given.

        Rows are read where they are, and each sum is written once. One thread sums a run in the order of its items, so nothing
        depends on the number of threads.
        """
        if not self.run.shape[0]:
            return rows.new_zeros(self.runs, rows.shape[1])
        order, starts = self._sorted
        index, scaled = order if which is None else which[order], None if weights is None else weights[order]
        total: Tensor = torch.embedding_bag(rows, index, starts, mode=0, per_sample_weights=scaled)[0]
        return total


PRODUCT_ROWS = 1024
"""How many rows of a gradient a product of lower precision fills at a time: few enough to stay in the cache."""


def add_product_(gradient: Tensor, left: Tensor, right: Tensor, room: Room, blank: bool = False) -> None:
    """Add leftᵀ·right to the gradient, or write it there if the gradient is still `blank`.

    A product of a lower precision is computed a block of rows at a time in `room`, so that it never exists as a whole.
    """
    if left.dtype != gradient.dtype:
        for some, columns in zip(gradient.split(PRODUCT_ROWS), left.split(PRODUCT_ROWS, 1), strict=True):
            product = torch.mm(columns.mT, right, out=room.of((len(some), right.shape[1]), right))
            some.copy_(product) if blank else some.add_(product)
    elif blank:
        torch.mm(left.mT, right, out=gradient)
    else:
        gradient.addmm_(left.mT, right)


class Room:
    """Memory that is used again: a large tensor that is made anew in every step costs a page fault for every 4 KB."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def of(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor of this shape, filled with anything. It is valid until the next call."""
        wanted, old = math.prod(shape), self._memory
        if old.numel() < wanted or old.device != like.device or old.dtype != like.dtype:
            self._memory = torch.empty(wanted, dtype=like.dtype, device=like.device)
        return self._memory[:wanted].view(shape)


class _Read(torch.autograd.Function):
    """Forward: `table[index]`. Backward: `table.grad[index] += gradient`, in place; nothing flows on."""

    @staticmethod
    def forward(ctx: Any, table: Table, index: Tensor) -> Tensor:
        ctx.table, ctx.index = table, index
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        ctx.table.add_rows(ctx.index, gradients[0])
        return None, None


class Gathered:
    """Some rows [n, w] and room for their gradient, for rows that were picked out of a table or computed.

    `add_product`, `gradient` and `mark` are those of `Table`, so a comparator can add to either.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self._gradient: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def gradient(self) -> Tensor:
        """What was added so far, with zeros where nothing was."""
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.rows)
        return self._gradient

    def add_all(self, gradient: Tensor) -> None:
        """Add to the gradient of all rows; the first one is kept as it is."""
        if self._gradient is None:
            self._gradient = gradient
        else:
            self._gradient.add_(gradient)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ·right."""
        blank = self._gradient is None
        if self._gradient is None:
            self._gradient = torch.empty_like(self.rows)
        add_product_(self._gradient, left, right, Room(), blank)

    def mark(self, index: Tensor | None = None) -> None:
        """All rows count as used."""


class Lowered:
    """Another collector whose rows were rounded once to the type of the products. Its gradient keeps its own type."""

    def __init__(self, collector: Collector, dtype: torch.dtype) -> None:
        self.rows, self._collector = collector.rows.to(dtype), collector
        self.gradient, self.add_all = collector.gradient, collector.add_all
        self.add_product, self.mark = collector.add_product, collector.mark


class Fixed:
    """Rows that are never trained: a comparator may add to their gradient, and nothing is computed or kept."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def gradient(self) -> Tensor:
        """Room to add to, which no one reads."""
        return torch.zeros_like(self.rows)

    def add_all(self, gradient: Tensor) -> None:
        """Nothing to do."""

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Nothing to do, so the product is not computed."""

    def mark(self, index: Tensor | None = None) -> None:
        """Nothing to do."""
