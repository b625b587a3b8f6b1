"""Questions: the distinct (head, relation[, time]) of a set of facts with all their answers, in CSR form.

The same structure holds the training set (batches of questions with all their answers) and the known answers of evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dura.types import IntArray


def reciprocal(facts: IntArray, relations: int) -> IntArray:
    """For each (h, r, t) the fact (t, r + relations, h), which asks for the head. A time keeps its column.

    >>> reciprocal(np.array([[0, 1, 2]]), relations=5)
    array([[2, 6, 0]])
    """
    return np.concatenate(
        [facts[:, 2:3], facts[:, 1:2] + relations, facts[:, 0:1], facts[:, 3:]], axis=1, dtype=facts.dtype
    )


def segments(starts: IntArray, lengths: IntArray) -> IntArray:
    """The positions start, start+1, … of each segment, one segment after the other.

    >>> segments(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    positions: IntArray = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return positions


@dataclass(frozen=True)
class Questions:
    """Questions in CSR form: question `i` has `answers[offsets[i]:offsets[i + 1]]`, in ascending order."""

    head: IntArray
    relation: IntArray
    offsets: IntArray
    answers: IntArray
    time: IntArray | None = None
    """The time of each question, if facts have times."""

    @classmethod
    def of(cls, *facts: IntArray, relations: int) -> Questions:
        """The distinct questions of facts and reciprocals, sorted by (head, relation[, time]). Each fact counts once.

        >>> q = Questions.of(np.array([[0, 0, 1], [0, 0, 2]]), relations=1)
        >>> q.head.tolist(), q.relation.tolist(), q.offsets.tolist(), q.answers.tolist()
        ([0, 1, 2], [0, 1, 1], [0, 2, 3, 4], [1, 2, 0, 0])
        """
        both = np.concatenate([part for f in facts for part in (f, reciprocal(f, relations))])
        keys = [0, 1, *range(3, both.shape[1])]  # head, relation and, if there are times, time
        order = np.lexsort([both[:, column] for column in (2, *reversed(keys))])
        every = both[order]
        if len(every):
            every = every[np.concatenate([[True], (every[1:] != every[:-1]).any(axis=1)])]
        questions = every[:, keys]
        new = (
            np.concatenate([[True], (questions[1:] != questions[:-1]).any(axis=1)]) if len(every) else np.zeros(0, bool)
        )
        starts = np.flatnonzero(new)
        return cls(
            head=np.ascontiguousarray(every[starts, 0]),
            relation=np.ascontiguousarray(every[starts, 1]),
            offsets=np.append(starts, len(every)).astype(np.int64),
            answers=np.ascontiguousarray(every[:, 2]),
            time=np.ascontiguousarray(every[starts, 3]) if len(keys) == 3 else None,
        )

    def __len__(self) -> int:
        return len(self.head)

    @property
    def counts(self) -> IntArray:
        """The number of answers of each question."""
        return np.diff(self.offsets)

    @property
    def facts(self) -> int:
        """The number of (question, answer) pairs."""
        return len(self.answers)

    @property
    def question(self) -> IntArray:
        """The position of the question of each answer."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    def take(self, index: IntArray) -> Questions:
        """The questions at these positions with their answers, in this order."""
        lengths = self.counts[index]
        return Questions(
            head=self.head[index],
            relation=self.relation[index],
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            answers=self.answers[segments(self.offsets[index], lengths)],
            time=None if self.time is None else self.time[index],
        )

    def only(self, here: NDArray[np.bool_], first: int = 0) -> Questions:
        """The same questions with only these of their answers, which are counted from `first`."""
        before = np.concatenate([[0], np.cumsum(here)])
        return Questions(
            self.head, self.relation, before[self.offsets].astype(np.int64), self.answers[here] - first, self.time
        )

    def one_by_one(self) -> Questions:
        """Every fact as a question with one answer: the plain batching of the paper."""
        return Questions(
            head=np.repeat(self.head, self.counts),
            relation=np.repeat(self.relation, self.counts),
            offsets=np.arange(self.facts + 1, dtype=np.int64),
            answers=self.answers,
            time=None if self.time is None else np.repeat(self.time, self.counts),
        )

    def batches(self, size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Questions]:
        """Batches of `size` questions in an order fixed by (seed, epoch), beginning with batch number `start`."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        for at in range(start * size, len(order), size):
            yield self.take(order[at : at + size])

    def find(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """The position of each question (head, relation, time); -1 if it is not among these questions."""
        given, mine = ([head, relation], [self.head, self.relation])
        if self.time is not None:
            assert time is not None
            given, mine = [*given, time], [*mine, self.time]
        keys, wanted = np.zeros(len(self), dtype=np.int64), np.zeros(len(head), dtype=np.int64)
        for theirs, ours in zip(given, mine, strict=True):
            width = 1 + max(int(ours.max(initial=0)), int(np.max(theirs, initial=0)))
            keys, wanted = keys * width + ours, wanted * width + theirs
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        hit = keys[at] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
        return np.where(hit, at, -1)

    def known(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> Questions:
        """These questions, in order, each with its known answers; none if it is not among the questions here."""
        at = self.find(head, relation, time)
        lengths = np.where(at >= 0, self.counts[at], 0) if len(self) else np.zeros(len(at), dtype=np.int64)
        starts = np.where(at >= 0, self.offsets[at], 0)
        return Questions(
            head=np.asarray(head),
            relation=np.asarray(relation),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            answers=self.answers[segments(starts, lengths)],
            time=time,
        )
