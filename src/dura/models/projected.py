"""Distance models that project both entities of a fact before they compare them.

The reciprocal of a relation projects in the same way and moves back, so all three models keep one set of rows per relation, and a
fact has the same score from both sides.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dura.models.comparators import L1, L2, Hyperplane, Pushed, SquaredL2
from dura.models.distance import SAMPLED, Defaults, Moving, sign, uniform
from dura.models.families import Rows, grouped
from dura.tables import Table
from dura.types import BadInput, Sizes

ORTHOGONAL = 1e-5
"""TransH's ε: a shift may have this share of its length along the normal of the plane."""


class TransH(Moving):
    """−‖h⊥ + d − t⊥‖², where e⊥ = e − <w, e>·w: a relation shifts heads to tails within a plane with the normal w.

    Entities with one projection can have different rows, which helps relations with many answers. `norm = "l2"` is the distance
    without the square. `constraint` is the weight of the soft constraints ‖e‖ ≤ 1 and d ⊥ w.
    """

    defaults: ClassVar[Defaults] = SAMPLED

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 200,
        norm: Literal["squared", "l2"] = "squared",
        constraint: float = 0.25,
    ) -> None:
        super().__init__(sizes, rank, rank, _unit(rank))
        if not constraint >= 0:
            raise BadInput(f"model.constraint is {constraint}, but a weight is zero or more")
        self.comparator, self.constraint = Hyperplane(squared=norm == "squared"), constraint
        self.relations = uniform(sizes.relations, 2 * rank, _unit(rank))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """[h⊥ + d, w], or [h⊥ − d, w] for a reciprocal."""
        h, (d, w) = self.heads(head), self._shift_and_normal(relation)
        return torch.cat([h - (h * w).sum(1, keepdim=True) * w + d * sign(relation, self.sizes), w], 1)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """Shift and normal, as they are stored."""
        return (self.relations.read(relations % self.sizes.relations),)

    def penalty(self, head: Tensor, relation: Tensor, answers: Tensor, time: Tensor | None) -> Tensor | None:
        """constraint · ([‖h‖² − 1]₊ + [‖t‖² − 1]₊ + [<w, d>²/‖d‖² − ε²]₊), the mean over facts."""
        if not self.constraint:
            return None
        lengths = self.heads(torch.cat([head, answers])).square().sum(1)
        d, w = self._shift_and_normal(relation)
        along = (w * d).sum(1).square() / d.square().sum(1).clamp(min=1e-30)
        total = torch.relu(lengths - 1).sum() + torch.relu(along - ORTHOGONAL**2).sum()
        return total * (self.constraint / max(1, len(head)))

    def _shift_and_normal(self, relation: Tensor) -> tuple[Tensor, Tensor]:
        d, w = self.relation_rows(relation)[0].chunk(2, 1)
        return d, normalize(w, dim=1)


class TransD(Moving):
    """−‖h' + r − t'‖², where e' = e + <e_p, e>·r_p: a relation pushes each entity along its own vector, each by another length.

    As in the paper, no projected vector is longer than 1: e' is shortened where it is, and e and r after each step.
    `norm = "l2"` is the distance without the square.
    """

    defaults: ClassVar[Defaults] = SAMPLED

    def __init__(self, sizes: Sizes, rank: int = 200, norm: Literal["squared", "l2"] = "squared") -> None:
        super().__init__(sizes, rank, 2 * rank, _unit(rank))
        self.comparator = Pushed(squared=norm == "squared")
        self.relations = uniform(sizes.relations, 2 * rank, _unit(rank))

    @property
    def target_table(self) -> None:
        """None: targets are computed."""
        return None

    def heads(self, entities: Tensor) -> Tensor:
        """[e, e_p], as they are stored."""
        return self.entity.read(entities)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """[e, <e_p, e>]: what a relation needs to know of an entity."""
        e, own = self.heads(_all(self.sizes, self.device) if entities is None else entities).chunk(2, 1)
        return torch.cat([e, (e * own).sum(1, keepdim=True)], 1)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """[h' + r, r_p], or [h' − r, r_p] for a reciprocal."""
        e, own = self.heads(head).chunk(2, 1)
        r, push = self.relation_rows(relation)[0].chunk(2, 1)
        moved = e + (e * own).sum(1, keepdim=True) * push
        moved = moved * moved.square().sum(1, keepdim=True).clamp(min=1).rsqrt()
        return torch.cat([moved + r * sign(relation, self.sizes), push], 1)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """[r, r_p], as they are stored."""
        return (self.relations.read(relations % self.sizes.relations),)

    def constrain(self) -> None:
        """Shorten entities and shifts that are longer than 1."""
        for table in (self.entity, self.relations):
            assert isinstance(table, Table)
            rows = table.detach()[:, : self.rank]
            lengths = torch.linalg.vector_norm(rows, dim=1)
            long = (lengths > 1).nonzero().flatten()
            rows[long] /= lengths[long, None]


class SE(Moving):
    """−‖A·h − B·t‖: a relation has one matrix for heads and one for tails. `norm` is the norm of the distance.

    The matrices of a relation are its own row and that of its reciprocal, which swaps them. They start near the identity.
    """

    defaults: ClassVar[Defaults] = SAMPLED
    grouped_by: ClassVar[tuple[Literal["relation", "time"], ...]] = ("relation",)

    def __init__(self, sizes: Sizes, rank: int = 50, norm: Literal["l1", "l2", "squared"] = "l1") -> None:
        super().__init__(sizes, rank, rank, _unit(rank))
        self.comparator = {"l1": L1(), "l2": L2(), "squared": SquaredL2()}[norm]
        near = uniform(2 * sizes.relations, rank * rank, 0.1 * _unit(rank)).detach().view(-1, rank, rank)
        self.relations = Table(near + torch.eye(rank))

    @property
    def target_table(self) -> None:
        """None: targets are computed."""
        return None

    def heads(self, entities: Tensor) -> Tensor:
        """The rows as they are stored."""
        return self.entity.read(entities)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """B·t for the matrix of each relation's other side."""
        assert relation is not None
        rows = self.heads(_all(self.sizes, self.device) if entities is None else entities)
        return self._moved(rows, (relation + self.sizes.relations) % (2 * self.sizes.relations))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """A·h."""
        return self._moved(self.heads(head), relation)

    def _moved(self, rows: Tensor, which: Tensor) -> Tensor:
        return grouped(rows, Rows(self.relations, which.expand(len(rows))), transposed=True)


def _all(sizes: Sizes, device: torch.device) -> Tensor:
    return torch.arange(sizes.entities, device=device)


def _unit(rank: int) -> float:
    """Numbers within ± this make a row of at most the length 1."""
    return 1 / math.sqrt(max(1, rank))
