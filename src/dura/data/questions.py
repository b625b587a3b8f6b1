"""Questions: the distinct (head, relation[, time]) of a set of facts with all their answers, in CSR form.

The same structure holds the training set (batches of questions with all their answers) and the known answers of evaluation. Its
arrays may be mapped files of any size, so nothing here copies all of them: `dura.data.large` has what is different for many facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dura.types import IntArray

MANY = 1 << 22
"""Above this many facts questions are made part by part, and above this many questions they are shuffled by blocks."""


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
        if 2 * sum(map(len, facts)) > MANY:
            from dura.data.large import in_memory

            return in_memory(facts, relations)
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
        starts = self.offsets[index]
        lengths = self.offsets[np.asarray(index) + 1] - starts
        return Questions(
            head=self.head[index],
            relation=self.relation[index],
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            answers=self.answers[segments(starts, lengths)],
            time=None if self.time is None else self.time[index],
        )

    def only(self, here: NDArray[np.bool_], first: int = 0) -> Questions:
        """The same questions with only these of their answers, which are counted from `first`."""
        before = np.concatenate([[0], np.cumsum(here)])
        return Questions(
            self.head, self.relation, before[self.offsets].astype(np.int64), self.answers[here] - first, self.time
        )

    def and_those_of(self, other: Questions) -> Questions:
        """The same questions with their answers here and there, each once."""
        answers = np.concatenate([self.answers, other.answers])
        width = int(answers.max(initial=0)) + 1
        keys = np.unique(np.concatenate([self.question, other.question]) * width + answers)
        offsets = np.searchsorted(keys, width * np.arange(len(self) + 1, dtype=np.int64))
        return Questions(self.head, self.relation, offsets, (keys % width).astype(answers.dtype), self.time)

    def one_by_one(self) -> Questions:
        """Every fact as a question with one answer: the plain batching of the paper."""
        if self.facts > MANY:
            from dura.data.large import Singles

            return Singles(self)
        return Questions(
            head=np.repeat(self.head, self.counts),
            relation=np.repeat(self.relation, self.counts),
            offsets=np.arange(self.facts + 1, dtype=np.int64),
            answers=self.answers,
            time=None if self.time is None else np.repeat(self.time, self.counts),
        )

    def distinct(self) -> Questions:
        """These questions, each once with all its answers. For questions made by `of` these are the questions themselves."""
        return self

    def frequency(self, entities: int) -> IntArray:
        """How often each entity is an answer."""
        found = np.zeros(entities, dtype=np.int64)
        for at in range(0, len(self.answers), MANY):
            found += np.bincount(self.answers[at : at + MANY], minlength=entities)
        return found

    def batches(
        self, size: int, seed: int, epoch: int, start: int = 0, *, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Questions]:
        """Batches of `size` questions in an order fixed by (seed, epoch), beginning with batch number `start`.

        Many questions are shuffled by blocks, see `dura.data.large`. With `part` (i, n) only the i-th of n parts of each batch is
        read; the n parts make up the batch.
        """
        number, parts = part
        for window, order in self._windows(size, seed, epoch, start):
            for at in range(0, len(order), size):
                batch = order[at : at + size]
                yield window.take(batch[len(batch) * number // parts : len(batch) * (number + 1) // parts])

    def _windows(self, size: int, seed: int, epoch: int, start: int) -> Iterator[tuple[Questions, IntArray]]:
        """Questions that are shuffled together, and the rest of their order. Few questions are all shuffled together."""
        if len(self) <= MANY:
            yield self, np.random.default_rng([seed, epoch]).permutation(len(self))[start * size :]
            return
        from dura.data.large import shuffled

        for index, order in shuffled(len(self), size, seed, epoch, start):
            yield self.take(index), order

    def find(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """The position of each question (head, relation, time); -1 if it is not among these questions.

        A binary search for all at once. It reads only the places that it compares.
        """
        pairs = [(np.asarray(head), self.head), (np.asarray(relation), self.relation)]
        if self.time is not None:
            assert time is not None
            pairs.append((np.asarray(time), self.time))
        low, high = np.zeros(len(head), dtype=np.int64), np.full(len(head), len(self), dtype=np.int64)
        for _ in range(len(self).bit_length()):
            middle = (low + high) // 2
            before = _less(pairs, np.minimum(middle, len(self) - 1)) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        at = np.minimum(low, len(self) - 1)
        hit = low < len(self)
        for wanted, mine in pairs if len(self) else ():
            hit &= mine[at] == wanted
        return np.where(hit, low, -1)

    def counted(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """How many answers each question has here, without a copy of them."""
        at = self.find(head, relation, time)
        found: IntArray = np.where(at >= 0, self.offsets[at + 1] - self.offsets[at], 0)
        return found

    def known(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> Questions:
        """These questions, in order, each with its known answers; none if it is not among the questions here."""
        at = self.find(head, relation, time)
        starts = np.where(at >= 0, self.offsets[at], 0)
        lengths = np.where(at >= 0, self.offsets[at + 1] - starts, 0)
        return Questions(
            head=np.asarray(head),
            relation=np.asarray(relation),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            answers=self.answers[segments(starts, lengths)],
            time=time,
        )


def _less(pairs: list[tuple[IntArray, IntArray]], at: IntArray) -> NDArray[np.bool_]:
    """True where the question at this place comes before the wanted one."""
    (wanted, mine), *rest = pairs
    here = mine[at]
    less: NDArray[np.bool_] = here < wanted
    return less | ((here == wanted) & _less(rest, at)) if rest else less
