"""Distance models of dated facts: TTransE, TA-TransE and HyTE.

Each shifts the head by its relation, as TransE does. They differ in what the time adds: a second shift, a relation that reads its
date, or a plane onto which all rows fall. A reciprocal relation shifts back, so there is one row per relation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from dura.models.comparators import L1, L2, Hyperplane
from dura.models.distance import SAMPLED, Defaults, Moving, sign, spread, uniform
from dura.models.temporal import check_times
from dura.tables import Table
from dura.types import IntArray, Sizes

DATED: Defaults = {**SAMPLED, "smoothness": {"weight": 0.0}}
"""It learns more in less time than the margin losses with which these models were published."""
Norm = Literal["l1", "l2"]


class TTransE(Moving):
    """−‖h + r + τ − t‖: relation and time shift heads to tails. `norm` is the norm of the distance."""

    temporal = True
    defaults: ClassVar[Defaults] = DATED

    def __init__(self, sizes: Sizes, rank: int = 100, norm: Norm = "l2") -> None:
        check_times(sizes)
        super().__init__(sizes, rank, rank, spread(rank))
        self.comparator = L1() if norm == "l1" else L2()
        self.shifts = uniform(sizes.relations, rank, spread(rank))
        self.times = uniform(sizes.times, rank, spread(rank))

    @property
    def timeline(self) -> tuple[Table, int]:
        """The shifts of all times."""
        return self.times, 1

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h + r + τ, or h − r − τ for a reciprocal."""
        assert time is not None
        shift = self.shifts.read(relation % self.sizes.relations) + self.times.read(time)
        return self.heads(head) + shift * sign(relation, self.sizes)

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The shifts of the relations alone."""
        return (self.shifts.read(relations % self.sizes.relations) * sign(relations, self.sizes),)


LENGTH = 7
"""A time is read as this many tokens: four digits of the year, the month, two digits of the day."""
YEAR, MONTH, DAY, UNKNOWN, NO_TIME = 0, 10, 22, 32, 33
"""The first token of each kind. Ten digits of years, twelve months, ten digits of days, a part that is missing, and no time."""
TOKENS = 34
DATE = re.compile(r"(\d{1,4})(?:-(0[1-9]|1[0-2])(?:-(\d\d))?)?", re.ASCII)


def tokens_of(times: Sequence[str]) -> list[list[int]]:
    """The tokens of each time.

    Times that are not all dates or numbers of at most four digits are read by their places in the order of times.

    >>> tokens_of(["2014-03-15", "2014", ""])
    [[2, 0, 1, 4, 12, 23, 27], [2, 0, 1, 4, 32, 32, 32], [33, 33, 33, 33, 33, 33, 33]]
    >>> tokens_of(["May", "noon"])
    [[0, 0, 0, 0, 10, 22, 22], [0, 0, 0, 0, 10, 22, 23]]
    """
    dates = all(DATE.fullmatch(time) for time in times if time)
    return [
        _spelled(time if dates else _placed(place)) if time else [NO_TIME] * LENGTH for place, time in enumerate(times)
    ]


def _placed(place: int) -> str:
    """The digits of a place as a date: the third digit from the right stands where the month does."""
    digits = f"{place % 10**LENGTH:0{LENGTH}d}"
    return f"{digits[:4]}-{int(digits[4]) + 1:02d}-{digits[5:]}"


def _spelled(date: str) -> list[int]:
    found = DATE.fullmatch(date)
    assert found is not None
    year, month, day = found.groups()
    tokens = [YEAR + int(digit) for digit in year.zfill(4)]
    tokens.append(MONTH + int(month) - 1 if month else UNKNOWN)
    return tokens + ([DAY + int(digit) for digit in day] if day else [UNKNOWN] * 2)


class TATransE(Moving):
    """−‖h + ρ − t‖, where ρ is the last state of an LSTM that reads the relation and then its date, token by token.

    The LSTM is the standard one, with tanh at the input and the output of its cell, as in the paper. `norm` is the norm of the
    distance.
    """

    temporal = True
    defaults: ClassVar[Defaults] = DATED
    tokens: Tensor
    """The tokens of each time [|T|, 7]. They are state, so that an opened run needs no names of times."""

    def __init__(self, sizes: Sizes, rank: int = 100, norm: Norm = "l2") -> None:
        check_times(sizes)
        super().__init__(sizes, rank, rank, spread(rank))
        self.comparator = L1() if norm == "l1" else L2()
        self.relations = uniform(sizes.relations, rank, spread(rank))
        self.words = uniform(TOKENS, rank, spread(rank))
        self.cell = nn.LSTMCell(rank, rank)
        self.register_buffer("tokens", torch.zeros(sizes.times, LENGTH, dtype=torch.long))

    def observe(self, facts: IntArray, times: Sequence[str]) -> None:
        """Learn how each time is spelled."""
        self.tokens.copy_(torch.tensor(tokens_of(times)))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """h + ρ, or h − ρ for a reciprocal."""
        assert time is not None
        return self.heads(head) + self._read(relation % self.sizes.relations, time) * sign(relation, self.sizes)

    def _read(self, relation: Tensor, time: Tensor) -> Tensor:
        """ρ of each item. Items that begin with the same relation and the same tokens share the steps up to there."""
        begun, at = torch.unique(relation, return_inverse=True)
        hidden, cell = self.cell(self.relations.read(begun))
        for token in self.tokens[time].unbind(1):
            distinct, at = torch.unique(at * TOKENS + token, return_inverse=True)
            before, word = distinct.div(TOKENS, rounding_mode="floor"), distinct.remainder(TOKENS)
            so_far = hidden.index_select(0, before), cell.index_select(0, before)
            hidden, cell = self.cell(self.words.read(word), so_far)
        read: Tensor = hidden.index_select(0, at)
        return read

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """What the LSTM reads first."""
        return (self.relations.read(relations % self.sizes.relations),)


class HyTE(Moving):
    """−‖P(h + r) − Pt‖ with Px = x − <w, x>·w: at each time all rows fall onto a plane, whose normal w is the time's row.

    `norm` is the norm of the distance. With "l2" no projected row of a tail is computed. With "l1" they are, for each time.
    """

    temporal = True
    defaults: ClassVar[Defaults] = DATED

    def __init__(self, sizes: Sizes, rank: int = 100, norm: Norm = "l2") -> None:
        check_times(sizes)
        super().__init__(sizes, rank, rank, spread(rank))
        self.flat = norm == "l1"
        self.comparator = L1() if self.flat else Hyperplane(squared=False)
        self.grouped_by = ("time",) if self.flat else ()  # type: ignore[misc]
        self.shifts = uniform(sizes.relations, rank, spread(rank))
        self.times = uniform(sizes.times, rank, 1.0)

    @property
    def timeline(self) -> tuple[Table, int]:
        """The normals of all times, as long as they are in the table."""
        return self.times, 1

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """P(h + r), or P(h − r) for a reciprocal, and for "l2" the normal."""
        assert time is not None
        normal = self._normal(time)
        shift = self.shifts.read(relation % self.sizes.relations) * sign(relation, self.sizes)
        fallen = _fallen(self.heads(head) + shift, normal)
        return fallen if self.flat else torch.cat([fallen, normal], 1)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """The rows as they are, or for "l1" where they fall at this time."""
        every = torch.arange(self.sizes.entities, device=self.device) if entities is None else entities
        rows = self.entity.read(every)
        if not self.flat:
            return rows
        assert time is not None
        return _fallen(rows, self._normal(time))

    def relation_rows(self, relations: Tensor) -> tuple[Tensor, ...]:
        """The shifts."""
        return (self.shifts.read(relations % self.sizes.relations) * sign(relations, self.sizes),)

    def _normal(self, time: Tensor) -> Tensor:
        return nn.functional.normalize(self.times.read(time), dim=1)


def _fallen(rows: Tensor, normal: Tensor) -> Tensor:
    """x − <w, x>·w."""
    return rows - (rows * normal).sum(1, keepdim=True) * normal
