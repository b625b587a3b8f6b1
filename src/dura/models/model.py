"""Model: a fact is scored as `compare(query(head, relation), tails)`. Everything else derives from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

import torch
from torch import Tensor, nn

from dura.models.families import Family, Relations, Rows
from dura.tables.packed import Packed
from dura.tables.table import Table
from dura.types import BadInput, Factors, Sizes

LARGEST_RANK = 100_000


class Model(nn.Module, ABC):
    """What training, ranking and prediction may ask of a model. Ids are 1-d integer tensors, one row each.

    Relations r + |R| are the reciprocals: (t, r + |R|, ?) asks for the head of (?, r, t).
    """

    sizes: Sizes
    rank: int
    temporal: bool = False
    """True where facts have times, and every question with them."""

    @property
    @abstractmethod
    def tail_table(self) -> Table:
        """The table of all tails [|E|, w], whose gradient the objective adds to in place."""

    @abstractmethod
    def heads(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as heads, all where none are named."""

    @abstractmethod
    def tails(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as tails, all where none are named."""

    @abstractmethod
    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """Asks (head, relation, ?), at these times: [b, w]."""

    @abstractmethod
    def reverse(self, tail: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """Asks (?, relation, tail) of the same parameters, without the reciprocal relation: [b, w]."""

    @abstractmethod
    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """The query and all that a regularizer may look at, for questions (head, relation) and the facts
        (question[i], answers[i])."""

    def targets(self) -> Tensor | Packed:
        """What queries are compared with: the rows of all tails, or their packed form."""
        return self.tails()

    def compare(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores of queries [m, w] against targets [n, w]: [m, n]."""
        return targets.compare(query, out) if isinstance(targets, Packed) else torch.mm(query, targets.mT, out=out)

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
        """The score of each fact [b]: what `compare` gives for its query and its tail."""


class SemanticMatching(Model):
    """Scores are inner products. Families say how R acts; `relation` says what R is: static and temporal models differ only there.

    A concrete model sets `family` and `shared` (one table for heads and tails) and how its tables start.
    Where the tables of entities are packed, the model answers as any other but cannot be trained.
    """

    family: Family
    shared: bool = True
    entity: Table | Packed
    answer: Table | Packed
    """The entities as tails, where they have a table of their own."""

    def __init__(self, sizes: Sizes, rank: int, init_scale: float) -> None:
        super().__init__()
        if not 1 <= rank <= LARGEST_RANK:
            raise BadInput(f"model.rank is {rank}, but an embedding has 1 to {LARGEST_RANK:,} dimensions")
        if not init_scale >= 0:
            raise BadInput(f"model.init_scale is {init_scale}, but a scale is zero or more")
        self.sizes, self.rank = sizes, rank
        self.add_tables()
        self.reset(init_scale)

    def add_tables(self) -> None:
        """Make the tables, not yet filled."""
        width = self.family.width(self.rank)
        self.entity = Table(torch.empty(self.sizes.entities, width))
        if not self.shared:
            self.answer = Table(torch.empty(self.sizes.entities, width))
        self.relations = Table(torch.empty(2 * self.sizes.relations, *self.family.shape(self.rank)))

    def reset(self, scale: float) -> None:
        """Draw every table from N(0, 1) · scale, or where that is 0 by Xavier's rule, one row a line."""
        for table in self.parameters():
            if scale:
                nn.init.normal_(table, std=scale)
            else:
                nn.init.xavier_uniform_(table.data.flatten(1))

    @property
    def tail_table(self) -> Table:
        """The table of all tails; the heads' own where the model shares one."""
        table = self.entity if self.shared else self.answer
        if isinstance(table, Packed):
            raise BadInput("the tables of this model are packed, so it can be asked but not trained")
        return table

    def heads(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as heads."""
        return _rows(self.entity, entities)

    def tails(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as tails."""
        return _rows(self.entity if self.shared else self.answer, entities)

    def targets(self) -> Tensor | Packed:
        """The table of all tails as it is."""
        return self.entity if self.shared else self.answer

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:  # noqa: ARG002
        """Which row of the relations' table each item uses."""
        return Rows(self.relations, relation)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h·R̄."""
        return self.family.apply(self.heads(head), self.relation(relation, time))

    def reverse(self, tail: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """t·Rᵀ."""
        return self.family.adjoint(self.tails(tail), self.relation(relation, time))

    def score(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
        """<query, tail>, one inner product a fact."""
        return (self.query(head, relation, time) * self.tails(tail)).sum(1)

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """The factors of a batch; rows that the regularizer never reads are never computed."""
        relations, h = self.relation(relation, time), self.heads(head)
        counts = torch.bincount(question, minlength=len(head)).to(h.dtype)

        def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
            distinct, facts = relations.distinct(question)
            return distinct, facts.to(h.dtype)

        @cache  # not through the Factors: a cycle of references would keep every batch until the next garbage collection
        def tail() -> Tensor:
            return self.tails(answers)

        return Factors(
            head=h,
            query=self.family.apply(h, relations),
            counts=counts,
            question=question,
            complex=self.family.complex,
            read_tail=tail,
            read_reverse=lambda: self.family.adjoint(tail(), relations.at(question)),
            read_relation=relation_and_counts,
            read_tail_squares=lambda *weights: self.family.tail_squares(tail(), relations, question, weights),
        )


def _rows(table: Table | Packed, entities: Tensor | None) -> Tensor:
    """These rows of a table, or all of them."""
    if entities is not None:
        return table.read(entities)
    return table.unpacked() if isinstance(table, Packed) else table
