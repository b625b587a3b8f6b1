"""The temporal models: the same families, with a relation that depends on the time.

A fact at time τ has the relation ρ(r, τ); everything else is that of the static model. Each distinct pair (r, τ) of a batch is
combined once, however many facts have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from dura.models.families import ComplexDiagonal, Dense, Products, Relations, Rows, as_complex, as_real
from dura.models.model import SemanticMatching
from dura.tables.table import Table
from dura.types import BadInput, Factors, Sizes


class Temporal(SemanticMatching):
    """A table of times beside those of entities and relations; `relation` says what ρ is."""

    temporal = True

    def __init__(self, sizes: Sizes, rank: int, init_scale: float) -> None:
        if sizes.times < 1:
            raise BadInput(
                "a temporal model needs a graph whose facts have times; name the column of times, or take a static model"
            )
        super().__init__(sizes, rank, init_scale)

    def add_tables(self) -> None:
        """One row a time, shaped like a relation."""
        super().add_tables()
        self.times = Table(torch.empty(self.sizes.times, *self.family.shape(self.rank)))

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """As for any model; where relations are diagonal also with relation and time apart."""
        both = super().factors(head, relation, question, answers, time)
        assert time is not None
        rows = {"relation": Rows(self.relations, relation), "time": Rows(self.times, time)}

        def apart(which: Literal["relation", "time"]) -> tuple[Tensor, Tensor]:
            squares = self.family.tail_squares(both.tail, rows[which], question, (0.0, 1.0))
            assert squares is not None
            return self.family.apply(both.head, rows[which]), squares

        return replace(both, read_apart=apart if self.family.diagonal else None)


class TComplEx(Temporal):
    """Re<ē∘r∘τ∘e> over complex numbers."""

    family = ComplexDiagonal()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-2) -> None:
        super().__init__(sizes, rank, init_scale)

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:
        """The distinct pairs (r, τ) among these, each combined once, and which one each item uses."""
        assert time is not None
        pairs, index = torch.unique(relation * self.sizes.times + time, return_inverse=True)
        r, t = pairs.div(self.sizes.times, rounding_mode="floor"), pairs.remainder(self.sizes.times)
        parts = self.combine(r, t)
        return Rows(sum(parts[1:], start=parts[0]), index, parts)

    def combine(self, relation: Tensor, time: Tensor) -> tuple[Tensor, ...]:
        """The parts whose sum is ρ: r∘τ alone."""
        return (as_real(as_complex(self.relations.read(relation)) * as_complex(self.times.read(time))),)


class TNTComplEx(TComplEx):
    """TComplEx with a part that does not change: ρ = r∘τ + r′, from two tables of relations."""

    def add_tables(self) -> None:
        """A second table of relations."""
        super().add_tables()
        self.untimed = Table(torch.empty_like(self.relations))

    def combine(self, relation: Tensor, time: Tensor) -> tuple[Tensor, ...]:
        """ρ = r∘τ + r′."""
        return (*super().combine(relation, time), self.untimed.read(relation))


class TRESCAL(Temporal):
    """h (R∘T) tᵀ with a full matrix a time: |T|·d² numbers."""

    family = Dense()

    def __init__(self, sizes: Sizes, rank: int = 100, init_scale: float = 0.0) -> None:
        super().__init__(sizes, rank, init_scale)

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:
        """ρ = R∘T, made where it is needed: pairs of relation and time are nearly as many as questions."""
        assert time is not None
        return Products(((self.relations, relation), (self.times, time)))
