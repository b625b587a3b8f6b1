"""Partial: a table of which only some rows learn. All others are read as they are, and their gradient is not kept."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.tables.table import Table


class Partial(Table):
    """A table whose rows `learned`, ascending, collect a gradient.

    >>> table = Partial.of(torch.ones(3, 2), torch.tensor([2]))
    >>> (2 * table.read(torch.tensor([0, 2, 2]))).sum().backward()
    >>> table.collected().tolist()
    [[4.0, 4.0]]
    """

    learned: Tensor
    _place: Tensor
    """The place of each row among those that learn, -1 for all others."""
    _part: Tensor

    @classmethod
    def of(cls, rows: Tensor, learned: Tensor) -> Partial:
        """These rows, of which the `learned` ones learn."""
        table = cls(rows)
        assert isinstance(table, Partial)
        table.learned = learned
        table._place = torch.full((len(rows),), -1, dtype=torch.long, device=rows.device)
        table._place[learned] = torch.arange(len(learned), device=rows.device)
        table._part = rows.new_zeros(len(learned), *rows.shape[1:])
        return table

    def add_rows(self, index: Tensor, gradient: Tensor) -> None:
        """Add to the gradient of the rows that learn."""
        place = self._place[index]
        mine = (place >= 0).nonzero().flatten()
        self._part.index_add_(0, place[mine], gradient[mine])

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ·right to the gradient of the rows that learn; no product is computed for the others."""
        self._part += torch.mm(left.index_select(1, self.learned).mT, right).to(self.dtype)

    def collected(self) -> Tensor:
        """The gradient of the rows that learn since the last `forget`. Some comparators add to a gradient of all rows."""
        return self._part + self.gradient().index_select(0, self.learned) if self._live else self._part.clone()

    def forget(self) -> None:
        """End a step."""
        self._part.zero_()
        super().forget()
