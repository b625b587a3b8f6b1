"""The values that rooms hand to each other, and the errors that users see.

This module does not import torch at run time: reading a graph or printing help must stay fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__version__ = "0.2.0"

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.float64]
Filter = Literal["time-aware", "static"]
"""Which known answers a ranking of dated facts leaves out: those at the fact's time, or those at any time."""
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Ties = Literal["optimistic", "realistic", "pessimistic"]
TIES: tuple[Ties, ...] = ("optimistic", "realistic", "pessimistic")
Side = Literal["tail", "head"]
SIDES: tuple[Side, ...] = ("tail", "head")


class DuraError(Exception):
    """Something the user can fix, said in one sentence. The command line prints it and ends with `exit_code`."""

    exit_code = 1
    shared = False
    """True if every process of a job raises it. Only the first one prints it then."""


class BadInput(DuraError):
    """The input is wrong: an unknown name, a bad file, a setting of the wrong type."""

    exit_code = 2


class Notice(UserWarning):
    """Something that a user should know although the work goes on, said in one sentence. The command line prints it."""


@dataclass(frozen=True)
class Sizes:
    """How many entities, relations (without reciprocals) and times a model is built for."""

    entities: int
    relations: int
    times: int = 0


@dataclass(frozen=True)
class Traits:
    """What a regularizer must know of a model before it is used with it."""

    temporal: bool = False
    """Facts have times."""
    diagonal: bool = False
    """Relations act element by element."""
    adjoint: bool = False
    """The model has reverse queries t·Rᵀ."""
    apart: bool = False
    """The relation at a time is the product of one row of the relation and one row of the time, and nothing else."""


@dataclass(frozen=True)
class Factors:
    """Everything a regularizer may look at, for one batch of questions and their answers.

    The rows of a question are there once, even if it has many answers: `counts` says how many facts share them.
    Rows that only some regularizers need (`tail`, `reverse`, `onward`, `relation`) are computed when first read.

    For `q` questions, `f` facts, `k` distinct relations and `w` numbers per row the shapes are:
    `head`, `query` [q, w]; `counts` [q]; `question` [f] (which question a fact answers); `tail`, `reverse`, `onward` [f, w];
    `relation`: parts of shape [k, w] or [k, d, d], with `relation_counts` [k].
    """

    head: Tensor
    query: Tensor
    counts: Tensor
    question: Tensor
    complex: bool
    """True if neighbouring reals (2i, 2i+1) are one complex number."""
    read_tail: Callable[[], Tensor]
    read_reverse: Callable[[], Tensor]
    read_relation: Callable[[], tuple[tuple[Tensor, ...], Tensor]]
    read_tail_squares: Callable[[float, float], Tensor | None] = lambda _plain, _turned: None
    """(plain, turned): Σ plain·‖t‖² + turned·‖t·Rᵀ‖², if the model has a shorter way than through the rows."""
    read_apart: Callable[[Literal["relation", "time"]], tuple[Tensor, Tensor]] | None = None
    """For dated facts and diagonal relations: h·X̄ [q, w] and Σ ‖t·Xᵀ‖², where X is the row of the relation or of the time."""

    read_onward: Callable[[], Tensor] | None = None
    """t·R̄: what the relation makes of the answers' rows as if they were heads. None if the model has no adjoint."""

    whole: int = 0
    """The number of facts in the whole batch, if this is only a part of it."""

    @cached_property
    def tail(self) -> Tensor:
        """The answers' rows [f, w]."""
        return self.read_tail()

    @cached_property
    def reverse(self) -> Tensor:
        """The reverse queries t·Rᵀ [f, w]."""
        return self.read_reverse()

    @cached_property
    def onward(self) -> Tensor:
        """The answers turned like heads, t·R̄ [f, w]."""
        if self.read_onward is None:
            raise BadInput("the regularizer needs what a relation makes of a tail, and this model cannot say it")
        return self.read_onward()

    @cached_property
    def _relation(self) -> tuple[tuple[Tensor, ...], Tensor]:
        return self.read_relation()

    @property
    def relation(self) -> tuple[Tensor, ...]:
        """The distinct relations of the batch [k, ...]; one tensor per part if they are sums."""
        return self._relation[0]

    @property
    def relation_counts(self) -> Tensor:
        """How many facts use each distinct relation [k]."""
        return self._relation[1]

    @property
    def facts(self) -> int:
        """The number of facts in the batch: what a mean over facts divides by."""
        return self.whole or int(self.question.shape[0])


@dataclass(frozen=True)
class Ranks:
    """The place of each ranked fact's truth among its rivals: one entry per fact and side.

    `greater` rivals score higher than the truth and `equal` rivals the same. `candidates` counts the truth and its rivals.
    `relation` is the fact's own relation, never the reciprocal. `side` is 0 if the tail was asked and 1 if the head was.
    """

    head: IntArray
    relation: IntArray
    tail: IntArray
    side: IntArray
    greater: IntArray
    equal: IntArray
    candidates: IntArray

    def __len__(self) -> int:
        return len(self.greater)

    def ranks(self, ties: Ties = "realistic") -> FloatArray:
        """The ranks, from 1 (best). Of the equal rivals none (optimistic), half (realistic) or all (pessimistic) are better."""
        share = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}[ties]
        ranks: FloatArray = 1.0 + self.greater + share * self.equal
        return ranks

    def select(self, which: NDArray[np.bool_] | IntArray) -> Ranks:
        """The entries where a mask holds, or those at these positions."""
        return Ranks(*(getattr(self, name)[which] for name in Ranks.__dataclass_fields__))


@dataclass(frozen=True)
class Metrics:
    """The metrics of one set of ranks. `hits[k]` is the share of ranks up to k, `amri` the adjusted mean rank index."""

    mrr: float
    hits: dict[int, float]
    mean_rank: float
    amri: float
    ranks: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON (the keys of `hits` become strings)."""
        return {
            "mrr": self.mrr,
            "hits": {str(k): v for k, v in self.hits.items()},
            "mean_rank": self.mean_rank,
            "amri": self.amri,
            "ranks": self.ranks,
        }
