"""A distance model with two tables."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from dura.models import L1, L2, Model
from dura.tables import Packed, Table
from dura.types import Sizes


class Shift(Model):
    """−‖h + r − t‖ (TransE): a relation shifts its heads to its tails. `norm` is the norm of the distance.

    The reciprocal of a relation shifts back by −r, so the table of relations has one row per relation and none per reciprocal.
    """

    random = False  # no dropout: dura need not seed torch's generator before each step
    entity: Table | Packed

    def __init__(self, sizes: Sizes, rank: int = 200, norm: Literal["l1", "l2"] = "l1") -> None:
        super().__init__(sizes, rank)
        self.comparator = L1() if norm == "l1" else L2()
        self.entity = Table(torch.empty(sizes.entities, rank))
        self.shifts = Table(torch.empty(sizes.relations, rank))
        for table in self.parameters():
            nn.init.uniform_(table, -6 / rank**0.5, 6 / rank**0.5)

    @property
    def target_table(self) -> Table | Packed:
        """The targets are the entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What `dura export` may make sparse or small."""
        return {"entity": self.entity}

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h + r."""
        return self.entity.read(head) + self._shift(relation)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """What regularizers see. Without this they would not find the relations: their table has another name and fewer rows."""
        return (self._shift(relations),)

    def _shift(self, relation: Tensor) -> Tensor:
        """The row r, or −r for the reciprocal, whose id is r + |R|."""
        rows, back = self.shifts.read(relation % self.sizes.relations), relation >= self.sizes.relations
        return torch.where(back[:, None], -rows, rows)
