"""A neural model: the query is the output of a small network with dropout and batch norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from dura.models import Biased, Dot, Model
from dura.tables import Packed, Table
from dura.types import BadInput, Sizes


class MLP(Model):
    """<q, t> + b_t, where the query q is norm(dropout(relu(W·[h; r]))). Each entity has a bias b_t.

    The bias is the last number of the entity's row. Entities with equal rows then have equal scores, as ranking expects.
    """

    comparator = Biased(Dot())
    entity: Table | Packed

    def __init__(self, sizes: Sizes, rank: int = 200, dropout: float = 0.2) -> None:
        super().__init__(sizes, rank)
        if not 0 <= dropout < 1:
            raise BadInput(f"model.dropout is {dropout}, but it is a share of at least 0 and below 1")
        rows = torch.randn(sizes.entities, rank + 1) / rank**0.5
        rows[:, -1] = 0
        self.entity = Table(rows)
        self.relations = Table(torch.randn(2 * sizes.relations, rank) / rank**0.5)
        self.layer, self.dropout, self.norm = nn.Linear(2 * rank, rank), nn.Dropout(dropout), nn.BatchNorm1d(rank)

    @property
    def target_table(self) -> Table | Packed:
        """The entities' rows with their biases."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What `dura export` may make sparse or small."""
        return {"entity": self.entity}

    def heads(self, entities: Tensor) -> Tensor:
        """The rows without the bias."""
        return self.entity.read(entities)[:, :-1]

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The network's output. dura sets train or evaluation mode and seeds the dropout of each step."""
        both = torch.cat([self.heads(head), self.relations.read(relation)], 1)
        q: Tensor = self.norm(self.dropout(relu(self.layer(both))))
        return q
