"""Pairwise models: a small network looks at head, relation and tail together, so nothing about a pair is known in advance."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from dura.models.comparators.filters import Filters
from dura.models.model import Model
from dura.models.neural import Defaults
from dura.tables import Packed, Table
from dura.types import BadInput, Sizes

PAIRS: Defaults = {
    "regularizer": {"name": "none"},
    "loss": {"name": "self-adversarial", "margin": 0.0, "temperature": 1.0},
    "candidates": {"name": "negatives", "count": 16},
    "optimizer": {"name": "adam", "lr": 1e-3},
    "training": {"batch": 500, "epochs": 30, "anneal": 10, "validate_every": 10, "patience": 2},
}
"""Settings that suit pairwise models: negatives, because all entities are too expensive, and few validations."""
NOISE = 0.01
"""How far the filters start from each other."""


class Decoder(nn.Module):
    """Filters over (h_i, r_i, t_i), ReLU, and one weight for each filter and number."""

    def __init__(self, filters: int, width: int) -> None:
        super().__init__()
        start = torch.tensor([[0.1], [0.1], [-0.1]])
        self.kernels = nn.Parameter(start + NOISE * torch.randn(3, filters))
        self.bias = nn.Parameter(torch.zeros(filters))
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(filters, width)))

    def query(self, x: Tensor, r: Tensor, back: Tensor) -> Tensor:
        """What `Filters` needs. Where `back` is true, x is a tail and the head is asked for."""
        a, b, c = self.kernels
        known, hole = (torch.where(back[:, None], *both) for both in ((c, a), (a, c)))
        sums = known[..., None] * x[:, None] + b[:, None] * r[:, None] + self.bias[:, None]
        return torch.cat([sums.flatten(1), hole, self.weight.flatten().expand(len(x), -1)], 1)


class ConvKB(Model):
    """Σ w_fi · ReLU(a_f·h_i + b_f·r_i + c_f·t_i + bias_f) over `filters` and numbers i.

    All filters start near (0.1, 0.1, −0.1), which looks at h + r − t. A question for the head uses the same formula, so there is
    one row per relation. Unlike the published program there is no dropout.
    """

    random = False
    state_is_all = True
    defaults: ClassVar[Defaults] = PAIRS
    entity: Table | Packed

    def __init__(self, sizes: Sizes, rank: int = 50, filters: int = 32) -> None:
        super().__init__(sizes, rank)
        if filters < 1:
            raise BadInput(f"model.filters is {filters}, but it is one or more")
        self.comparator = Filters(filters, rank)
        self.entity = Table(nn.init.xavier_normal_(torch.empty(sizes.entities, rank)))
        self.relations = Table(nn.init.xavier_normal_(torch.empty(sizes.relations, rank)))
        self.decoder = Decoder(filters, rank)

    @property
    def target_table(self) -> Table | Packed:
        """The entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What an export may pack."""
        return {"entity": self.entity}

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The sums of the filters before the tail is known, and the linear layer."""
        (rows,) = self.relation_rows(relation)
        query: Tensor = self.decoder.query(self.heads(head), rows, relation >= self.sizes.relations)
        return query

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The row of the relation itself, also for a reciprocal."""
        return (self.relations.read(relations % self.sizes.relations),)
