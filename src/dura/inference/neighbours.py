"""Neighbours: the entities whose rows are nearest to the row of an entity, by the cosine of the angle between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.inference.answers import Wanted
from dura.inference.predict import check_finite, time_id
from dura.models import Model
from dura.text import printable, with_label
from dura.types import BadInput

if TYPE_CHECKING:
    import polars as pl

BLOCK = 1 << 12
"""How many rows are compared at a time."""


@dataclass(frozen=True)
class Neighbour:
    """An entity and how near its row is: 1 is the same direction, 0 a right angle, -1 the opposite one."""

    entity: str
    similarity: float
    rank: int
    label: str

    @property
    def shown(self) -> str:
        """The entity as it is printed."""
        return printable(with_label(self.entity, self.label))


@dataclass(frozen=True)
class Neighbours(Sequence[Neighbour]):
    """The entities nearest to one entity, the nearest first."""

    entity: str
    neighbours: tuple[Neighbour, ...]
    label: str
    relation: str | None = None
    time: str | None = None

    def __len__(self) -> int:
        return len(self.neighbours)

    def __getitem__(self, i: Any) -> Any:
        return self.neighbours[i]

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self.neighbours)

    def __repr__(self) -> str:
        width = max((len(n.shown) for n in self), default=0)
        name = with_label(self.entity, self.label)
        asked = ", ".join(part for part in (self.relation, self.time) if part)
        title = f"nearest to {name}" + (f" as the head of {asked}" if asked else "")
        return "\n".join([printable(title), *(f"{n.rank:>4}.  {n.shown:<{width}}  {n.similarity:.3f}" for n in self)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        asked = {"relation": self.relation, "time": self.time}
        given = {key: value for key, value in asked.items() if value is not None}
        return {"entity": self.entity, "label": self.label, **given, "neighbours": [dict(vars(n)) for n in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame with one row per neighbour."""
        import polars as pl

        return pl.DataFrame([dict(vars(n)) for n in self])


def neighbours(
    model: Model, graph: Graph, entity: str, k: int = 10, *, relation: str | None = None, time: str | None = None
) -> Neighbours:
    """The `k` entities whose rows have the highest cosine with the row of `entity`, without itself.

    The row of an entity is what the model keeps for it as a head, joined with what it keeps for it as a tail if that is another
    table. A complex number counts as its two parts. With a `relation`, the rows are the queries (entity, relation, ?) instead, at
    `time` if facts have times: near entities then get alike answers.
    """
    Wanted(k)  # refuses a wrong number
    rows = _Rows(model, graph, relation, time)
    asked = graph.entity(entity)
    best = _nearest(rows, asked, len(graph.entities), k)
    names = graph.entities.names([i for _, i in best])
    found = [
        Neighbour(name, score, rank, graph.label(name))
        for rank, (name, (score, _)) in enumerate(zip(names, best, strict=True), 1)
    ]
    name = graph.entities.name(asked)
    return Neighbours(name, tuple(found), graph.label(name), rows.relation, rows.time)


class _Rows:
    """The rows that are compared."""

    def __init__(self, model: Model, graph: Graph, relation: str | None, time: str | None) -> None:
        self.model, self.relation, self.time = model, None, None
        if relation is None:
            if time is not None:
                raise BadInput("a time is about a relation at that time; name the relation too (--relation)")
            return
        self._relation, self._time = graph.relation(relation), time_id(graph, time)
        self.relation = graph.relations.name(self._relation)
        self.time = None if graph.times is None else graph.times.names([self._time])[0] or None

    def read(self, ids: Tensor) -> Tensor:
        """The rows of these entities."""
        model, ids = self.model, ids.to(self.model.device)
        if self.relation is not None:
            one = torch.ones_like(ids)
            return model.query(ids, one * self._relation, one * self._time if model.temporal else None).float()
        return entity_rows(model, ids)


def entity_rows(model: Model, ids: Tensor) -> Tensor:
    """What the model keeps for these entities as heads, joined with what it keeps for them as tails if that is another table."""
    try:
        parts = [model.heads(ids)]
    except NotImplementedError:
        raise BadInput(
            f"the model {type(model).__name__} keeps no rows of entities; name a relation to compare queries (--relation)"
        ) from None
    if len(model.entity_tables) > 1 and model.target_table is not None:
        parts.append(model.target_table.read(ids))
    return torch.cat([part.flatten(1) for part in parts], 1).float()


def _nearest(rows: _Rows, asked: int, entities: int, k: int) -> list[tuple[float, int]]:
    """The cosines and ids of the nearest entities. The best ones so far are kept, so memory does not grow with the entities."""
    best, ids = torch.empty(0), torch.empty(0, dtype=torch.long)
    with rows.model.answering():
        own = unit(rows.read(torch.tensor([asked])))[0]
        check_finite(own)
        for at in range(0, entities, BLOCK):
            here = torch.arange(at, min(at + BLOCK, entities))
            cosines = (unit(rows.read(here)) @ own).cpu().clamp_(-1, 1)
            check_finite(cosines)
            other = here != asked
            best, ids = torch.cat([best, cosines[other]]), torch.cat([ids, here[other]])
            best, order = best.topk(min(k, len(best)))
            ids = ids[order]
    return list(zip(best.tolist(), ids.tolist(), strict=True))


def unit(rows: Tensor) -> Tensor:
    """Rows of length one; a row of zeros stays as it is."""
    return torch.nn.functional.normalize(rows, dim=1, eps=1e-30)
