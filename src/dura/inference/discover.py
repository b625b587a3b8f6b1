"""Discover: the best missing facts of a whole graph, exactly, in blocks.

The questions (h, r, ?) and (?, r, t) of a `Search` are asked, and the best facts so far are kept. Nothing of size |E|², |E|·|R| or
larger is ever in memory. A fact that is found from both sides is one fact with the larger value.

The value of an answer is comparable between questions (see `Value`). A question that cannot have an answer above the worst fact
that is kept is not scored at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.inference.predict import check_finite
from dura.models import Model
from dura.tables import Sharded
from dura.types import BadInput, FloatArray, IntArray

if TYPE_CHECKING:
    from dura.inference.calibration import Calibration

BLOCK_BYTES = 32 << 20
"""Room for a block of scores."""


class Value(Protocol):
    """How good answers are, so that those of different questions can be compared. A higher score never has a lower value."""

    def most(self, relation: IntArray, known: IntArray) -> FloatArray:
        """The largest value that an answer can have [m], by the relation and the number of known answers of its question."""

    def total(self, scores: Tensor, known: Questions) -> FloatArray:
        """What the value needs of all scores [m, |E|] of a question, as one number per question [m]. It may erase known ones."""

    def of(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The values of answers with these scores [m, k]."""


class Share:
    """The share of an answer in the softmax over all entities. It lies between 0 and 1, but is no probability of being true."""

    def most(self, relation: IntArray, known: IntArray) -> FloatArray:  # noqa: ARG002
        """Any answer may have all of it."""
        return np.ones(len(relation))

    def total(self, scores: Tensor, known: Questions) -> FloatArray:  # noqa: ARG002
        """The logarithm of the sum of all exponentials."""
        total: FloatArray = scores.logsumexp(1).double().cpu().numpy()
        return total

    def of(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:  # noqa: ARG002
        """The softmax."""
        return np.exp(scores - total[:, None])


@dataclass(frozen=True)
class Probable:
    """The probability that a question has a missing answer, times the probability of the answer if it has one."""

    calibration: Calibration

    def most(self, relation: IntArray, known: IntArray) -> FloatArray:
        """A second answer of a functional relation has no more than the relation's share of second answers."""
        return self.calibration.most(relation, known)

    def total(self, scores: Tensor, known: Questions) -> FloatArray:
        """The total over new answers."""
        row, column = (
            torch.from_numpy(ids.astype(np.int64)).to(scores.device) for ids in (known.question, known.answers)
        )
        scores[row, column] = -torch.inf
        return self.calibration.total(scores)

    def of(self, relation: IntArray, known: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The product of both probabilities."""
        asked = self.calibration.question_probabilities(relation, known, total)
        return asked[:, None] * self.calibration.probabilities(relation, known, total, scores)


@dataclass(frozen=True)
class Search:
    """Which facts are looked for. `relations` and `time` are ids."""

    relations: IntArray
    top: int = 1000
    time: int | None = None
    in_range: bool = True
    """Ask only about heads and tails that training facts have with the relation. Answers are these, and entities like them."""
    loops: bool = False
    """Also facts whose head is their tail. Many models find them plausible for every relation that is nearly symmetric."""
    typed: NDArray[np.bool_] | None = None
    """Only facts with one of these entities as head or tail."""
    least: float = 0.0
    """Only facts with at least this value."""

    def __post_init__(self) -> None:
        if isinstance(self.top, bool) or not isinstance(self.top, int) or self.top < 1:
            raise BadInput(f"top is {self.top!r}, but it must be a whole number of at least 1")


@dataclass(frozen=True)
class Best:
    """The best facts so far: values in descending order and facts [n, 3] as ids. Equal values are in the order of their ids."""

    value: FloatArray
    facts: IntArray
    asked: int = 0
    """How many questions were asked."""

    def merge(self, value: FloatArray, facts: IntArray, top: int) -> Best:
        """The `top` best of these and other facts. A fact that comes twice has its larger value."""
        value, facts = np.concatenate([self.value, value]), np.concatenate([self.facts, facts])
        order = np.lexsort((*facts.T[::-1], -value))  # by value, then by fact
        again = np.lexsort((np.arange(len(order)), *facts[order].T[::-1]))  # by fact, best first
        ordered = facts[order][again]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        keep = order[np.sort(again[first])[:top]]
        return Best(value[keep], facts[keep])


def discover(
    model: Model,
    graph: Graph,
    search: Search,
    value: Value | None = None,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Best:
    """The best missing facts. Known facts of any split, and facts that people have judged, are left out."""
    if isinstance(model.target_table, Sharded):
        raise BadInput("the whole graph is searched by one process: open the run without torchrun")
    best = Best(np.zeros(0), np.zeros((0, 3), dtype=np.int64))
    asking = _Asking(model, graph, search, value or Share())
    total, done = asking.count(), 0
    with model.answering():
        for direction in asking.directions():
            every = asking.heads(direction)
            for a in range(0, len(every), asking.size):
                worst = float(best.value[-1]) if len(best.value) == search.top else search.least
                found = asking.block(every[a : a + asking.size], direction, worst)
                if found is not None:
                    best = best.merge(*found, search.top)
                done += len(every[a : a + asking.size])
                progress(done, total)
    return replace(best, asked=total)


@dataclass(frozen=True)
class _Asking:
    """The questions of a search, relation by relation. Reciprocals come after all others, so a block meets no fact twice."""

    model: Model
    graph: Graph
    search: Search
    value: Value
    _latest: dict[int, IntArray] = field(default_factory=dict)
    """The answers of the relation that was asked last."""

    @property
    def size(self) -> int:
        """How many questions are scored at a time."""
        return max(1, BLOCK_BYTES // (4 * self.model.sizes.entities))

    def directions(self) -> Iterator[int]:
        """The relations and their reciprocals."""
        yield from self.search.relations.tolist()
        yield from (self.search.relations + len(self.graph.relations)).tolist()

    def count(self) -> int:
        """How many questions there are."""
        return sum(len(self.heads(direction)) for direction in self.directions())

    def heads(self, direction: int) -> IntArray:
        """The entities that the questions of a relation start from: those that answer its reciprocal."""
        if not self.search.in_range:
            return np.arange(self.model.sizes.entities)
        relations = len(self.graph.relations)
        return self.graph.ranges.of_relation((direction + relations) % (2 * relations))

    def _times(self, head: IntArray) -> IntArray | None:
        return None if self.search.time is None else np.full(len(head), self.search.time, dtype=np.int64)

    def block(self, head: IntArray, direction: int, worst: float) -> tuple[FloatArray, IntArray] | None:
        """Values and facts of the new answers to some questions that are worth at least as much as the worst fact that is kept."""
        relation = np.full(len(head), direction, dtype=np.int64)
        known = self.graph.answered(head, relation, self._times(head))
        held = self.graph.holding(head, relation, self._times(head))
        promising = np.flatnonzero(self.value.most(relation, held) >= worst)
        if not len(promising):
            return None
        known, head, held = known.take(promising), head[promising], held[promising]
        total, scores, columns = self._scores(known, direction)
        # Inside a question the best score has the best value: only questions whose best answer is good enough are looked at.
        top = scores.max(1, keepdim=True).values.double().cpu().numpy()
        good = np.flatnonzero(self._values(known, held, total, top)[:, 0] >= worst)
        if not len(good) or not len(columns):
            return None
        known, head, held, total = known.take(good), head[good], held[good], total[good]
        best = scores[torch.from_numpy(good).to(scores.device)].double().cpu().numpy()
        values = self._values(known, held, total, best)
        values = np.minimum(values, self._most(columns, direction))
        if values.size > self.search.top:
            place = values.size - self.search.top
            worst = max(worst, float(np.partition(values, place, axis=None)[place]))
        row, column = np.nonzero(values >= worst)
        return values[row, column], self._facts(head[row], direction, columns[column])

    def _scores(self, known: Questions, direction: int) -> tuple[FloatArray, Tensor, IntArray]:
        """The totals of questions, the scores of the entities that may answer them (-inf for known ones), and these."""
        device = self.model.device

        def on_device(ids: IntArray) -> Tensor:
            return torch.from_numpy(ids.astype(np.int64)).to(device)

        asked = [on_device(ids) for ids in (known.head, known.relation, known.time) if ids is not None]
        scores = self.model.score_all(*asked)
        check_finite(scores)
        total = self.value.total(scores, known)
        scores[on_device(known.question), on_device(known.answers)] = -torch.inf
        if not self.search.loops:
            scores.scatter_(1, asked[0][:, None], -torch.inf)
        columns = self._answers(direction)
        if len(columns) < scores.shape[1]:
            scores = scores[:, on_device(columns)]
        if self.search.typed is not None:
            other = torch.from_numpy(~self.search.typed).to(device)
            scores.masked_fill_(other[asked[0]][:, None] & other[on_device(columns)][None], -torch.inf)
        return total, scores, columns

    def _values(self, known: Questions, held: IntArray, total: FloatArray, scores: FloatArray) -> FloatArray:
        """The values of answers; -1 for those that are known."""
        there = np.isfinite(scores)
        values = self.value.of(known.relation, held, total, np.where(there, scores, 0.0))
        return np.where(there, values, -1.0)

    def _most(self, answers: IntArray, direction: int) -> FloatArray:
        """The largest value that the facts of these answers can have [n], by what is known about the answers themselves.

        (?, gender, Male) may not find somebody whose gender is known: the fact contradicts an answer to the other question.
        """
        relations = len(self.graph.relations)
        other = np.full(len(answers), (direction + relations) % (2 * relations), dtype=np.int64)
        return self.value.most(other, self.graph.holding(answers, other, self._times(answers)))

    def _answers(self, direction: int) -> IntArray:
        """The entities that may answer a relation's questions, in ascending order."""
        if not self.search.in_range:
            return np.arange(self.model.sizes.entities)
        if direction not in self._latest:  # blocks come relation by relation
            self._latest.clear()
            ranges = self.graph.ranges
            self._latest[direction] = np.sort(np.append(ranges.of_relation(direction), ranges.alike(direction)))
        return self._latest[direction]

    def _facts(self, asked: IntArray, direction: int, answer: IntArray) -> IntArray:
        """The facts [n, 3] of questions and answers."""
        relations = len(self.graph.relations)
        relation = np.full(len(asked), direction % relations)
        ends = (asked, relation, answer) if direction < relations else (answer, relation, asked)
        return np.stack(ends, axis=1).astype(np.int64)
