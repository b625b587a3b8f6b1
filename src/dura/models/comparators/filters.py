"""Filters: a small network that looks at one number of the target at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.models.comparators.base import Comparator
from dura.tables import Collector, Packed

SORTED_FROM = 4
"""With at least this many queries it pays to sort each column of the targets."""


class Filters(Comparator):
    """Σ_f Σ_i w_fi · ReLU(a_fi + c_f·t_i): what `filters` filters make of each of the `width` numbers of the target.

    A query has a [filters · width], c [filters] and w [filters · width], so it also carries what all questions share.
    """

    def __init__(self, filters: int, width: int) -> None:
        self.filters, self.width = filters, width

    def split(self, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """a [..., filters, width], c [..., filters, 1] and w [..., filters, width]."""
        many = self.filters * self.width
        a, c, w = query.split([many, self.filters, many], -1)
        shape = (self.filters, self.width)
        return a.unflatten(-1, shape), c[..., None], w.unflatten(-1, shape)

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """One per filter and number of the target."""
        return self.filters * self.width

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The formula as it stands."""
        a, c, w = self.split(query)
        return (w * torch.relu(a + c * targets[..., None, :])).sum((-2, -1))

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """As a function of t_i, a score is a line that bends once per filter. So columns are sorted, and the bends found in them.

        Then a target costs one product per number instead of one per number and filter. Without gradients only.
        """
        live = torch.is_grad_enabled() and (
            query.requires_grad or (isinstance(targets, Tensor) and targets.requires_grad)
        )
        if isinstance(targets, Packed) or live or len(query) < SORTED_FROM or not len(targets):
            return super().scores(query, targets, out)
        scores = query.new_empty(len(query), len(targets)) if out is None else out
        columns, order = targets.detach().mT.contiguous().sort(dim=1)
        place = torch.empty_like(order).scatter_(
            1, order, torch.arange(len(targets), device=order.device).expand_as(order)
        )
        for one, row in zip(query.detach(), scores, strict=True):
            row.copy_(self._line(one, columns).gather(1, place).sum(0))
        return scores

    def _line(self, query: Tensor, columns: Tensor) -> Tensor:
        """The part of each number in the scores [width, n] for one query, if each of the `columns` ascends.

        Before its bend −a/c, a filter with c < 0 counts; after it, one with c > 0. One with c = 0 counts everywhere or nowhere.
        """
        a, c, w = (part.mT for part in self.split(query))
        c = c.expand_as(a)
        bend, by_filter = torch.where(c == 0, 0.0, -a / c).sort(dim=1)
        at = torch.searchsorted(columns, bend.contiguous())
        slope, height = w * c, w * a
        first = (c < 0) | ((c == 0) & (a > 0))
        steps = torch.stack([slope, height]) * c.sign()
        steps = steps.gather(2, by_filter.expand_as(steps))
        start = (torch.stack([slope, height]) * first).sum(2, keepdim=True)
        lines = torch.cat([start, start + steps.cumsum(2)], 2)
        runs = torch.diff(
            at, dim=1, prepend=at.new_zeros(len(at), 1), append=at.new_full((len(at), 1), columns.shape[1])
        )
        slope, height = lines.flatten(1).repeat_interleave(runs.flatten(), dim=1).unflatten(1, columns.shape)
        return torch.addcmul(height, slope, columns)

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """A block of targets at a time, by hand."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        by_query, rows, gradient = torch.zeros_like(query), targets.rows, targets.gradient()
        for part in self._parts(query, rows):
            one, two = self._gradients(slopes[:, part], query, rows[part].expand(len(query), -1, -1))
            by_query += one
            gradient[part] += two.sum(0)
        targets.mark()
        return by_query

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """By hand where each query meets one target or several of its own."""
        if slopes.dim() == 1 and query.dim() == targets.dim() == 2:
            by_query, by_targets = self._gradients(slopes[:, None], query, targets[:, None])
            return by_query, by_targets[:, 0]
        if slopes.dim() == 2 and query.dim() == targets.dim() == 3 and query.shape[1] == 1:
            by_query, by_targets = self._gradients(slopes, query[:, 0], targets)
            return by_query[:, None], by_targets
        return super().pull_pairs(slopes, query, targets)

    def _gradients(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """By queries [m, v] and their targets [m, k, width], from the slopes [m, k]. Few passes over [m, k, filters, width]."""
        a, c, w = self.split(query)
        seen = torch.addcmul(a[:, None], c[:, None], targets[:, :, None]).relu_()
        by_w = torch.bmm(slopes[:, None], seen.flatten(2))[:, 0]
        active = seen.sign_()
        by_a = torch.bmm(slopes[:, None], active.flatten(2))[:, 0] * w.flatten(1)
        by_targets = (active * (c * w)[:, None]).sum(2).mul_(slopes[..., None])
        by_c = (active.mul_((slopes[..., None] * targets)[:, :, None]).sum(1) * w).sum(2)
        return torch.cat([by_a, by_c, by_w], 1), by_targets

    def bound(self, query: float, targets: float) -> float:
        """‖w‖·(‖a‖ + ‖c‖·‖t‖) by Cauchy and Schwarz."""
        return query * query * (1 + targets)
