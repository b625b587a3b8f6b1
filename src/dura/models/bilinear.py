"""Semantic matching: a relation acts linearly on the head's row, which then meets the tail's row. Families say how it acts.

They meet in an inner product, <h·R̄, t>. The dual of such a model scores by −‖h·R̄ − t‖² instead (`comparator = "distance"`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from dura.models.comparators import SquaredL2
from dura.models.families import Facts, Family, Relations, Rows
from dura.models.model import Ask, Model
from dura.tables import Packed, Runs, Sharded, Table, entity_table, fill
from dura.types import BadInput, Factors, Sizes

_CAREFUL = (("random", True), ("state_is_all", False))
Meeting = Literal["dot", "distance"]
"""How a query meets its targets: in an inner product, or by the negative squared distance."""


class SemanticMatching(Model):
    """Static and temporal models differ only in `relation`, which says what R is.

    A concrete model sets `family`, `shared` (one table for heads and tails) and how its tables start. If its entity tables are
    packed, it answers like any other model but cannot be trained. With `comparator = "distance"` it can only be asked for
    entities: a squared distance is not linear in the relation.
    """

    family: Family
    shared: bool = True
    adjoint = True
    holes: tuple[Ask, ...] = ("relations",)
    random = False
    state_is_all = True
    renamed = {"answer": "tail"}  # noqa: RUF012
    entity: Table | Packed
    tail: Table | Packed
    """The entities as tails, if tails have a separate table."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "family" in vars(cls):
            cls.diagonal = cls.family.diagonal
        if not cls.__module__.startswith(
            "dura."
        ):  # another package's class may draw, or compute what is not in its state
            cls.random, cls.state_is_all = (vars(cls).get(name, other) for name, other in _CAREFUL)

    def __init__(self, sizes: Sizes, rank: int, init_scale: float, comparator: Meeting = "dot") -> None:
        super().__init__(sizes, rank)
        if not init_scale >= 0:
            raise BadInput(f"model.init_scale is {init_scale}, but a scale is zero or more")
        if comparator == "distance":
            self.comparator, self.holes = SquaredL2(), ()
        self.add_tables()
        self.reset(init_scale)

    def add_tables(self) -> None:
        """Make the tables, not yet filled."""
        width = self.family.width(self.rank)
        self.entity = entity_table(self.sizes.entities, width)
        if not self.shared:
            self.tail = entity_table(self.sizes.entities, width)
        self.relations = Table(torch.empty(2 * self.sizes.relations, *self.family.shape(self.rank)))

    def reset(self, scale: float) -> None:
        """Fill every table from N(0, 1) · scale, or by Xavier's rule if the scale is 0 (each row counts as one line)."""
        for table in self.parameters():
            if table.is_meta:
                continue
            fill(table, scale)

    @property
    def target_table(self) -> Table | Packed:
        """The table of tails. It is also that of the heads if the model shares one table."""
        return self.entity if self.shared else self.tail

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """Heads and tails."""
        return {"entity": self.entity} | ({} if self.shared else {"tail": self.tail})

    def heads(self, entities: Tensor) -> Tensor:
        """The rows of these entities as heads."""
        return self.entity.read(entities)

    def fetch(self, heads: Sequence[Tensor], answers: Sequence[Tensor]) -> None:
        """Bring the rows that each shard will read in this step: those of its heads and of its answers, if they are needed."""
        if isinstance(self.entity, Sharded):
            shared = zip(heads, answers, strict=True) if self.shared else ((ids,) for ids in heads)
            self.entity.fetch([torch.cat(ids).unique() for ids in shared])
        if not self.shared and isinstance(self.tail, Sharded):
            self.tail.fetch([ids.unique() for ids in answers])

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:
        """Which row of the relations' table each item uses."""
        return Rows(self.relations, relation)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h·R̄."""
        return self.family.apply(self.heads(head), self.relation(relation, time))

    def reverse(self, tail: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """t·Rᵀ."""
        return self.family.adjoint(self.target_table.read(tail), self.relation(relation, time))

    def between(
        self,
        ask: Ask,
        head: Tensor,
        relation: Tensor,
        tail: Tensor,
        time: Tensor | None = None,
    ) -> tuple[Tensor, Table]:
        """A score is linear in R, so the relations are the rows that the product of head and tail meets."""
        assert ask == "relations" and ask in self.holes
        return self.family.between(self.heads(head), self.target_table.read(tail)), self.relations

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """The factors of a batch. Rows that the regularizer does not read are never computed."""
        relations, h = self.relation(relation, time), self.heads(head)
        counts = torch.bincount(question, minlength=len(head)).to(h.dtype)
        plain = type(self).query is SemanticMatching.query  # then rows that were read need not be read again

        def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
            distinct, facts = relations.distinct(question)
            return distinct, facts.to(h.dtype)

        @cache  # not through the Factors: a cycle of references would keep every batch until the next garbage collection
        def tail() -> Tensor:
            return self.target_table.read(answers)

        facts = self.by_tail(question, answers)
        return Factors(
            head=h,
            query=self.family.apply(h, relations) if plain else self.query(head, relation, time),
            counts=counts,
            question=question,
            complex=self.family.complex,
            read_tail=tail,
            read_reverse=lambda: self.family.adjoint(tail(), relations.at(question)),
            read_onward=lambda: self.family.apply(tail(), relations.at(question)),
            read_relation=relation_and_counts,
            read_tail_squares=lambda *weights: self.family.tail_squares(facts(relations), weights),
        )

    def by_tail(self, question: Tensor, answers: Tensor) -> Callable[[Relations], Facts]:
        """Facts by their tails, each row of which is read once, for any relations of their questions."""

        @cache
        def rows() -> tuple[Tensor, Runs]:
            distinct, runs = Runs.by(answers)
            return self.target_table.read(distinct), runs

        return lambda relations: Facts(rows, relations, question)
