"""KB-GAT: entities look at their neighbours by attention, and a decoder of filters then scores facts from what they became."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu, normalize

from dura.models.comparators import L1, Comparator, Filters
from dura.models.model import Model
from dura.models.neural import Defaults
from dura.models.pairwise import Decoder
from dura.tables import Table
from dura.types import BadInput, IntArray, Sizes

STAGES: Defaults = {
    "regularizer": {"name": "none"},
    "loss": {"name": "softmax"},
    "candidates": {"name": "negatives", "count": 16},
    "optimizer": {"name": "adam", "lr": 5e-3},
    "training": {"batch": 10_000, "epochs": 60, "validate_every": 20, "patience": 0},
}
"""A step goes over the whole graph, so batches are large. Nothing stops early: stage 2 begins below the end of stage 1."""


class KBGAT(Model):
    """Stage 1: −‖h'' + g' − t''‖₁, where neighbours have changed h and t by attention. Stage 2: ConvKB over these rows, now fixed.

    Stage 2 begins after `encoder_epochs`; a run with fewer epochs stays in stage 1. h'' is norm(h·W + what the neighbours say), and
    they say ELU(Σ α·(A·h_i + B·h_j + C·g)) over the facts of the entity. α is the softmax of −LeakyReLU(w·(…)). There are two
    layers, and the first has `heads` parts. `paths` adds this many random paths of two facts per entity, with the sum of their
    relations.

    Differences from the published program: tables start at random, not from TransE. Entities see facts from both sides, with −g
    from the other one. Every entity hears its neighbours, not only the tails of a batch. There is no dropout. Both stages share
    loss and learning rate. Negatives are filtered by training facts only. Scores of stage 1 use what neighbours said last.
    """

    random = False
    state_is_all = True
    defaults: ClassVar[Defaults] = STAGES
    stage: Tensor
    heard: Tensor
    fixed_entity: Tensor
    fixed_relation: Tensor

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 100,
        filters: int = 32,
        heads: int = 2,
        encoder_epochs: int = 40,
        paths: int = 0,
    ) -> None:
        super().__init__(sizes, rank)
        for key, number, least in (("filters", filters, 1), ("heads", heads, 1), ("paths", paths, 0)):
            if number < least:
                raise BadInput(f"model.{key} is {number}, but it is {least} or more")
        if rank % heads:
            raise BadInput(f"model.heads is {heads}, but it must divide the rank {rank}")
        if encoder_epochs < 0:
            raise BadInput(f"model.encoder_epochs is {encoder_epochs}, but it is zero or more")
        self.encoder_epochs, self.paths = encoder_epochs, paths
        self.entity = Table(nn.init.xavier_normal_(torch.empty(sizes.entities, rank)))
        self.relations = Table(nn.init.xavier_normal_(torch.empty(sizes.relations, rank)))
        self.first, self.second = Attention(rank, heads), Attention(rank, 1)
        self.by_relation = nn.Parameter(nn.init.xavier_normal_(torch.empty(rank, rank)))
        self.by_entity = nn.Parameter(nn.init.xavier_normal_(torch.empty(rank, rank)))
        self.decoder = Decoder(filters, rank)
        self.register_buffer("stage", torch.zeros((), dtype=torch.long))
        self.register_buffer("heard", torch.zeros(sizes.entities, rank))
        self.register_buffer("fixed_entity", torch.zeros(sizes.entities, rank))
        self.register_buffer("fixed_relation", torch.zeros(sizes.relations, rank))
        self._compared: tuple[Comparator, Comparator] = (L1(), Filters(filters, rank))
        self._edges: Edges | None = None
        self._encoded: tuple[object, Encoded] | None = None

    @property
    def comparator(self) -> Comparator:  # type: ignore[override]
        """That of the stage."""
        return self._compared[int(self.stage)]

    # -- training -------------------------------------------------------------------------------------------------

    def observe(self, facts: IntArray, times: Sequence[str]) -> None:
        """Who hears whom."""
        self._edges = Edges.of(facts, self.sizes, self.paths).to(self.device)

    def lesson(self, epoch: int, times: IntArray | None) -> IntArray | None:
        """All questions. The first epoch of stage 2 fixes the rows."""
        if epoch >= self.encoder_epochs and not int(self.stage):
            with torch.no_grad():
                self.heard.copy_(self._listen())
                self.fixed_entity.copy_(self._rows(self.heard))
                self.fixed_relation.copy_(self.relations @ self.by_relation)
                self.stage.fill_(1)
        return None

    def constrain(self) -> None:
        """Keep what neighbours said in this step, for scores without facts. Entities have the length 1."""
        if not int(self.stage) and self._encoded is not None:
            self.heard.copy_(self._encoded[1].heard)
            self.entity.copy_(normalize(self.entity))

    # -- scores ---------------------------------------------------------------------------------------------------

    @property
    def target_table(self) -> Table:
        """The rows of the encoder; fixed in stage 2."""
        return Table(self.fixed_entity, requires_grad=False) if int(self.stage) else self._encode()

    @property
    def target_width(self) -> int:
        """That of the rows in both stages."""
        return int(self.fixed_entity.shape[1])

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h'' + g', or h'' − g' for a reciprocal; in stage 2 the sums of the filters."""
        back = relation >= self.sizes.relations
        if int(self.stage):
            query: Tensor = self.decoder.query(self.heads(head), self._own(relation), back)
            return query
        return self.heads(head) + torch.where(back, -1.0, 1.0)[:, None] * self._own(relation)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """g', also for a reciprocal."""
        return (self._own(relations),)

    def _own(self, relation: Tensor) -> Tensor:
        """g' of the relation itself."""
        ids = relation % self.sizes.relations
        return self.fixed_relation[ids] if int(self.stage) else self.relations.read(ids) @ self.by_relation

    # -- the encoder ----------------------------------------------------------------------------------------------

    def _encode(self) -> Encoded:
        """The rows of all entities. They are computed once, until a parameter changes or their gradient was used."""
        grad = torch.is_grad_enabled()
        used = [*self.parameters(), self.heard] if not self.training else self.parameters()
        key = (self.training, grad, self._edges, [(id(tensor), tensor._version) for tensor in used])
        if self._encoded is None or self._encoded[0] != key or self._encoded[1].spent:
            heard = self._listen() if self.training else self.heard
            self._encoded = key, Encoded.of(self._rows(heard), self.by_entity, heard.detach())
        return self._encoded[1]

    def _rows(self, heard: Tensor) -> Tensor:
        return normalize(self._all(self.entity) @ self.by_entity + heard)

    def _listen(self) -> Tensor:
        """What the neighbours of every entity say."""
        if self._edges is None:
            return torch.zeros_like(self.heard)
        h, g = self._all(self.entity), self._all(self.relations)
        x = self.first(h, g, self._edges)
        heard: Tensor = self.second(x, g @ self.by_relation, self._edges)
        return heard

    @staticmethod
    def _all(table: Table) -> Tensor:
        return table.read(torch.arange(len(table), device=table.device))


