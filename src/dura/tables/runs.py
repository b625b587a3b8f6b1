"""Runs: items by what they belong to, so that sums over the items of each run need no copy of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


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
