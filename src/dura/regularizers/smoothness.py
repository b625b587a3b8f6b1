"""The smoothness of times: a penalty on neighbouring rows of the table of times, not on the facts of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.tables.table import Table, sum_of_parts
from dura.types import BadInput

CHUNK = 2**18
"""How many numbers of the table of times are in use at once, so that they stay in the cache."""


class Smoothness:
    """Λ_p: neighbouring times should have similar rows. 1/(|T| − 1) Σ_l Σ_d |τ_{l+1} − τ_l|^p over the whole table of times.

    |·| is the modulus if a number has two `parts`. A row for "no time" at the end of the table has no neighbours: `rows` says how
    many rows are times. With `every` n, a step looks at each nth pair of neighbours and counts it n times, and the next step looks
    at the next ones. So n steps look at all pairs once, and a step touches few rows of a large table.
    """

    def __init__(self, weight: float = 0.0, p: int = 3, every: int = 1) -> None:
        if not weight >= 0:
            raise BadInput(f"smoothness.weight is {weight}, but a weight is zero or more")
        if p not in (2, 3, 4, 5):
            raise BadInput(f"smoothness.p is {p}, but it is 2, 3, 4 or 5")
        if every < 1:
            raise BadInput(f"smoothness.every is {every}, but it is 1 or more")
        self.weight, self.p, self.every = weight, p, every

    def __call__(self, times: Table, rows: int, parts: int, step: int = 0) -> Tensor:
        """The penalty at this step, weight included; its gradient is added to the table's."""
        if rows < 2 or not self.weight:
            return times.new_zeros(())
        factor = self.weight / (rows - 1)
        if self.every == 1:
            return factor * self._all(times, rows, parts, factor)
        earlier = torch.arange(rows - 1, device=times.device)[step % self.every :: self.every]
        return self.every * factor * self._some(times, earlier, parts, self.every * factor)

    def _all(self, times: Table, rows: int, parts: int, factor: float) -> Tensor:
        """All pairs, a few rows at a time."""
        table, by_row, total = times.detach(), times.gradient(), times.new_zeros(())
        chunk = max(1, CHUNK // times[0].numel())
        for a in range(0, rows - 1, chunk):
            b = min(a + chunk, rows - 1)
            step = table[a + 1 : b + 1] - table[a:b]
            slope = self._slope(step, parts)
            total += step.flatten() @ slope.flatten()
            by_row[a + 1 : b + 1].add_(slope, alpha=self.p * factor)
            by_row[a:b].sub_(slope, alpha=self.p * factor)
        times.mark(torch.arange(rows, device=times.device))
        return total

    def _some(self, times: Table, earlier: Tensor, parts: int, factor: float) -> Tensor:
        """The pairs of these times and the next ones."""
        table = times.detach()
        apart = table.index_select(0, earlier + 1).sub_(table.index_select(0, earlier))
        slope = self._slope(apart, parts)
        total = apart.flatten() @ slope.flatten()
        gradient = slope.mul_(self.p * factor)
        times.add_rows(earlier + 1, gradient)
        times.add_rows(earlier, gradient.neg())
        return total

    def _slope(self, step: Tensor, parts: int) -> Tensor:
        """The gradient of Σ |step|^p, divided by p. Its product with `step` is the sum itself."""
        if self.p == 2:
            return step
        # |.|², whose power p/2 − 1 is finite at zero
        return sum_of_parts(step * step, parts).pow_(self.p / 2 - 1).mul_(step)
