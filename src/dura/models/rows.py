"""Reading rows of a table so that their gradient goes straight into the table's `grad`.

torch's own lookup builds a dense table of zeros for every read in the backward pass: with several reads a step that is
several times the whole table in memory traffic. Here the gradient rows are added in place, once each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _Rows(torch.autograd.Function):
    """Forward: `table[index]`. Backward: `table.grad[index] += gradient`, in place; nothing flows on."""

    @staticmethod
    def forward(ctx: Any, table: nn.Parameter, index: Tensor) -> Tensor:
        ctx.table, ctx.index = table, index
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        gradient_of(ctx.table).index_add_(0, ctx.index, gradients[0])
        return None, None


def rows(table: nn.Parameter, index: Tensor) -> Tensor:
    """The rows of `table` at `index`; their gradient is added to `table.grad` in place when backward runs."""
    if not torch.is_grad_enabled():
        return table.index_select(0, index)
    read: Tensor = _Rows.apply(table, index)  # type: ignore[no-untyped-call]
    return read


def gradient_of(table: nn.Parameter) -> Tensor:
    """`table.grad`, made of zeros where there is none yet."""
    if table.grad is None:
        table.grad = torch.zeros_like(table)
    return table.grad
