"""Distance models: a relation moves the head, and the score falls with the distance to the tail.

The published training is self-adversarial: negatives for each fact, and no regularizer (`NEGATIVES`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from dura.models.comparators import L1, L2, Modulus
from dura.models.model import Model
from dura.tables import Packed, Table
from dura.types import Sizes

Defaults = Mapping[str, Mapping[str, Any]]
NEGATIVES: Defaults = {
    "regularizer": {"name": "none"},
    "loss": {"name": "self-adversarial", "margin": 6.0, "temperature": 1.0},
    "candidates": {"name": "negatives", "count": 64},
    "optimizer": {"name": "adam", "lr": 1e-3},
    "training": {"batch": 500, "anneal": 30, "validate_every": 5, "patience": 4},
}
"""The published way, the self-adversarial loss over 64 negatives with Adam. It ends higher on WN18RR, but needs about 40 epochs."""
SAMPLED: Defaults = {
    "regularizer": {"name": "none"},
    "loss": {"name": "softmax"},
    "candidates": {"name": "sample", "samples": 512},
    "optimizer": {"name": "adagrad", "lr": 0.1},
    "training": {"batch": 500, "anneal": 30, "validate_every": 5, "patience": 4},
}
"""Softmax over a sample that a batch shares, with Adagrad: it learns in fewer epochs than `NEGATIVES`."""


class Moving(Model):
    """A model with one row per entity, which is both head and target, and rows that say how a relation moves it.

    A concrete model adds its tables in its constructor and defines `query`.
    """

    random = False
    state_is_all = True
    defaults: ClassVar[Defaults] = NEGATIVES
    entity: Table | Packed

    def __init__(self, sizes: Sizes, rank: int, width: int, scale: float) -> None:
        super().__init__(sizes, rank)
        self.entity = uniform(sizes.entities, width, scale)

    @property
    def target_table(self) -> Table | Packed | None:
        """The entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What an export may pack."""
        return {"entity": self.entity}


def uniform(rows: int, width: int, scale: float) -> Table:
    """A table that starts uniformly within ±scale."""
    return Table(nn.init.uniform_(torch.empty(rows, width), -scale, scale))


def spread(rank: int, margin: float = 6.0) -> float:
    """How far from zero rows start in RotatE's program: (γ + 2) / d."""
    return (margin + 2) / max(1, rank)


class TransE(Moving):
    """−‖h + r − t‖: a relation shifts heads to tails. `norm` is the norm of the distance.

    The reciprocal of a relation shifts back by −r, so there is one row per relation.
    """

    def __init__(self, sizes: Sizes, rank: int = 200, norm: Literal["l1", "l2"] = "l1") -> None:
        super().__init__(sizes, rank, rank, spread(rank))
        self.comparator = L1() if norm == "l1" else L2()
        self.shifts = uniform(sizes.relations, rank, spread(rank))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h + r, or h − r for a reciprocal."""
        return self.heads(head) + self._shift(relation)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The shifts."""
        return (self._shift(relations),)

    def _shift(self, relation: Tensor) -> Tensor:
        return self.shifts.read(relation % self.sizes.relations) * sign(relation, self.sizes)


def sign(relation: Tensor, sizes: Sizes) -> Tensor:
    """+1 for relations and −1 for reciprocals, as a column."""
    return torch.where(relation < sizes.relations, 1.0, -1.0)[:, None]


class ModE(Moving):
    """−‖h∘r − t‖₁: a relation scales each number of the head. Each reciprocal has a row of its own.

    This is HAKE without its phases.
    """

    comparator = L1()

    def __init__(self, sizes: Sizes, rank: int = 200) -> None:
        super().__init__(sizes, rank, rank, spread(rank))
        self.relations = uniform(2 * sizes.relations, rank, spread(rank))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h∘r."""
        return self.heads(head) * self.relations.read(relation)


class RotatE(Moving):
    """−Σ|h∘e^{iθ} − t| over complex numbers: a relation turns each number of the head by an angle.

    The reciprocal of a relation turns back, so there is one row of angles per relation. "Rank d" means d complex numbers. A row of
    an entity has d real parts, then d imaginary parts.
    """

    comparator = Modulus()

    def __init__(self, sizes: Sizes, rank: int = 100) -> None:
        super().__init__(sizes, rank, 2 * rank, spread(rank))
        self.angles = uniform(sizes.relations, rank, math.pi)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h∘e^{iθ}, or h∘e^{−iθ} for a reciprocal."""
        angle = self.angles.read(relation % self.sizes.relations) * sign(relation, self.sizes)
        (real, imaginary), cos, sin = self.heads(head).chunk(2, 1), angle.cos(), angle.sin()
        return torch.cat([real * cos - imaginary * sin, real * sin + imaginary * cos], 1)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """None: every e^{iθ} has the modulus 1, and a regularizer should not pull angles to zero."""
        return ()
