"""Inner products, and a bias for any comparator."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dura.models.comparators.base import Comparator
from dura.tables import Collector, Packed, Room, Runs, Table, add_product_


class Dot(Comparator):
    """The inner product <q, t>."""

    by_product = True

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """<q, t>."""
        product: Tensor = torch.linalg.vecdot(query, targets)
        return product

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """One matrix product."""
        if isinstance(targets, Packed):
            return targets.product(query, out)
        return torch.mm(query, targets.mT, out=out)

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """Two matrix products. The scale of a row is applied to the small matrices."""
        by_query = torch.mm(slopes, targets.rows.to(slopes.dtype)).to(query.dtype)
        if scale is not None:
            by_query.mul_(scale[:, None])
            query = query * scale[:, None]
        targets.add_product(slopes, query.to(slopes.dtype))
        return by_query

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """slope·t and slope·q."""
        by_targets = slopes[..., None] * query
        if query.dim() == targets.dim() == 3 and query.shape[1] == 1:
            return torch.bmm(slopes[:, None], targets), by_targets
        return slopes[..., None] * targets, by_targets

    def among(
        self, query: Tensor, row: Tensor, table: Table, ids: Tensor
    ) -> tuple[Tensor, Callable[[Tensor, Tensor], None]] | None:
        """One target per item: gradients are weighted sums of rows, which are read where they are."""
        if ids.shape[1] != 1:
            return None
        targets = ids[:, 0]

        def pull(slopes: Tensor, by_query: Tensor) -> None:
            weights = slopes[:, 0]
            by_query += Runs(row, len(query)).sums(table.rows, targets, weights)
            distinct, runs = Runs.by(targets)
            table.add_rows(distinct, runs.sums(query, row, weights))

        own = self.pairs(query.index_select(0, row), table.rows.index_select(0, targets))
        return own[:, None], pull

    def bound(self, query: float, targets: float) -> float:
        """Cauchy and Schwarz."""
        return query * targets


class Biased(Comparator):
    """Another comparator plus a bias per target, which is the last number of the target's row.

    With `both`, the last number of a query is added too. It ranks nothing, but a loss that is not a softmax sees it. Because biases
    are a part of the rows, entities with equal rows still tie.
    """

    def __init__(self, inner: Comparator, both: bool = False) -> None:
        self.inner, self.both, self.rows_only = inner, both, inner.rows_only

    def _split(self, query: Tensor) -> tuple[Tensor, Tensor | None]:
        """The inner query and its bias."""
        return (query[..., :-1], query[..., -1]) if self.both else (query, None)

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The inner score plus the biases."""
        inner, own = self._split(query)
        scores = self.inner.pairs(inner, targets[..., :-1]) + targets[..., -1]
        return scores if own is None else scores + own

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The inner scores plus the biases."""
        if isinstance(targets, Packed):
            return super().scores(query, targets, out)
        inner, own = self._split(query)
        scores = self.inner.scores(inner, targets[:, :-1], out)
        bias = targets[:, -1] if own is None else targets[:, -1] + own[:, None]
        return scores + bias if out is None else scores.add_(bias)

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """The inner gradient for the rows, and the sums of the slopes for the biases."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        inner, own = self._split(query)
        by_own = None if own is None else slopes.sum(1, keepdim=True)  # before the inner one overwrites the slopes
        whole = targets.gradient()
        whole[:, -1] += slopes.sum(0).to(whole.dtype)
        targets.mark()
        by_query = self.inner.pull(slopes, inner, _Narrow(targets.rows[:, :-1], whole[:, :-1]))
        return by_query if by_own is None else torch.cat([by_query, by_own], 1)

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The inner gradients, and the slopes for the biases."""
        inner, own = self._split(query)
        by_query, by_targets = self.inner.pull_pairs(slopes, inner, targets[..., :-1])
        by_targets = torch.cat([by_targets, slopes[..., None]], -1)
        if own is None:
            return by_query, by_targets
        by_own = slopes[..., None].sum_to_size(*query.shape[:-1], 1)
        return torch.cat([by_query, by_own], -1), by_targets

    def bound(self, query: float, targets: float) -> float:
        """The inner bound and the largest biases."""
        return self.inner.bound(query, targets) + targets + (query if self.both else 0.0)


class _Narrow:
    """Some columns of a collector."""

    def __init__(self, rows: Tensor, gradient: Tensor) -> None:
        self.rows, self._gradient = rows, gradient

    def gradient(self) -> Tensor:
        return self._gradient

    def add_all(self, gradient: Tensor) -> None:
        self._gradient.add_(gradient)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        add_product_(self._gradient, left, right, Room())

    def mark(self, index: Tensor | None = None) -> None:
        """The collector is marked already."""
