"""Large: questions of so many facts that they should not be copied, sorted or shuffled as a whole.

`made` sorts facts by ranges of heads, so that the memory it needs does not grow with their number. `shuffled` is the order of an
epoch: questions stand in blocks of neighbours, the blocks are permuted, and the questions of many blocks are shuffled together. So
reading is nearly sequential, and yet each batch has questions from everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dura.data.questions import Questions, segments
from dura.types import IntArray

ROWS = 1 << 22
"""How many facts are looked at in one go."""
BLOCK = 512
"""How many neighbouring questions stay together when blocks are permuted."""
WINDOW = 1 << 20
"""About how many questions are shuffled together: 2,048 blocks, so a batch of 1,000 rarely has two of the same head."""


@dataclass(frozen=True)
class Piece:
    """Some questions in order, with the number of answers of each, and these answers."""

    head: IntArray
    relation: IntArray
    counts: IntArray
    answers: IntArray
    time: IntArray | None = None


def in_memory(facts: Sequence[IntArray], relations: int) -> Questions:
    """`Questions.of` for many facts."""
    pieces = list(made(facts, relations))
    dtype = facts[0].dtype

    def joined(name: str) -> IntArray:
        whole: IntArray = np.concatenate([getattr(piece, name) for piece in pieces]).astype(dtype, copy=False)
        return whole

    return Questions(
        joined("head"),
        joined("relation"),
        np.concatenate([[0], *(piece.counts for piece in pieces)]).cumsum(dtype=np.int64),
        joined("answers"),
        joined("time") if facts[0].shape[1] > 3 else None,
    )


def made(facts: Sequence[IntArray], relations: int) -> Iterator[Piece]:
    """The distinct questions of facts and reciprocals, sorted by (head, relation[, time]), piece by piece."""
    entities = 1 + max((int(part[:, [0, 2]].max(initial=0)) for block in facts for part in _blocks(block)), default=0)
    times = 1 + max((int(part[:, 3:].max(initial=0)) for block in facts for part in _blocks(block)), default=0)
    uses = np.zeros(entities, dtype=np.int64)
    for part in (part for block in facts for part in _blocks(block)):
        for column in (0, 2):
            uses += np.bincount(part[:, column], minlength=entities)
    for low, high in _ranges(uses):
        rows = np.concatenate([rows for part in facts for rows in _rows_of(part, low, high, relations)])
        rows[:, 0] -= low
        widths = (high - low, 2 * relations, times, entities)
        if math.prod(widths) < 2**63:
            yield _by_keys(rows, widths, low)
        else:
            yield _by_columns(rows, low)


def _blocks(facts: IntArray) -> Iterator[IntArray]:
    return (facts[at : at + ROWS] for at in range(0, len(facts), ROWS))


def _ranges(uses: IntArray) -> Iterator[tuple[int, int]]:
    """Ranges of heads with at most `ROWS` questions and answers each; a single head may have more."""
    ends, low = np.cumsum(uses), 0
    while low < len(uses):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + ROWS, side="right")))
        yield low, high
        low = high


def _rows_of(facts: IntArray, low: int, high: int, relations: int) -> Iterator[IntArray]:
    """The facts and reciprocals with heads in a range, as int64 rows of (head, relation, time, answer)."""
    for part in _blocks(facts):
        for asked, answer, turned in ((0, 2, 0), (2, 0, relations)):
            at = np.flatnonzero((part[:, asked] >= low) & (part[:, asked] < high))
            rows = np.zeros((len(at), 4), dtype=np.int64)
            rows[:, 0], rows[:, 1], rows[:, 3] = part[at, asked], part[at, 1], part[at, answer]
            rows[:, 1] += turned
            if part.shape[1] > 3:
                rows[:, 2] = part[at, 3]
            yield rows


def _by_keys(rows: IntArray, widths: tuple[int, ...], low: int) -> Piece:
    """The questions of some rows, each of which becomes one number."""
    keys = rows[:, 0].copy()
    for column in (1, 2, 3):
        keys *= widths[column]
        keys += rows[:, column]
    keys.sort()
    keys = keys[_new(keys)]
    asked, answers = np.divmod(keys, widths[3])
    starts = np.flatnonzero(_new(asked))
    rest, time = np.divmod(asked[starts], widths[2])
    head, relation = np.divmod(rest, widths[1])
    return _piece(head + low, relation, time, starts, answers)


def _by_columns(rows: IntArray, low: int) -> Piece:
    """The same if the numbers would be too large."""
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = rows[_new(rows)]
    starts = np.flatnonzero(_new(rows[:, :3]))
    head, relation, time, _ = rows[starts].T
    return _piece(head + low, relation, time, starts, rows[:, 3])


def _new(rows: IntArray) -> IntArray:
    """True for each row that differs from the one before."""
    new = np.ones(len(rows), dtype=bool)
    differ = rows[1:] != rows[:-1]
    new[1:] = differ.any(axis=1) if rows.ndim > 1 else differ
    return new


def _piece(head: IntArray, relation: IntArray, time: IntArray, starts: IntArray, answers: IntArray) -> Piece:
    counts = np.diff(np.append(starts, len(answers)))
    small = [ids.astype(np.int32) for ids in (head, relation, counts, answers, time)]
    return Piece(*small)


# -- the order of an epoch -------------------------------------------------------------------------------------------


def shuffled(count: int, size: int, seed: int, epoch: int, start: int = 0) -> Iterator[tuple[IntArray, IntArray]]:
    """The order of `count` questions, window by window, from batch number `start` on. A window holds whole batches of `size`.

    A window is the positions of its questions, ascending so that they are read in order, and then an order of these.
    """
    blocks = np.random.default_rng([seed, epoch]).permutation(-(-count // BLOCK))
    ends = np.cumsum(np.minimum(BLOCK, count - blocks * BLOCK))
    window = size * max(1, round(WINDOW / size))
    for number in range(start * size // window, -(-count // window)):
        low, high = number * window, min(count, (number + 1) * window)
        first, last = np.searchsorted(ends, [low, high - 1], side="right").tolist()
        mine = blocks[first : last + 1]
        before = int(ends[first - 1]) if first else 0
        index = segments(mine * BLOCK, np.minimum(BLOCK, count - mine * BLOCK))[low - before : high - before]
        order = np.random.default_rng([seed, epoch, number]).permutation(len(index))
        yield np.sort(index), order[max(0, start * size - low) :]


class Singles(Questions):
    """Every fact as a question with one answer, like `one_by_one`, but made from the whole questions only when taken."""

    whole: Questions

    def __init__(self, whole: Questions) -> None:
        object.__setattr__(self, "whole", whole)

    def __len__(self) -> int:
        return self.whole.facts

    def _at(self, index: IntArray) -> IntArray:
        """The position of the whole question of each fact."""
        offsets = self.whole.offsets
        return np.searchsorted(offsets, np.asarray(index, dtype=offsets.dtype), side="right") - 1

    def take(self, index: IntArray) -> Questions:
        """The facts at these positions."""
        at, whole = self._at(index), self.whole
        time = None if whole.time is None else whole.time[at]
        return Questions(whole.head[at], whole.relation[at], np.arange(len(at) + 1), whole.answers[index], time)

    def distinct(self) -> Questions:
        """The whole questions."""
        return self.whole

    @property
    def answers(self) -> IntArray:
        """The answer of each fact."""
        return self.whole.answers

    @property
    def head(self) -> IntArray:
        """The head of each fact: a copy for all facts."""
        return np.repeat(self.whole.head, self.whole.counts)

    @property
    def relation(self) -> IntArray:
        """The relation of each fact: a copy for all facts."""
        return np.repeat(self.whole.relation, self.whole.counts)

    @property
    def time(self) -> IntArray | None:
        """The time of each fact: a copy for all facts."""
        return None if self.whole.time is None else np.repeat(self.whole.time, self.whole.counts)

    @property
    def offsets(self) -> IntArray:
        """One answer per fact."""
        return np.arange(len(self) + 1, dtype=np.int64)
