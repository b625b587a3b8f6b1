"""Model: a fact is scored as `compare(query(head, relation), tails)`. Everything else derives from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

import torch
from torch import Tensor, nn

from dura.models.families import Family, Relations, Rows
from dura.table import Table
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

    def compare(self, query: Tensor, targets: Tensor, out: Tensor | None = None) -> Tensor:
        """The scores of queries [m, w] against targets [n, w]: [m, n]."""
        return torch.mm(query, targets.mT, out=out)

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
        """The score of each fact [b]: what `compare` gives for its query and its tail."""


class SemanticMatching(Model):
    """Scores are inner products. Families say how R acts; `relation` says what R is: static and temporal models differ only there.

    A concrete model sets `family` and `shared` (one table for heads and tails) and how its tables start.
    """

    family: Family
    shared: bool = True

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
        return self.entity if self.shared else self.answer

    def heads(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as heads."""
        return self.entity if entities is None else self.entity.read(entities)

    def tails(self, entities: Tensor | None = None) -> Tensor:
        """The rows of these entities as tails."""
        return self.tail_table if entities is None else self.tail_table.read(entities)

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
