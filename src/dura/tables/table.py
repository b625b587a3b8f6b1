"""Table: the rows of a model, with a gradient that is collected in place.

torch's own lookup builds a dense table of zeros for every read in the backward pass, and clearing a gradient is one more pass over
it. Here gradient rows are added where they belong, a product that reaches every row overwrites what a finished step left, and
the optimizer can ask which rows a step reached at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def flushing() -> Iterator[None]:
    """Meanwhile numbers too small for a float's full precision (below some 1e-38) count as zero; also a decorator.

    A regularizer that shrinks what nothing else holds (FRO) makes entries whose products are such numbers, and processors take a
    hundred times as long for them. Threads begin as the one that starts them: enter this before torch's own are started.
    """
    before = bool(torch.full((), 1e-40) * 1 == 0)  # torch cannot be asked
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def sum_of_parts(x: Tensor, parts: int) -> Tensor:
    """Each real replaced by the sum of the parts of its number: (a, b) by (a + b, a + b) where there are two."""
    return x if parts == 1 else (x[..., 0::2] + x[..., 1::2]).repeat_interleave(2, dim=-1)


class Table(nn.Parameter):
    """A parameter whose gradient is added to in place, by rows or as a whole.

    >>> table = Table(torch.ones(3, 2))
    >>> (2 * table.read(torch.tensor([0, 2, 2]))).sum().backward()
    >>> table.gradient()[:, 0].tolist(), table.used().tolist()
    ([2.0, 0.0, 4.0], [0, 2])
    """

    _index: list[Tensor]
    _whole: bool
    _spent: bool

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Table:
        """The gradient begins as nothing."""
        table: Table = super().__new__(cls, data, requires_grad)
        table._index, table._whole, table._spent = [], False, False
        return table

    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`; their gradient is added to the table's in place when backward runs."""
        if not torch.is_grad_enabled():
            return self.detach().index_select(0, index)
        rows: Tensor = _Read.apply(self, index)  # type: ignore[no-untyped-call]
        return rows

    def gradient(self) -> Tensor:
        """The gradient since the last `forget`, zero where nothing was added."""
        if self.grad is None:
            self.grad = torch.zeros_like(self)
        elif self._spent:
            self.grad.zero_()
        self._spent = False
        return self.grad

    def add_rows(self, index: Tensor, gradient: Tensor) -> None:
        """Add `gradient[i]` to the gradient of row `index[i]`."""
        self.gradient().index_add_(0, index, gradient)
        self._index.append(index)

    def mark(self, index: Tensor) -> None:
        """Say that these rows have a gradient."""
        self._index.append(index)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ·right, a gradient for every row."""
        blank = self.grad is None or self._spent
        if self.grad is None:
            self.grad = torch.empty_like(self)
        self._whole, self._spent = True, False
        if left.dtype != self.dtype:
            product = torch.mm(left.mT, right)
            self.grad = self.grad.copy_(product) if blank else self.grad.add_(product)
        elif blank:
            torch.mm(left.mT, right, out=self.grad)
        else:
            self.grad.addmm_(left.mT, right)

    def used(self) -> Tensor | None:
        """The rows that have a gradient, ascending; None where they are most of the table."""
        if self._whole or sum(len(index) for index in self._index) > 8 * len(self):
            return None
        rows = torch.cat(self._index).unique() if self._index else torch.zeros(0, dtype=torch.long)
        return None if 2 * len(rows) > len(self) else rows

    def forget(self) -> None:
        """End of a step: what the gradient holds counts no more."""
        if self.grad is not None and not self._spent:
            rows = self.used()
            if rows is None:
                self._spent = True
            else:
                self.grad.index_fill_(0, rows.to(self.device), 0)
        self._index, self._whole = [], False


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
