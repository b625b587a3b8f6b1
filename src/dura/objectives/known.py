"""Known: the training facts in a form that can be asked quickly, for filters and counts. Valid and test facts are never in it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dura.data.questions import MANY, Questions
from dura.types import IntArray, Sizes


def known_of(questions: Questions, sizes: Sizes) -> Known:
    """The facts of the training questions. Many facts are not copied."""
    return Mapped(questions, sizes) if questions.facts > MANY else Known(questions, sizes)


class Known:
    """The facts of the training questions, both directions.

    >>> questions = Questions.of(np.array([[0, 0, 1], [0, 0, 2]]), relations=1)
    >>> known = Known(questions, Sizes(entities=3, relations=1))
    >>> known.counts(np.array([0, 1]), np.array([0, 0])).tolist()
    [2, 0]
    """

    def __init__(self, questions: Questions, sizes: Sizes) -> None:
        self.sizes, self._given = sizes, questions

    @cached_property
    def _sorted(self) -> tuple[IntArray, IntArray, IntArray]:
        """The distinct questions, how many answers each has, and the distinct facts, as sorted numbers; made when first needed."""
        given = self._given
        keys = np.repeat(self._keys(given.head, given.relation, given.time), given.counts)
        answers = given.answers.astype(np.int64)
        order = np.lexsort((answers, keys))
        keys, answers = keys[order], answers[order]
        new = np.append(True, (keys[1:] != keys[:-1]) | (answers[1:] != answers[:-1]))[: len(keys)]
        questions, position, counts = np.unique(keys[new], return_inverse=True, return_counts=True)
        return questions, counts, position * self.sizes.entities + answers[new]

    def _keys(self, head: IntArray, relation: IntArray, time: IntArray | None) -> IntArray:
        """One number per question."""
        keys = head.astype(np.int64) * (2 * self.sizes.relations) + relation
        return keys if time is None else keys * max(1, self.sizes.times) + time

    def _positions(self, head: IntArray, relation: IntArray, time: IntArray | None) -> IntArray:
        """The position of each question, -1 if it is not known."""
        keys, (questions, _, _) = self._keys(head, relation, time), self._sorted
        at = np.minimum(np.searchsorted(questions, keys), len(questions) - 1)
        return np.where(questions[at] == keys, at, -1)

    def counts(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """How many known answers each question has."""
        at = self._positions(head, relation, time)
        return np.where(at < 0, 0, self._sorted[1][at])

    def turned(self, batch: Questions) -> tuple[IntArray, IntArray, IntArray | None]:
        """The question (t, r⁻¹) of each fact of a batch."""
        relation, own = batch.relation[batch.question], self.sizes.relations
        time = None if batch.time is None else batch.time[batch.question]
        return batch.answers, np.where(relation < own, relation + own, relation - own), time

    def holds(self, batch: Questions, entities: IntArray) -> IntArray:
        """True where entities [f, k] are known answers to the question of the batch's fact f."""
        at = self._positions(batch.head, batch.relation, batch.time)[batch.question][:, None]
        keys = at * self.sizes.entities + entities
        facts, maybe = self._sorted[2], self._maybe
        held: IntArray = (at >= 0) & maybe[keys & (len(maybe) - 1)]
        suspects = keys[held]
        held[held] = facts[np.minimum(np.searchsorted(facts, suspects), len(facts) - 1)] == suspects
        return held

    @cached_property
    def _maybe(self) -> NDArray[np.bool_]:
        """True at the last bits of every fact's number. Most entities are found to be no answers here, without a search."""
        facts = self._sorted[2]
        maybe = np.zeros(1 << (8 * len(facts)).bit_length(), dtype=bool)
        maybe[facts & (len(maybe) - 1)] = True
        return maybe

    def answers_per_question(self) -> IntArray:
        """The mean number of answers of the questions of each relation [2|R|]; 1 for a relation without any."""
        keys, counts, _ = self._sorted
        relation = keys // (1 if self._given.time is None else max(1, self.sizes.times)) % (2 * self.sizes.relations)
        questions = np.bincount(relation, minlength=2 * self.sizes.relations)
        facts = np.bincount(relation, weights=counts, minlength=2 * self.sizes.relations)
        return np.where(questions > 0, facts / np.maximum(questions, 1), 1.0)


class Mapped(Known):
    """The same for many facts: they stay where they are, perhaps in a mapped file, and each lookup is a binary search there."""

    def __init__(self, questions: Questions, sizes: Sizes) -> None:
        super().__init__(questions.distinct(), sizes)

    def counts(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """How many known answers each question has."""
        at, offsets = self._given.find(head, relation, time), self._given.offsets
        return np.where(at < 0, 0, offsets[at + 1] - offsets[at])

    def holds(self, batch: Questions, entities: IntArray) -> IntArray:
        """True where entities [f, k] are known answers to the question of the batch's fact f."""
        offsets, answers = self._given.offsets, self._given.answers
        at = self._given.find(batch.head, batch.relation, batch.time)[batch.question][:, None]
        ends = np.broadcast_to(np.where(at < 0, 0, offsets[at + 1]).astype(np.int64), entities.shape)
        low = np.broadcast_to(np.where(at < 0, 0, offsets[at]).astype(np.int64), entities.shape)
        high = ends
        for _ in range(int((ends - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            before = (low < high) & (answers[np.minimum(middle, len(answers) - 1)] < entities)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        held: IntArray = (low < ends) & (answers[np.minimum(low, len(answers) - 1)] == entities)
        return held

    def answers_per_question(self) -> IntArray:
        """The mean number of answers of the questions of each relation [2|R|]; 1 for a relation without any."""
        given, own = self._given, 2 * self.sizes.relations
        questions, facts = np.zeros(own), np.zeros(own)
        for at in range(0, len(given), MANY):
            relation = given.relation[at : at + MANY]
            questions += np.bincount(relation, minlength=own)
            facts += np.bincount(relation, weights=np.diff(given.offsets[at : at + MANY + 1]), minlength=own)
        return np.where(questions > 0, facts / np.maximum(questions, 1), 1.0)
