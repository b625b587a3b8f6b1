"""RTFE with HAKE: first one static model, then one model per span of time, each of which starts as the one before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from dura.models.comparators import Polar
from dura.models.distance import sign, spread
from dura.models.model import Model
from dura.models.polar import polar_query
from dura.models.temporal import check_times
from dura.tables import Table
from dura.types import BadInput, Factors, IntArray, Sizes

MOST_BYTES = 4 << 30
"""The tables may take this many bytes. An optimizer keeps as many again."""


class RTFE(Model):
    """HAKE's score with the parameters θ_l of the time l. θ_0 is a static model, and θ_l starts as θ_{l−1}.

    The times are split into `slots` spans of equal length, in their order, and each span has its own parameters (0 = one span per
    time, as published). For `static_epochs` epochs all questions train θ_0. Then each span in turn is trained for `sweeps` epochs,
    on its own questions. So all are trained after static_epochs + slots·sweeps epochs: `training.epochs` should be that or more.
    Epochs that are left start again with the first span. A span that has not been trained yet answers with the last one that was.

    The parameters of spans are stored divided by `pace`, so a step of the optimizer moves them `pace` times as far as θ_0. Their
    few facts would otherwise undo the static model: Adagrad's first steps on new rows are as long as the learning rate.
    """

    temporal = True
    random = False
    state_is_all = True
    grouped_by: ClassVar[tuple[Literal["relation", "time"], ...]] = ("time",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "regularizer": {"name": "none"},
        "smoothness": {"weight": 0.0},
        "loss": {"name": "self-adversarial", "margin": 6.0, "temperature": 1.0},
        "candidates": {"name": "negatives", "count": 32},
        "optimizer": {"name": "adagrad", "lr": 0.1},
        # 15 static epochs and 3 for each of 20 spans; a validation is worth its time only after the static model and near the end.
        "training": {"epochs": 75, "batch": 500, "validate_every": 15, "patience": 0},
    }

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 50,
        slots: int = 20,
        static_epochs: int = 15,
        sweeps: int = 3,
        pace: float = 0.1,
        modulus_weight: float = 1.0,
        phase_weight: float = 0.5,
    ) -> None:
        check_times(sizes)
        super().__init__(sizes, rank)
        _check(sizes, rank, slots, static_epochs, sweeps, pace)
        self.slots = min(slots or sizes.times, sizes.times)
        self.static_epochs, self.sweeps, self.pace = static_epochs, sweeps, pace
        scale = spread(rank)
        self.comparator = Polar(rate=math.pi / (2 * scale))
        # Slots that are not filled stay zero, so the system need not give them memory yet.
        entity, relations = (
            torch.zeros((self.slots + 1) * rows, parts * rank)
            for rows, parts in ((sizes.entities, 2), (sizes.relations, 3))
        )
        entity[: sizes.entities].uniform_(-scale, scale)
        relations[: sizes.relations, :rank] = 1
        relations[: sizes.relations, 2 * rank :].uniform_(-scale, scale)
        weights = torch.zeros(self.slots + 1, 2)
        weights[0] = torch.tensor([modulus_weight, phase_weight * scale], device=weights.device)
        self.entity, self.relations, self.weights = Table(entity), Table(relations), Table(weights)
        self.filled: Tensor
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """HAKE's query with the parameters of the time."""
        slot = self._slot(time)
        own = self._read(self.relations, self.sizes.relations, relation % self.sizes.relations, slot)
        weights = self._read(self.weights, 1, torch.zeros_like(slot), slot)
        return polar_query(self._entities(head, slot), own, sign(relation, self.sizes), weights)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """The entities' rows at the time."""
        slot = self._slot(time)
        every = torch.arange(self.sizes.entities, device=slot.device) if entities is None else entities
        return self._entities(every, slot.expand(len(every)))

    def heads(self, entities: Tensor) -> Tensor:
        """The rows in the static model."""
        return self.entity.read(entities)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The rows in the static model."""
        return (self.relations.read(relations % self.sizes.relations),)

    def factors(
        self, head: Tensor, relation: Tensor, question: Tensor, answers: Tensor, time: Tensor | None = None
    ) -> Factors:
        """As for any model, with heads and relations at their times."""
        slot, own = self._slot(time), relation % self.sizes.relations

        def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
            pairs = slot * self.sizes.relations + own
            distinct, counts = torch.unique(pairs[question], return_counts=True)
            slots = distinct.div(self.sizes.relations, rounding_mode="floor")
            rows = self._read(self.relations, self.sizes.relations, distinct % self.sizes.relations, slots)
            return (rows,), counts.to(rows.dtype)

        common = super().factors(head, relation, question, answers, time)
        return replace(common, head=self._entities(head, slot), read_relation=relation_and_counts)

    def lesson(self, epoch: int, times: IntArray | None) -> IntArray | None:
        """All questions while θ_0 is trained, then those of one span. A span that is new is filled here."""
        if epoch < self.static_epochs:
            return None
        assert times is not None
        slot = 1 + (epoch - self.static_epochs) // self.sweeps % self.slots
        if slot > int(self.filled):  # otherwise a run continues, or this is not the first round
            self._fill(slot)
        return np.flatnonzero(1 + np.asarray(times, dtype=np.int64) * self.slots // self.sizes.times == slot)

    @torch.no_grad()
    def _fill(self, slot: int) -> None:
        """θ_l ← θ_{l−1}, also for spans that were left out."""
        for to in range(int(self.filled) + 1, slot + 1):
            for table in (self.entity, self.relations, self.weights):
                rows = len(table) // (self.slots + 1)
                before = table[(to - 1) * rows : to * rows]
                table[to * rows : (to + 1) * rows] = before / self.pace if to == 1 else before
        self.filled.fill_(slot)

    def _slot(self, time: Tensor | None) -> Tensor:
        """Where the parameters of each time are."""
        assert time is not None
        slot = 1 + (time * self.slots).div(self.sizes.times, rounding_mode="floor")
        return torch.minimum(slot, self.filled.to(slot.device))

    def _entities(self, entities: Tensor, slot: Tensor) -> Tensor:
        return self._read(self.entity, self.sizes.entities, entities, slot)

    def _read(self, table: Table, rows: int, ids: Tensor, slot: Tensor) -> Tensor:
        """The rows of these ids in these slots."""
        found = table.read(slot * rows + ids)
        return found * torch.where(slot > 0, found.new_tensor(self.pace), found.new_ones(()))[:, None]


def _check(sizes: Sizes, rank: int, slots: int, static_epochs: int, sweeps: int, pace: float) -> None:
    """Refuse settings that make no sense and tables that do not fit in memory."""
    for name, value, least in (("slots", slots, 0), ("static_epochs", static_epochs, 0), ("sweeps", sweeps, 1)):
        if value < least:
            raise BadInput(f"model.{name} is {value}, but it is a number of at least {least}")
    if not 0 < pace <= 1:
        raise BadInput(f"model.pace is {pace}, but it is above 0 and at most 1")
    count = min(slots or sizes.times, sizes.times)
    needed = 4 * rank * (2 * sizes.entities + 3 * sizes.relations) * (count + 1)
    if needed > MOST_BYTES:
        fits = MOST_BYTES * (count + 1) // needed - 1
        way = f"set model.slots = {fits} or less, or a smaller rank" if fits > 0 else "use a smaller rank"
        raise BadInput(f"{count:,} spans of time with rank {rank} need tables of {needed / 2**30:,.1f} GB: {way}")
