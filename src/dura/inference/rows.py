"""Rows: the gradient of a fact's log-probability by the rows of its entities, one gradient per fact.

Training adds up the gradients of a batch. Here each fact keeps its own. Queries, targets, scores and their gradients are those of
the model and its comparator, so every model works whose entities have rows of their own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dura.models import Model
from dura.tables import Fixed, Packed, Table
from dura.types import IntArray


@dataclass(frozen=True)
class Asked:
    """Facts that are asked for their tails: item i of each column belongs to fact i."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    time: Tensor | None

    @classmethod
    def of(cls, facts: IntArray, device: torch.device) -> Asked:
        """From facts [n, 3 or 4]."""
        columns = torch.from_numpy(facts.astype(np.int64)).to(device).unbind(1)
        return cls(columns[0], columns[1], columns[2], columns[3] if len(columns) > 3 else None)

    def part(self, at: Tensor) -> Asked:
        """The facts at these positions."""
        return Asked(self.head[at], self.relation[at], self.tail[at], None if self.time is None else self.time[at])


class _Doubled(Table):
    """A table with a further row per fact of a batch: row `first` + i is a copy of an entity's row for fact i alone.

    So the gradient of each fact can be told from those of the others, in whatever order a model reads rows. The rows of the table
    itself are not copied, and those of a packed table are read when they are needed.
    """

    source: Table | Packed
    first: int
    entities: Tensor
    copies: Tensor | None

    @classmethod
    def of(cls, source: Table | Packed, first: int) -> _Doubled:
        """The rows of `source`; those from `first` on are copies."""
        table = cls(source.detach() if isinstance(source, Table) else torch.empty(0), requires_grad=False)
        table.source, table.first, table.copies = source, first, None
        return table

    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`."""
        copied = index >= self.first
        if not copied.any():
            return self.source.read(index).detach()
        place = (index - self.first).clamp(min=0)
        rows = self.source.read(torch.where(copied, self.entities[place], index)).detach()
        return rows if self.copies is None else torch.where(copied[:, None], self.copies[place], rows)


class EntityRows:
    """Gradients by rows of entities. The model itself is never changed: a shallow copy of it has doubled tables."""

    def __init__(self, model: Model) -> None:
        self._model = copy.copy(model)
        self._model._parameters = dict(model._parameters)
        own = model.entity_tables
        tables = {name: table for name, table in model._parameters.items() if isinstance(table, Table)} | own
        self._first = max(len(table) for table in tables.values())  # ids from here on mean nothing to any table
        self._tables, self._entity_tables, self._width = [], [], 0
        for name, table in tables.items():
            doubled = _Doubled.of(table, self._first)
            place = self._model._parameters if name in self._model._parameters else self._model.__dict__
            place[name] = doubled
            self._tables.append(doubled)
            if name in own:
                self._entity_tables.append(doubled)
                self._width += int(table.shape[1])

    @property
    def entities(self) -> int:
        """How many entities there are."""
        return self._model.sizes.entities

    @property
    def width(self) -> int:
        """How many numbers an entity has in all its tables."""
        return self._width

    def by_head(self, facts: Asked, others: Tensor, weight: float = 1.0) -> Tensor:
        """The gradient of the log-probability of each fact among `others`, by the row of its head [n, w].

        Each of the other entities counts `weight` times.
        """
        query, copies = self._watch(facts.head, lambda ids: self._model.query(ids, facts.relation, facts.time))
        slopes = torch.empty_like(query)
        for at in self._groups(facts):
            slopes[at] = self._by_query(query[at].detach(), facts.part(at), others, weight)
        return _pulled(query, copies, slopes)

    def by_tail(self, facts: Asked, others: Tensor, weight: float = 1.0) -> Tensor:
        """The same by the row of its tail."""
        with torch.no_grad():
            query = self._model.query(facts.head, facts.relation, facts.time)
            left = query.new_empty(len(query))
            for at in self._groups(facts):
                left[at] = 1 - self._chances(query[at], facts.part(at), others, weight)[0][:, 0]
        targets, copies = self._watch(facts.tail, lambda ids: self._targets(replace(facts, tail=ids)))
        return _pulled(targets, copies, self._model.comparator.pull_pairs(left, query, targets.detach())[1])

    def _groups(self, facts: Asked) -> list[Tensor]:
        """The positions of the facts that share their targets: all of them, unless targets depend on the relation or the time."""
        keys = [key for name in self._model.grouped_by if (key := getattr(facts, name)) is not None]
        if not keys:
            return [torch.arange(len(facts.head), device=facts.head.device)]
        group = torch.unique(torch.stack(keys), dim=1, return_inverse=True)[1]
        return [(group == number).nonzero().flatten() for number in group.unique()]

    def _targets(self, facts: Asked) -> Tensor:
        targets = self._model.targets(facts.tail, facts.relation, facts.time)
        assert isinstance(targets, Tensor)
        return targets

    @torch.no_grad()
    def _chances(self, query: Tensor, facts: Asked, others: Tensor, weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """The probabilities of the fact and of the others [n, 1 + m], the rows of the others, and those of the answers."""
        time = None if facts.time is None else facts.time[:1]
        rows, own = self._model.targets(others, facts.relation[:1], time), self._targets(facts)
        assert isinstance(rows, Tensor)
        scores = self._model.compare(query, rows) + math.log(weight)
        scores.masked_fill_(facts.tail[:, None] == others, -torch.inf)
        both = torch.cat([self._model.comparator.pairs(query, own)[:, None], scores], 1)
        return torch.softmax(both, 1), rows, own

    @torch.no_grad()
    def _by_query(self, query: Tensor, facts: Asked, others: Tensor, weight: float) -> Tensor:
        """The gradient of the log-probabilities by the queries."""
        chances, rows, own = self._chances(query, facts, others, weight)
        comparator = self._model.comparator
        by_others = comparator.pull(-chances[:, 1:], query, Fixed(rows))
        return by_others + comparator.pull_pairs(1 - chances[:, 0], query, own)[0]

    def _watch(self, entities: Tensor, read: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The value of `read` for copies of these entities, with a graph back to the rows of the copies, which come too."""
        for table in self._tables:
            table.entities, table.copies = entities, None
        for table in self._entity_tables:
            table.copies = table.source.read(entities).detach().requires_grad_()
        with torch.enable_grad():
            value = read(self._first + torch.arange(len(entities), device=entities.device))
        return value, [table.copies for table in self._entity_tables if table.copies is not None]


def _pulled(value: Tensor, copies: list[Tensor], slopes: Tensor) -> Tensor:
    """The gradient by the rows of the copies, those of all tables side by side [n, w]."""
    found = torch.autograd.grad(value, copies, slopes, allow_unused=True)
    pairs = zip(copies, found, strict=True)
    return torch.cat([torch.zeros_like(rows) if gradient is None else gradient for rows, gradient in pairs], 1)