class Attention(nn.Module):
    """ELU(Σ_e α_e·(A·x_i + B·x_j + C·g_e)) for each entity i and its edges e from j, with one part of the result per head."""

    def __init__(self, rank: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(3, rank, rank), gain=1.414))
        self.attend = nn.Parameter(nn.init.xavier_normal_(torch.empty(heads, rank // heads), gain=1.414))

    def forward(self, x: Tensor, g: Tensor, edges: Edges) -> Tensor:
        """What each entity hears. The product with w is taken before edges are, so that only numbers are added per edge."""
        parts = [
            (rows @ weight).unflatten(1, (self.heads, -1)) for rows, weight in zip((x, x, g), self.weight, strict=True)
        ]
        own, other, relation = parts
        i, j = edges.to_entity, edges.from_entity
        a, b, c = ((part * self.attend).sum(2) for part in parts)
        logit = -leaky_relu(a[i] + b[j] + edges.relation(c), 0.2)
        top = torch.zeros_like(a).scatter_reduce(
            0, i[:, None].expand_as(logit), logit.detach(), "amax", include_self=False
        )
        weight = (logit - top[i]).exp()
        total = torch.zeros_like(a).index_add(0, i, weight)
        alpha = weight / total[i]
        said = alpha[..., None] * (other[j] + edges.relation(relation))
        there = (total > 0)[..., None]
        return elu((own * there).index_add(0, i, said)).flatten(1)


class Edges:
    """Who hears whom through which relations: [e] entities, and [e, 1 or 2] relations, each added, subtracted or left out."""

    def __init__(self, to_entity: Tensor, from_entity: Tensor, relations: Tensor, signs: Tensor) -> None:
        self.to_entity, self.from_entity, self.relations, self.signs = to_entity, from_entity, relations, signs

    @classmethod
    def of(cls, facts: IntArray, sizes: Sizes, paths: int) -> Edges:
        """Each fact from both sides, ordered by the entity that hears, and `paths` random paths of two facts per entity."""
        h, r, t = facts[:, :3].T.astype(np.int64)
        i, j, k = np.concatenate([t, h]), np.concatenate([h, t]), np.concatenate([r, r])
        sign = np.repeat([1, -1], len(h))
        order = np.argsort(i, kind="stable")
        i, j, k, sign = i[order], j[order], k[order], sign[order]
        if paths:
            one, two = _paths(i, j, sizes.entities, paths)
            none = np.zeros_like(k)
            k = np.concatenate([np.stack([k, none], 1), np.stack([k[one], k[two]], 1)])
            sign = np.concatenate([np.stack([sign, none], 1), np.stack([sign[one], sign[two]], 1)])
            i, j = np.concatenate([i, i[one]]), np.concatenate([j, j[two]])
        shape = len(i), -1
        return cls(*(torch.from_numpy(x) for x in (i, j, k.reshape(shape), sign.reshape(shape))))

    def to(self, device: torch.device) -> Edges:
        """The same on another device."""
        return Edges(*(x.to(device) for x in (self.to_entity, self.from_entity, self.relations, self.signs)))

    def relation(self, rows: Tensor) -> Tensor:
        """The sum of each edge's relations [e, …] from one row per relation."""
        both = zip(self.relations.unbind(1), self.signs.unbind(1), strict=True)
        shape = (-1, *(1 for _ in rows.shape[1:]))
        first, *others = (rows[ids] * sign.to(rows.dtype).view(shape) for ids, sign in both)
        return sum(others, first)


def _paths(i: IntArray, j: IntArray, entities: int, paths: int) -> tuple[IntArray, IntArray]:
    """Random pairs of edges that follow each other and do not come back, as positions in the edges, which ascend by i."""
    rng, count = np.random.default_rng(0), np.bincount(i, minlength=entities)
    begin = np.cumsum(count) - count
    start = np.repeat(np.flatnonzero(count), paths)
    one = begin[start] + rng.integers(count[start])
    two = begin[j[one]] + rng.integers(count[j[one]])
    away = j[two] != start
    return one[away], two[away]


class Encoded(Table):
    """Rows that an encoder computed. Once all their gradients are collected, these flow through the encoder together.

    Targets collect gradients before backward runs, and queries while it runs. Each read depends on one token. Its backward runs
    last and goes through the encoder once.
    """

    token: Tensor
    live: Tensor
    heard: Tensor
    """What the neighbours said."""
    spent: bool

    @classmethod
    def of(cls, live: Tensor, anchor: Tensor, heard: Tensor) -> Encoded:
        """The rows `live`. `anchor` is any parameter: it ties the token to the graph of autograd."""
        table = cls(live.detach(), live.requires_grad)
        assert isinstance(table, Encoded)
        table.live, table.heard, table.spent = live, heard, False
        table.token = _Token.apply(anchor, ref(table)) if live.requires_grad else anchor  # type: ignore[no-untyped-call]
        return table

    def read(self, index: Tensor) -> Tensor:
        """As for any table; backward goes on to the token."""
        if not torch.is_grad_enabled():
            return self.detach().index_select(0, index)
        rows: Tensor = _ReadEncoded.apply(self.token, self, index)  # type: ignore[no-untyped-call]
        return rows


class _ReadEncoded(torch.autograd.Function):
    """As for `Table`, but what flows on is a zero that reaches the token."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, table: Encoded, index: Tensor) -> Tensor:  # noqa: ARG004
        ctx.table, ctx.index = table, index
        return table.detach().index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ctx.table.add_rows(ctx.index, gradients[0])
        return gradients[0].new_zeros(()), None, None


class _Token(torch.autograd.Function):
    """A zero whose backward takes the collected gradient through the encoder."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, table: ref[Encoded]) -> Tensor:
        # The table holds the token. If the token held the table, nothing could free this circle: it goes through autograd.
        ctx.table = table
        return anchor.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, None]:
        table = ctx.table()
        assert table is not None, "the model keeps the rows that it was asked for last"
        with torch.enable_grad():
            total = table.live.flatten() @ table.gradient().flatten()
        table.spent = True
        total.backward()
        return None, None
