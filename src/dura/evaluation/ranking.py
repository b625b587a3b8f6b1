"""Exact filtered ranking: where the truth of each fact stands among all entities, asked from both sides.

Each distinct question is scored once, in blocks of questions × all entities that share one buffer; all its truths are read
from and counted in that one row of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dura.data.questions import Questions, reciprocal
from dura.models import Model
from dura.tables.packed import Packed
from dura.tables.table import flushing
from dura.types import BadInput, DuraError, IntArray, Ranks

Twins = tuple[Tensor, Tensor]
Counts = tuple[IntArray, IntArray, NDArray[np.bool_]]
BLOCK_BYTES = 64 * 2**20
"""Room for the blocks of scores at work: large enough for a fast product, small enough to stay near the processor."""
SMALLEST = 64
"""Fewer questions at a time would read the whole table for too little work."""
STRIP_BYTES = 2**19
"""Rows are counted in strips of about this size: comparing twice and summing then happens inside the cache."""
SURELY_FINITE = 1e37
"""A score whose query and tail have norms with a product below this cannot overflow."""


class Scorer(Protocol):
    """Whatever can be ranked: `compare(query(head, relation), tails())` scores every entity as an answer."""

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The queries [b, w] that ask (head, relation, ?), at these times where facts have any."""

    def tails(self) -> Tensor:
        """The rows of all entities as answers [n, w]."""

    def compare(self, query: Tensor, targets: Any, out: Tensor | None = None) -> Tensor:
        """The scores [b, n] of the queries against what `tails` gave, written to `out` where given."""


def targets(model: Scorer) -> Tensor | Packed:
    """What queries are compared with: all tails, and where a model holds them packed, as they are."""
    return model.targets() if isinstance(model, Model) else model.tails()


