"""Twins: entities with equal rows. They must tie, however a matrix product rounds their scores.

A product may round equal rows differently at the edges of its tiles (with AVX2 in a third of all questions, with AVX-512 if a
question is alone in its block). So the score of one is copied to the others. If the rows of a table are spread over processes,
twins may live in different ones: the score then travels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.tables import Packed, Sharded
from dura.types import IntArray


@dataclass(frozen=True)
class Twins:
    """Columns of scores to copy: `source` to `copies`, both in this process, or through other processes."""

    copies: Tensor
    source: Tensor
    far: Far | None = None

    def settle_(self, scores: Tensor) -> None:
        """Give twins equal scores, in place."""
        if self.far is not None:
            room = scores.new_zeros(len(scores), self.far.count)
            room[:, self.far.given] = scores[:, self.far.own]
            scores[:, self.far.copies] = world.total(room)[:, self.far.taken]
        scores[:, self.copies] = scores[:, self.source]


@dataclass(frozen=True)
class Far:
    """Scores that travel: `count` columns, of which this process gives some (its columns `own`) and copies some."""

    count: int
    own: Tensor
    given: Tensor
    copies: Tensor
    taken: Tensor


def twins_of(rows: Tensor | Packed) -> Twins | None:
    """The twins among the rows of a table; None if all rows differ."""
    if isinstance(rows, Sharded):
        return _spread_twins(rows)
    if isinstance(rows, Packed):
        earliest = _earliest(rows.fingerprints())
        others = np.flatnonzero(earliest != np.arange(len(rows)))
        return Twins(torch.from_numpy(others), torch.from_numpy(earliest[others])) if len(others) else None
    # Four numbers tell nearly all rows apart. Only the others are compared in full.
    shared = np.flatnonzero(_repeated(_marks(rows[:, :4])))
    if not len(shared):
        return None
    originals = shared[_earliest(rows[torch.from_numpy(shared).to(rows.device)])]
    copies = shared != originals
    if not copies.any():
        return None
    return Twins(torch.from_numpy(shared[copies]).to(rows.device), torch.from_numpy(originals[copies]).to(rows.device))


def _earliest(rows: Tensor) -> IntArray:
    """For each row the position of the first row that equals it."""
    plain = _plain(rows)
    whole = plain.view(np.dtype((np.void, plain[0].nbytes)))[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def _plain(rows: Tensor) -> np.ndarray:
    """The numbers of some rows. Adding 0 turns -0 into 0."""
    values = rows.cpu() if rows.element_size() >= 4 else rows.cpu().float()
    return np.ascontiguousarray(values.numpy() + 0)


def _spread_twins(table: Sharded) -> Twins | None:
    """As for one process. The processes tell each other one number per row, which is the same for equal rows."""
    first, last = table.span
    begin = _gathered(_marks(table.rows[:, :4]), table)
    repeated = _repeated(begin)
    if not repeated.any():
        return None
    # Rows that begin alike are told apart by a number that depends on all of the row.
    here = np.flatnonzero(repeated[first:last])
    whole = np.zeros(last - first, dtype=np.int64)
    whole[here] = _marks(table.rows[torch.from_numpy(here).to(table.device)])
    marks = _gathered(whole, table)
    ids = np.flatnonzero(repeated)
    _, at, inverse = np.unique(np.stack([begin[ids], marks[ids]]), axis=1, return_index=True, return_inverse=True)
    original = ids[at[inverse.reshape(-1)]]
    copies, source = ids[original != ids], original[original != ids]
    if not len(copies):
        return None
    return _placed(table, copies, source)


def _placed(table: Sharded, copies: IntArray, source: IntArray) -> Twins:
    """Sort pairs of copy and source into those inside this process and those that travel."""
    first, last = table.span
    edges = np.array(table.spans.edges)
    apart = np.searchsorted(edges, copies, side="right") != np.searchsorted(edges, source, side="right")
    travel = np.unique(source[apart])

    def inside(ids: IntArray) -> IntArray:
        return np.asarray((ids >= first) & (ids < last))

    def tensor(ids: IntArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(ids)).to(table.device)

    near, far, given = ~apart & inside(copies), apart & inside(copies), np.flatnonzero(inside(travel))
    going = Far(
        count=len(travel),
        own=tensor(travel[given] - first),
        given=tensor(given),
        copies=tensor(copies[far] - first),
        taken=tensor(np.searchsorted(travel, source[far])),
    )
    return Twins(tensor(copies[near] - first), tensor(source[near] - first), going if len(travel) else None)


def _marks(rows: Tensor) -> IntArray:
    """One 64-bit number per row; equal rows have equal numbers, and different rows almost never have."""
    words = _plain(rows).view(np.uint32).astype(np.uint64)
    odd = np.random.default_rng(0).integers(0, 2**64, words.shape[1], dtype=np.uint64) | np.uint64(1)
    mixed = (words * odd).sum(axis=1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).view(np.int64))


def _gathered(marks: IntArray, table: Sharded) -> IntArray:
    """The marks of all rows of a table."""
    every = world.gather(torch.from_numpy(marks).to(table.device), table.spans.sizes)
    return np.asarray(every.cpu().numpy())


def _repeated(marks: IntArray) -> IntArray:
    """True for each mark that occurs more than once."""
    _, inverse, counts = np.unique(marks, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] > 1)
