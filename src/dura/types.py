"""The values that rooms hand to each other, and the one error that users see.

This module imports no torch at run time: reading a graph or printing help must not pay for it.
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
"""Which known answers a ranking of dated facts leaves out: those at the fact's time, or at any."""
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Ties = Literal["optimistic", "realistic", "pessimistic"]
TIES: tuple[Ties, ...] = ("optimistic", "realistic", "pessimistic")
Side = Literal["tail", "head"]
SIDES: tuple[Side, ...] = ("tail", "head")


class DuraError(Exception):
    """Something the user can mend, said in one sentence; the command line prints it and ends with `exit_code`."""

    exit_code = 1


class BadInput(DuraError):
    """What was typed or given is wrong: an unknown name, a bad file, a setting of the wrong type."""

    exit_code = 2


@dataclass(frozen=True)
class Sizes:
    """How many entities, relations (without reciprocals) and times a model is built for."""

    entities: int
    relations: int
    times: int = 0


@dataclass(frozen=True)
class Factors:
    """Everything a regularizer may look at, for one batch of questions and their answers.

    A question's rows stand once, however many answers it has: `counts` says how many facts share them.
    Rows that only some regularizers need (`tail`, `reverse`, `relation`) are computed when first read.

    `q` questions, `f` facts, `k` distinct relations, `w` numbers a row:
    `head`, `query` [q, w]; `counts` [q]; `question` [f] (which question a fact answers); `tail`, `reverse` [f, w];
    `relation` parts of [k, w] or [k, d, d] with `relation_counts` [k].
    """

    head: Tensor
    query: Tensor
    counts: Tensor
    question: Tensor
    complex: bool
    """True where neighbouring reals (2i, 2i+1) are one complex number."""
    read_tail: Callable[[], Tensor]
    read_reverse: Callable[[], Tensor]
    read_relation: Callable[[], tuple[tuple[Tensor, ...], Tensor]]
    read_tail_squares: Callable[[float, float], Tensor | None] = lambda _plain, _turned: None
    """(plain, turned): Σ plain·‖t‖² + turned·‖t·Rᵀ‖² where the model has a shorter way to it than by the rows."""
    read_apart: Callable[[Literal["relation", "time"]], tuple[Tensor, Tensor]] | None = None
    """Where facts have times and relations are diagonal: h·X̄ [q, w] and Σ ‖t·Xᵀ‖², X the relation's or the time's own row."""

    @cached_property
    def tail(self) -> Tensor:
        """The answers' rows [f, w]."""
        return self.read_tail()

    @cached_property
    def reverse(self) -> Tensor:
        """The reverse queries t·Rᵀ [f, w]."""
        return self.read_reverse()

    @cached_property
    def _relation(self) -> tuple[tuple[Tensor, ...], Tensor]:
        return self.read_relation()

    @property
    def relation(self) -> tuple[Tensor, ...]:
        """The distinct relations of the batch [k, ...], each of their parts where they are a sum."""
        return self._relation[0]

    @property
    def relation_counts(self) -> Tensor:
        """How many facts use each distinct relation [k]."""
        return self._relation[1]

    @property
    def facts(self) -> int:
        """The number of facts in the batch."""
        return int(self.question.shape[0])


@dataclass(frozen=True)
class Ranks:
    """Where the truth of each ranked fact stands among its rivals; one entry a fact and side.

    `greater` rivals score higher than the truth, `equal` ones the same; `candidates` counts the truth and its rivals.
    `relation` is the fact's own relation (never the reciprocal), `side` 0 where the tail was asked, 1 the head.
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
        """The ranks, best 1, with equal rivals counted none (optimistic), half (realistic) or all (pessimistic)."""
        share = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}[ties]
        ranks: FloatArray = 1.0 + self.greater + share * self.equal
        return ranks

    def select(self, which: NDArray[np.bool_] | IntArray) -> Ranks:
        """The entries where a mask holds, or those at these positions."""
        return Ranks(*(getattr(self, name)[which] for name in Ranks.__dataclass_fields__))


@dataclass(frozen=True)
class Metrics:
    """Figures of one set of ranks; `hits[k]` is the share of ranks not above k, `amri` the adjusted mean rank index."""

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
