"""Three-way DEDICOM: entities have one row each, relations are matrices, and times are diagonal matrices around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from dura.models import asalsan
from dura.models.families import Rows, grouped
from dura.models.model import Model
from dura.models.temporal import check_times
from dura.tables import Packed, Table, fill
from dura.types import BadInput, Factors, IntArray, Sizes

LARGEST_ALTERNATING = 64
"""The largest rank for alternating least squares: its tables of rank⁴ numbers would not fit in memory."""


class DEDICOM(Model):
    """a_h D_l R_j D_l a_tᵀ: a full matrix R_j per relation, a diagonal matrix D_l per time, and one row per entity.

    The reciprocal of a relation is R_jᵀ, so there is one matrix per relation. The relation at a time is D_l R_j D_l. The model can
    be trained by gradient or by alternating least squares (`optimizer.name = "als"`).
    """

    temporal = True
    adjoint = True
    random = False
    state_is_all = True
    entity: Table | Packed
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "regularizer": {"name": "dura1", "weight": 0.01, "lambda3": 0.5, "lambda4": 1.5},
        "smoothness": {"weight": 0.0},
        "training": {"epochs": 20, "anneal": 6, "batch": 500, "validate_every": 2, "patience": 4},
    }

    def __init__(self, sizes: Sizes, rank: int = 50, init_scale: float = 0.0) -> None:
        check_times(sizes)
        super().__init__(sizes, rank)
        if not init_scale >= 0:
            raise BadInput(f"model.init_scale is {init_scale}, but a scale is zero or more")
        self.entity = Table(torch.empty(sizes.entities, rank))
        self.relations = Table(torch.empty(sizes.relations, rank, rank))
        self.times = Table(torch.ones(sizes.times, rank))
        for table in (self.entity, self.relations):
            if not table.is_meta:
                fill(table, init_scale)

    @property
    def target_table(self) -> Table | Packed:
        """The entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What an export may pack."""
        return {"entity": self.entity}

    @property
    def timeline(self) -> tuple[Table, int]:
        """The diagonals."""
        return self.times, 1

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """a_h D_l R_j D_l, with R_jᵀ for a reciprocal."""
        return self._turned(self.heads(head), relation, time, back=False)

    def reverse(self, tail: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """a_t D_l R_jᵀ D_l, with R_j for a reciprocal."""
        return self._turned(self.entity.read(tail), relation, time, back=True)

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """As for any model. The relation that regularizers see is D_l R_j D_l, once per pair of relation and time."""
        assert time is not None
        pairs = relation * self.sizes.times + time

        def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
            distinct, counts = torch.unique(pairs[question], return_counts=True)
            own = distinct.div(self.sizes.times, rounding_mode="floor") % self.sizes.relations
            d = self.times.read(distinct.remainder(self.sizes.times))
            return (d[:, :, None] * self.relations.read(own) * d[:, None, :],), counts.to(d.dtype)

        def onward() -> Tensor:
            return self._turned(self.entity.read(answers), relation[question], time[question], back=False)

        both = super().factors(head, relation, question, answers, time)
        return replace(both, read_relation=relation_and_counts, read_onward=onward)

    def alternate(self, facts: IntArray, first: bool, ridge: float, newton: int) -> tuple[float, float]:
        """A sweep of ASALSAN, see `dura.models.asalsan`. The loss is the squared error divided by the number of facts."""
        if self.rank > LARGEST_ALTERNATING:
            raise BadInput(
                f"model.rank is {self.rank}, but alternating least squares has tables of rank⁴ numbers: use at most "
                f"{LARGEST_ALTERNATING}, or --set optimizer.name=adagrad"
            )
        assert isinstance(self.entity, Table)
        ids = torch.as_tensor(facts).to(self.device, torch.long)
        known = asalsan.Facts.of(ids, self.sizes.relations)
        at = asalsan.Point(*(table.detach().double() for table in (self.entity, self.relations, self.times)))
        if first:
            at = replace(at, a=asalsan.eigenvectors(known, at.a))
        at = asalsan.sweep(known, at, ridge, newton)
        with torch.no_grad():
            for table, rows in ((self.entity, at.a), (self.relations, at.r), (self.times, at.d)):
                table.copy_(rows)
        count = max(1, len(ids))
        return float(asalsan.error(known, at)) / count, ridge * float(at.squares()) / count

    def _turned(self, rows: Tensor, relation: Tensor, time: Tensor | None, back: bool) -> Tensor:
        """x D_l R_j D_l for each row x, with R_jᵀ if the relation is a reciprocal or if we go `back`, but not both."""
        assert time is not None
        d, own = self.times.read(time), relation % self.sizes.relations
        flipped, x = (relation >= self.sizes.relations) != back, rows * d
        parts = [(flipped == transposed).nonzero().flatten() for transposed in (False, True)]
        products = [
            grouped(x[at], Rows(self.relations, own[at]), transposed)
            for at, transposed in zip(parts, (False, True), strict=True)
        ]
        return torch.zeros_like(x).index_copy(0, torch.cat(parts), torch.cat(products)) * d
