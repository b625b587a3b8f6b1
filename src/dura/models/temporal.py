"""The temporal models: the same families, with a relation that depends on the time.

A fact at time τ has the relation ρ(r, τ). Everything else is as in the static model. Each distinct pair (r, τ) of a batch is
combined once, even if many facts share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from dura.models.bilinear import Meeting, SemanticMatching
from dura.models.families import ComplexDiagonal, Dense, Products, Relations, Rows, as_complex, as_real
from dura.models.model import Ask
from dura.tables import Table
from dura.types import BadInput, Factors, Sizes


def check_times(sizes: Sizes) -> None:
    """Refuse a graph without times."""
    if sizes.times < 1:
        raise BadInput(
            "a temporal model needs a graph whose facts have times; name the column of times, or use a static model"
        )


TimeStart = Literal["random", "ones"]
"""How the rows of times start: like all other tables, or as ones, so that at first a relation is the same at all times."""


class Temporal(SemanticMatching):
    """Adds a table of times. `relation` says what ρ is."""

    temporal = True
    apart = True
    holes: tuple[Ask, ...] = ("relations", "times")

    def __init__(
        self,
        sizes: Sizes,
        rank: int,
        init_scale: float,
        comparator: Meeting = "dot",
        time_init: TimeStart = "random",
    ) -> None:
        check_times(sizes)
        super().__init__(sizes, rank, init_scale, comparator)
        if time_init == "ones" and not self.times.is_meta:
            with torch.no_grad():
                self.times.zero_()[..., :: 2 if self.family.complex else 1] = 1

    def add_tables(self) -> None:
        """One row per time, shaped like a relation."""
        super().add_tables()
        self.times = Table(torch.empty(self.sizes.times, *self.family.shape(self.rank)))

    @property
    def timeline(self) -> tuple[Table, int]:
        """All times."""
        return self.times, 2 if self.family.complex else 1

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """As for any model. Diagonal models also give the products with the relation alone and with the time alone."""
        both = super().factors(head, relation, question, answers, time)
        assert time is not None
        rows = {"relation": Rows(self.relations, relation), "time": Rows(self.times, time)}
        facts = self.by_tail(question, answers)

        def apart(which: Literal["relation", "time"]) -> tuple[Tensor, Tensor]:
            squares = self.family.tail_squares(facts(rows[which]), (0.0, 1.0))
            assert squares is not None
            return self.family.apply(both.head, rows[which]), squares

        return replace(both, read_apart=apart if self.family.diagonal else None)

    def between(
        self, ask: Ask, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None
    ) -> tuple[Tensor, Table]:
        """ρ is linear in the relation and in the time; the other one is multiplied to the product of head and tail."""
        assert time is not None and ask in self.holes
        met = self.family.between(self.heads(head), self.target_table.read(tail))
        other, table = (self.times.read(time), self.relations) if ask == "relations" else (
            self.relations.read(relation), self.times
        )  # fmt: skip
        return self.times_conjugate(met, other.flatten(1)), table

    def times_conjugate(self, x: Tensor, other: Tensor) -> Tensor:
        """x∘other, with the conjugate of `other` if numbers are complex: <x, a∘b> = <times_conjugate(x, b), a>."""
        return as_real(as_complex(x) * as_complex(other).conj()) if self.family.complex else x * other


class TComplEx(Temporal):
    """Re<ē∘r∘τ∘e> over complex numbers."""

    family = ComplexDiagonal()

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 200,
        init_scale: float = 1e-2,
        comparator: Meeting = "dot",
        time_init: TimeStart = "random",
    ) -> None:
        super().__init__(sizes, rank, init_scale, comparator, time_init)

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:
        """The distinct pairs (r, τ), each combined once, and the pair of each item."""
        assert time is not None
        pairs, index = torch.unique(relation * self.sizes.times + time, return_inverse=True)
        r, t = pairs.div(self.sizes.times, rounding_mode="floor"), pairs.remainder(self.sizes.times)
        parts = self.combine(r, t)
        return Rows(sum(parts[1:], start=parts[0]), index, parts)

    def combine(self, relation: Tensor, time: Tensor) -> tuple[Tensor, ...]:
        """The parts whose sum is ρ: r∘τ alone."""
        return (as_real(as_complex(self.relations.read(relation)) * as_complex(self.times.read(time))),)


class TNTComplEx(TComplEx):
    """TComplEx with a part that does not change over time: ρ = r∘τ + r′, from two tables of relations."""

    apart = False
    # Relations would need both tables at once. For times r′ is the same, so it does not count.
    holes: tuple[Ask, ...] = ("times",)

    def add_tables(self) -> None:
        """A second table of relations."""
        super().add_tables()
        self.untimed = Table(torch.empty_like(self.relations))

    def combine(self, relation: Tensor, time: Tensor) -> tuple[Tensor, ...]:
        """ρ = r∘τ + r′."""
        return (*super().combine(relation, time), self.untimed.read(relation))


class TRESCAL(Temporal):
    """h (R∘T) tᵀ with a full matrix per time: |T|·d² numbers."""

    family = Dense()
    # Ones are not the default of the constructor: settings of older runs and presets do not say how their times start.
    # Squares of differences of rank² numbers are a far heavier penalty than the cubes of other models.
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"time_init": "ones"},
        "smoothness": {"weight": 0.001},
    }

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 100,
        init_scale: float = 0.0,
        comparator: Meeting = "dot",
        time_init: TimeStart = "random",
    ) -> None:
        super().__init__(sizes, rank, init_scale, comparator, time_init)

    def relation(self, relation: Tensor, time: Tensor | None = None) -> Relations:
        """ρ = R∘T, computed where it is needed: there are nearly as many pairs of relation and time as questions."""
        assert time is not None
        return Products(((self.relations, relation), (self.times, time)))
