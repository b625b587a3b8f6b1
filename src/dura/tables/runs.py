"""Runs: items sorted by what they belong to, so that sums over the items of each run need no copy of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Runs:
    """Run i has the items `order[starts[i]:starts[i + 1]]`. A run may be empty.

    >>> runs = Runs.of(torch.tensor([2, 0, 2]), 3)
    >>> runs.sums(torch.tensor([[1.0], [10.0], [100.0]])).flatten().tolist()
    [10.0, 0.0, 101.0]
    """

    run: Tensor
    """The run of each item [n]."""
    order: Tensor
    starts: Tensor

    @classmethod
    def of(cls, run: Tensor, runs: int) -> Runs:
        """Items whose runs are given."""
        counts = torch.bincount(run, minlength=runs)
        return cls(run, torch.argsort(run, stable=True), counts.cumsum(0) - counts)

    @classmethod
    def by(cls, key: Tensor) -> tuple[Tensor, Runs]:
        """The distinct keys, ascending, and the items of each of them as a run."""
        found = torch.sort(key, stable=True)
        keys, place, counts = torch.unique_consecutive(found.values, return_inverse=True, return_counts=True)
        run = torch.empty_like(place).index_copy_(0, found.indices, place)
        return keys, cls(run, found.indices, counts.cumsum(0) - counts)

    def sums(self, rows: Tensor, which: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Σ weights[j]·rows[which[j]] over the items j of each run. Item j has row j and the weight 1 if nothing else is given.

        Rows are read where they are. A run is summed by one thread and in the order of its items, so nothing depends on the
        number of threads.
        """
        index = self.order if which is None else which[self.order]
        if not len(index):
            return rows.new_zeros(len(self.starts), rows.shape[1])
        scaled = None if weights is None else weights[self.order]
        total: Tensor = torch.embedding_bag(rows, index, self.starts, mode=0, per_sample_weights=scaled)[0]
        return total