def block_size(entities: int, itemsize: int = 4, hands: int = 1) -> int:
    """How many questions to score at a time so that the blocks of all `hands` stay within `BLOCK_BYTES`, but enough for a fast
    product.

    >>> block_size(14_541), block_size(14_541, hands=2), block_size(1_000_000)
    (1153, 576, 64)
    """
    return max(SMALLEST, BLOCK_BYTES // (itemsize * hands * max(1, entities)))


@flushing()
def rank(
    model: Scorer,
    facts: IntArray,
    known: Questions,
    relations: int,
    *,
    block: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ranks:
    """Rank the tail and the head of each fact (h, r, t) among all entities, other known answers left out.

    The tail is asked as (h, r, ?), the head as (t, r + relations, ?). `known` holds the answers to leave out
    (`Graph.known`); the truth itself always competes, be it known or not. The result holds the tail side of all facts in
    their order, then the head side; but for the rounding of scores it depends neither on `block` (how many questions are
    scored at a time) nor on the other facts.
    `progress` is called after each block with the number of questions done and in all.
    """
    if block is not None and block < 1:
        raise BadInput(f"the block is {block}, but at least one question is scored at a time")
    asked = np.concatenate([facts, reciprocal(facts, relations)])
    greater, equal, candidates = (np.zeros(len(asked), dtype=np.int64) for _ in range(3))
    with torch.no_grad():
        tails = targets(model)
        hands = torch.get_num_threads() if tails.device.type == "cpu" else 1
        size = block or block_size(len(tails), tails.dtype.itemsize, hands)
        groups = _group(asked, size)
        answers = known.known(groups.head, groups.relation, groups.time)
        twins, reach = _twins(tails), _longest(tails)
    starts = range(0, len(groups), size)
    hands = max(1, min(hands, len(starts)))
    room_shape = min(size, len(groups)), len(tails)
    rooms = [torch.empty(room_shape, dtype=tails.dtype, device=tails.device) for _ in range(hands)]
    count = _count if tails.device.type == "cpu" else _count_on_device

    @torch.no_grad()
    def work(start: int) -> int:
        room = rooms.pop()
        part = np.arange(start, min(start + size, len(groups)))
        group, drop = groups.take(part), answers.take(part)
        try:
            scores = _score(model, group, tails, twins, reach, room[: len(part)])
            at = group.answers
            greater[at], equal[at], dropped = count(scores, group, asked[at, 2], drop)
        finally:
            rooms.append(room)
        candidates[at] = len(tails) - drop.counts[group.question] + dropped
        return int(part[-1]) + 1

    for done in side_by_side(work, starts, hands):
        if progress is not None:
            progress(done, len(groups))
    side = np.repeat(np.arange(2, dtype=np.int8), len(facts))
    head, relation, tail = (np.tile(facts[:, column], 2) for column in range(3))
    return Ranks(head, relation, tail, side, greater, equal, candidates)


def side_by_side(work: Callable[[int], int], starts: Iterable[int], hands: int) -> Iterator[int]:
    """What `work` returns for each start, in their order, by so many threads at a time.

    Each block is one thread's from the product to the last count: threads that share every product would wait for each
    other at its end, and while one of them counts. torch is told to use one thread for each of them meanwhile.
    """
    if hands == 1:
        yield from map(work, starts)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(hands) as pool:
            yield from pool.map(work, starts)
    finally:
        torch.set_num_threads(threads)


def _group(asked: IntArray, block: int) -> Questions:
    """The distinct questions asked; in place of answers each has the positions in `asked` where it stands.

    Questions of one relation are neighbours, which spares relation matrices to load. Inside a block the questions with most
    truths come first: those that have a j-th truth are then a slice, and no row of scores needs to be copied.
    """
    timed = asked.shape[1] > 3
    order = np.lexsort((asked[:, 0], *((asked[:, 3],) if timed else ()), asked[:, 1]))
    rows = asked[order][:, [0, 1, 3] if timed else [0, 1]].astype(np.int64)
    starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)])
    times = rows[starts, 2] if timed else None
    questions = Questions(rows[starts, 0], rows[starts, 1], np.append(starts, len(rows)), order, times)
    return questions.take(np.lexsort((-questions.counts, np.arange(len(questions)) // block)))


def _score(
    model: Scorer, group: Questions, tails: Tensor | Packed, twins: Twins | None, reach: float, room: Tensor
) -> Tensor:
    """The scores of all entities for these questions, in `room` or other memory that may be written to."""
    asked = [ids for ids in (group.head, group.relation, group.time) if ids is not None]
    query = model.query(*(torch.from_numpy(ids).to(tails.device) for ids in asked))
    scores = model.compare(query, tails, out=room)
    if scores.data_ptr() != room.data_ptr():
        scores = room.copy_(scores)
    if twins is not None:
        scores[:, twins[0]] = scores[:, twins[1]]
    # A NaN in either makes this false, as does a product that might overflow; then each score is looked at.
    if not _longest(query) * reach < SURELY_FINITE:
        _refuse_non_finite(scores, group)
    return scores if scores.element_size() >= 4 else scores.float()


def _longest(rows: Tensor | Packed) -> float:
    """The largest norm of a row."""
    if isinstance(rows, Packed):
        return rows.longest()
    return float(torch.linalg.vector_norm(rows, dim=1).max()) if len(rows) else 0.0


def _refuse_non_finite(scores: Tensor, group: Questions) -> None:
    """A NaN is neither greater nor equal: uncaught, a model full of them would rank every truth first."""
    if torch.isfinite(scores).all():
        return
    row = int((~torch.isfinite(scores)).any(dim=1).nonzero()[0])
    raise DuraError(
        f"the model cannot be ranked: its scores for the question (head {group.head[row]}, relation {group.relation[row]}) "
        "are not all finite numbers; train it again with a smaller learning rate or more regularization"
    )


def _twins(tails: Tensor | Packed) -> Twins | None:
    """Entities whose rows equal an earlier entity's, and those earlier ones; None where all rows differ.

    Equal rows must tie, but a product may round them differently at the edges of its tiles (with AVX2 in a third of all
    questions, with AVX-512 where a question is alone in its block), so the score of one is copied to the others.
    """
    if isinstance(tails, Packed):
        earliest = _earliest(tails.fingerprints())
        others = np.flatnonzero(earliest != np.arange(len(tails)))
        return (torch.from_numpy(others), torch.from_numpy(earliest[others])) if len(others) else None
    # Four numbers tell nearly all rows apart; only the others are compared in full. Adding 0 turns -0 into 0.
    alike = _earliest(tails[:, :4])
    if (alike == np.arange(len(tails))).all():
        return None
    shared = np.flatnonzero(np.bincount(alike, minlength=len(tails))[alike] > 1)
    originals = shared[_earliest(tails[torch.from_numpy(shared).to(tails.device)])]
    copies = shared != originals
    if not copies.any():
        return None
    return torch.from_numpy(shared[copies]).to(tails.device), torch.from_numpy(originals[copies]).to(tails.device)


def _earliest(rows: Tensor) -> IntArray:
    """For each row the position of the first row that equals it."""
    values = rows.cpu() if rows.element_size() >= 4 else rows.cpu().float()
    plain = np.ascontiguousarray(values.numpy() + 0)
    whole = plain.view(np.dtype((np.void, plain[0].nbytes)))[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def _count(scores: Tensor, group: Questions, truth: IntArray, drop: Questions) -> Counts:
    """For each truth of these questions the rivals above it, those on a par, and whether it was among the answers to drop.

    The answers to drop are set to -inf in `scores`. A processor counts with NumPy, which is several times as fast as summing
    booleans with torch, and in strips of rows that stay in its cache.
    """
    values, row, counts = scores.numpy(), group.question, group.counts
    own = values[row, truth]
    values[drop.question, drop.answers] = -np.inf
    dropped = values[row, truth] == -np.inf
    greater, equal = (np.empty(len(truth), dtype=np.int64) for _ in range(2))
    strip = max(1, STRIP_BYTES // values[0].nbytes)
    mask = np.empty((strip, values.shape[1]), dtype=bool)
    for top in range(0, len(values), strip):
        truths = counts[top : top + strip]
        for j in range(truths[0]):
            rows = np.count_nonzero(truths > j)
            at = group.offsets[top : top + rows] + j
            rivals, mine, found = values[top : top + rows], own[at, None], mask[:rows]
            greater[at] = [np.count_nonzero(line) for line in np.greater(rivals, mine, out=found)]
            equal[at] = [np.count_nonzero(line) for line in np.equal(rivals, mine, out=found)]
    # A truth that was not dropped has met itself.
    return greater, equal - ~dropped, dropped


def _count_on_device(scores: Tensor, group: Questions, truth: IntArray, drop: Questions) -> Counts:
    """The same with torch alone: scores that lie on another device are counted there."""
    row, column, drop_row, drop_column = (
        torch.from_numpy(ids.astype(np.int64)).to(scores.device)
        for ids in (group.question, truth, drop.question, drop.answers)
    )
    own = scores[row, column]
    scores[drop_row, drop_column] = -torch.inf
    dropped = scores[row, column] == -torch.inf
    greater, equal = torch.empty_like(row), torch.empty_like(row)
    for j in range(int(group.counts[0])):
        rows = np.count_nonzero(group.counts > j)
        at = torch.from_numpy(group.offsets[:rows] + j).to(scores.device)
        greater[at] = (scores[:rows] > own[at, None]).sum(1)
        equal[at] = (scores[:rows] == own[at, None]).sum(1)
    return greater.cpu().numpy(), (equal - (~dropped).long()).cpu().numpy(), dropped.cpu().numpy()
