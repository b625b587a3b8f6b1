"""Exact filtered ranking: the place of each fact's truth among all entities, asked from both sides.

Each distinct question is scored once, in blocks of questions × all entities that share one buffer. All truths of a question are
read from and counted in that one row of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dura import world
from dura.data.questions import Questions, reciprocal
from dura.evaluation.twins import Twins, twins_of
from dura.models import Model
from dura.tables import Packed, Sharded
from dura.tables.table import flushing
from dura.types import BadInput, DuraError, IntArray, Ranks

Counts = tuple[IntArray, IntArray, NDArray[np.bool_]]
T = TypeVar("T")
BLOCK_BYTES = 64 * 2**20
"""Room for the blocks of scores in use: large enough for a fast product, small enough to stay near the processor."""
SMALLEST, FEWEST = 64, 8
"""With fewer than 64 questions at a time, the whole table would be read for too little work. With many entities, fewer must do."""
LARGE_BYTES = 256 * 2**20
"""If 64 questions need more room than this, fewer are scored at a time."""
STRIP_BYTES = 2**19
"""Rows are counted in strips of about this size, so that both comparisons and the sums happen inside the cache."""


@dataclass(frozen=True)
class _Targets:
    """What the questions of a block are compared with."""

    rows: Tensor | Packed
    twins: Twins | None
    longest: float
    """The largest norm of a row."""

    @classmethod
    def of(cls, model: Model, relation: Tensor | None = None, time: Tensor | None = None) -> _Targets:
        """All entities, for this relation and time if the targets depend on them."""
        rows = model.targets(None, relation, time)
        twins = twins_of(rows) if model.comparator.rows_only else None
        return cls(rows.detach() if isinstance(rows, Sharded) else rows, twins, _longest(rows))


def block_size(entities: int, itemsize: int = 4, hands: int = 1) -> int:
    """How many questions to score at a time: the blocks of all `hands` threads fit in `BLOCK_BYTES`, but a product stays fast.

    >>> block_size(14_541), block_size(14_541, hands=2), block_size(1_000_000), block_size(10_000_000)
    (1153, 576, 64, 8)
    """
    line = itemsize * max(1, entities)
    return max(BLOCK_BYTES // (hands * line), min(SMALLEST, max(FEWEST, LARGE_BYTES // line)))


@flushing()
def rank(
    model: Model,
    facts: IntArray,
    known: Questions,
    relations: int,
    *,
    block: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ranks:
    """Rank the tail and the head of each fact (h, r, t) among all entities, without the other known answers.

    The tail is asked as (h, r, ?), the head as (t, r + relations, ?). `known` holds the answers to leave out (`Graph.known`). The
    truth itself always competes, known or not. The result has the tail side of all facts in their order, then the head side. Except
    for the rounding of scores it depends neither on `block` (how many questions are scored at a time) nor on the other facts, nor
    on how the entities are spread over processes: each process counts among its own entities, and the counts are summed.
    `progress` is called after each block with the number of finished questions and of all questions.
    """
    if block is not None and block < 1:
        raise BadInput(f"the block is {block}, but at least one question is scored at a time")
    asked = np.concatenate([facts, reciprocal(facts, relations)])
    greater, equal, candidates = (np.zeros(len(asked), dtype=np.int64) for _ in range(3))
    entities, dtype, device = model.sizes.entities, model.dtype, model.device
    table = model.target_table
    spread = isinstance(table, Sharded)
    (first, last), widest = (
        (table.span, max(table.spans.sizes)) if isinstance(table, Sharded) else ((0, entities), entities)
    )
    hands = torch.get_num_threads() if device.type == "cpu" and not model.grouped_by and not spread else 1
    size = block or block_size(widest, dtype.itemsize, hands)
    groups, parts = _group(asked, size, model.grouped_by)
    grid = world.grid()
    parts = parts[grid.replica :: grid.replicas] if spread else parts[grid.rank :: world.count("all")]
    answers = known.known(groups.head, groups.relation, groups.time)
    hands = max(1, min(hands, len(parts)))
    rooms = [torch.empty(min(size, len(groups)), last - first, dtype=dtype, device=device) for _ in range(hands)]
    count = _count if device.type == "cpu" else _count_on_device
    with model.answering():
        whole = None if model.grouped_by else _Targets.of(model)

        @torch.no_grad()  # each thread has its own mode
        def work(part: IntArray) -> int:
            room = rooms.pop()
            group, drop = groups.take(part), answers.take(part)
            drop = drop.only((drop.answers >= first) & (drop.answers < last), first)
            try:
                scores = _score(model, group, whole or _targets_of(model, group), room[: len(part)], spread)
                at = group.answers
                greater[at], equal[at], dropped = count(scores, group, asked[at, 2] - first, drop, spread)
            finally:
                rooms.append(room)
            candidates[at] = last - first - drop.counts[group.question] + dropped
            return len(part)

        done, total = 0, sum(map(len, parts))

        def run() -> None:
            nonlocal done
            for finished in in_threads(work, parts, hands):
                done += finished
                if progress is not None:
                    progress(done, total)

        world.together(run)
    for counts in (greater, equal, candidates):
        world.total(torch.from_numpy(counts), "all")
    side = np.repeat(np.arange(2, dtype=np.int8), len(facts))
    head, relation, tail = (np.tile(facts[:, column], 2) for column in range(3))
    return Ranks(head, relation, tail, side, greater, equal, candidates)


def in_threads(work: Callable[[T], int], items: Iterable[T], hands: int) -> Iterator[int]:
    """What `work` returns for each item, in their order, with this many threads.

    Each block belongs to one thread, from the product to the last count. Threads that share every product would wait for each other
    at its end, and while one of them counts. Meanwhile torch uses one thread for each of them.
    """
    if hands == 1:
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(hands) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(threads)


def _group(asked: IntArray, block: int, grouped_by: Sequence[str]) -> tuple[Questions, list[IntArray]]:
    """The distinct questions, and the positions of those that are scored together.

    In place of answers, a question has the positions in `asked` where it occurs. Questions of one relation are neighbours, so that
    relation matrices are loaded once. If targets depend on something, the questions of a block share it. Inside a block the
    questions with most truths come first: those that have a j-th truth are then a slice, and no row of scores is copied.
    """
    timed = asked.shape[1] > 3
    keys = [asked[:, 1], *([asked[:, 3]] if timed else [])]
    if tuple(grouped_by) == ("time",):
        keys.reverse()
    order = np.lexsort((asked[:, 0], *reversed(keys)))
    rows = asked[order][:, [0, 1, 3] if timed else [0, 1]].astype(np.int64)
    starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)])
    times = rows[starts, 2] if timed else None
    questions = Questions(rows[starts, 0], rows[starts, 1], np.append(starts, len(rows)), order, times)
    shared = [getattr(questions, name) for name in grouped_by]
    edges = [np.flatnonzero(np.diff(ids)) + 1 for ids in shared]
    cuts = np.unique(np.concatenate([[0, len(questions)], *edges]))
    spans = [(a, b) for low, high in pairwise(cuts.tolist()) for a, b in _spans(low, high, block)]
    number = np.repeat(np.arange(len(spans)), [b - a for a, b in spans])
    questions = questions.take(np.lexsort((-questions.counts, number)))
    return questions, [np.arange(a, b) for a, b in spans]


def _spans(low: int, high: int, size: int) -> Iterator[tuple[int, int]]:
    return ((a, min(a + size, high)) for a in range(low, high, size))


def _targets_of(model: Model, group: Questions) -> _Targets:
    """The targets that the questions of a block share."""
    ids = (group.relation, group.time)
    return _Targets.of(model, *(None if one is None else torch.from_numpy(one[:1]).to(model.device) for one in ids))


def _score(model: Model, group: Questions, targets: _Targets, room: Tensor, spread: bool) -> Tensor:
    """The scores of all entities for these questions, in `room` or other memory that may be written to."""
    asked = [ids for ids in (group.head, group.relation, group.time) if ids is not None]
    query = model.query(*(torch.from_numpy(ids).to(room.device) for ids in asked))
    scores = model.compare(query, targets.rows, out=room)
    if scores.data_ptr() != room.data_ptr():
        scores = room.copy_(scores)
    if targets.twins is not None:
        targets.twins.settle_(scores)
    # A NaN in either norm makes this false; then every score is checked.
    if not model.comparator.finite(_longest(query), targets.longest):
        _refuse_non_finite(scores, group, spread)
    return scores if scores.element_size() >= 4 else scores.float()


def _longest(rows: Tensor | Packed) -> float:
    """The largest norm of a row, in any process."""
    if isinstance(rows, Packed):
        return rows.longest()
    most = torch.linalg.vector_norm(rows.detach(), dim=1).max() if len(rows) else rows.new_zeros(())
    return float(world.highest(most) if isinstance(rows, Sharded) else most)


def _refuse_non_finite(scores: Tensor, group: Questions, spread: bool) -> None:
    """Refuse NaN, which is neither greater nor equal: a model full of it would rank every truth first."""
    bad = _total((~torch.isfinite(scores)).sum(1), spread)
    if not bad.any():
        return
    row = int(bad.nonzero()[0])
    raise DuraError(
        f"the model cannot be ranked: its scores for the question (head {group.head[row]}, relation {group.relation[row]}) "
        "are not all finite numbers; train it again with a smaller learning rate or more regularization"
    )


def _total(values: Tensor, spread: bool) -> Tensor:
    """The sum over the processes that share the entities, in place."""
    return world.total(values) if spread else values


def _count(scores: Tensor, group: Questions, truth: IntArray, drop: Questions, spread: bool) -> Counts:
    """For each truth of these questions: the rivals above it, the equal ones, and whether it was among the answers to drop.

    A truth that lives in another process is a column outside of these scores; its score comes from there.

    The answers to drop are set to -inf in `scores`. On a CPU NumPy counts, several times faster than torch sums booleans, in strips
    of rows that stay in the cache.
    """
    values, row, counts = scores.numpy(), group.question, group.counts
    here = (truth >= 0) & (truth < values.shape[1])
    own = np.zeros(len(truth), dtype=values.dtype)
    own[here] = values[row[here], truth[here]]
    _total(torch.from_numpy(own), spread)
    values[drop.question, drop.answers] = -np.inf
    dropped = np.zeros(len(truth), dtype=bool)
    dropped[here] = values[row[here], truth[here]] == -np.inf
    greater, equal = (np.empty(len(truth), dtype=np.int64) for _ in range(2))
    strip = max(1, STRIP_BYTES // max(1, values[:1].nbytes))
    mask = np.empty((strip, values.shape[1]), dtype=bool)
    for top in range(0, len(values), strip):
        truths = counts[top : top + strip]
        for j in range(truths[0]):
            rows = np.count_nonzero(truths > j)
            at = group.offsets[top : top + rows] + j
            rivals, mine, found = values[top : top + rows], own[at, None], mask[:rows]
            greater[at] = [np.count_nonzero(line) for line in np.greater(rivals, mine, out=found)]
            equal[at] = [np.count_nonzero(line) for line in np.equal(rivals, mine, out=found)]
    # A truth that was not dropped has been compared with itself.
    return greater, equal - (here & ~dropped), dropped


def _count_on_device(scores: Tensor, group: Questions, truth: IntArray, drop: Questions, spread: bool) -> Counts:
    """The same with torch alone, for scores on another device."""
    row, column, drop_row, drop_column = (
        torch.from_numpy(ids.astype(np.int64)).to(scores.device)
        for ids in (group.question, truth, drop.question, drop.answers)
    )
    here = ((column >= 0) & (column < scores.shape[1])).nonzero().flatten()
    own, dropped, mine = scores.new_zeros(len(column)), torch.zeros_like(column).bool(), torch.zeros_like(column).bool()
    own[here], mine[here] = scores[row[here], column[here]], True
    _total(own, spread)
    scores[drop_row, drop_column] = -torch.inf
    dropped[here] = scores[row[here], column[here]] == -torch.inf
    greater, equal = torch.empty_like(row), torch.empty_like(row)
    for j in range(int(group.counts[0])):
        rows = np.count_nonzero(group.counts > j)
        at = torch.from_numpy(group.offsets[:rows] + j).to(scores.device)
        greater[at] = (scores[:rows] > own[at, None]).sum(1)
        equal[at] = (scores[:rows] == own[at, None]).sum(1)
    return greater.cpu().numpy(), (equal - (mine & ~dropped).long()).cpu().numpy(), dropped.cpu().numpy()
