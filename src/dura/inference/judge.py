"""Judge: how plausible known facts are to a model, each among all entities that could stand in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dura.data.questions import Questions, reciprocal
from dura.inference.predict import check_finite
from dura.models import Model
from dura.types import FloatArray, IntArray

BLOCK_BYTES = 64 << 20
"""Room for a block of scores."""
SPREAD = 1e-9
"""Deviations below this are zero but for rounding."""


@dataclass(frozen=True)
class Judged:
    """What a model makes of facts: one row per fact, with a column for its tail and one for its head.

    `share` [n, 2] is the logarithm of the softmax share of the fact's own entity among itself and all that are not known answers.
    `rank` [n, 2] is its filtered rank, from 1.
    """

    share: FloatArray
    rank: FloatArray

    def plausibility(self, relation: IntArray, degrees: IntArray) -> FloatArray:
        """One number per fact: how many standard deviations it is more plausible than facts like it. The better side counts.

        Facts like it have the same `relation` [n] and entities about which as much is known: `degrees` [n, 2] are the numbers of
        training facts of its head and its tail. Without that, the least plausible facts would be those of difficult relations and
        of entities about which little is known. NaN for facts that were not judged.
        """
        sides = [unusual(-np.log(self.rank[:, side]), relation, np.log1p(degrees)) for side in range(2)]
        better: FloatArray = np.maximum(*sides)
        return better


def unusual(y: FloatArray, group: IntArray, x: FloatArray) -> FloatArray:
    """How far each number is from the mean of its group, corrected for a quadratic form of x [n, 2], in deviations of the group.

    >>> unusual(np.array([1.0, 3.0, 9.0, 9.0]), np.array([0, 0, 1, 1]), np.zeros((4, 2))).tolist()
    [-1.0, 1.0, 0.0, 0.0]
    """
    there = np.isfinite(y)
    own, counts = group[there], np.maximum(1, np.bincount(group[there], minlength=int(group.max(initial=0)) + 1))

    def centred(values: FloatArray) -> FloatArray:
        return values - (np.bincount(own, values, len(counts)) / counts)[own]

    a, b = x[there].T
    forms = np.stack([centred(form) for form in (a, b, a * a, b * b, a * b)], axis=1)
    rest = centred(y[there])
    rest = rest - forms @ np.linalg.lstsq(forms, rest, rcond=None)[0]
    spread = np.sqrt(np.bincount(own, rest**2, len(counts)) / counts)[own]
    found = np.full(len(y), np.nan)
    found[there] = np.where(spread > SPREAD, rest / np.maximum(spread, SPREAD), 0.0)
    return found


def judge(
    model: Model,
    facts: IntArray,
    known: Questions,
    relations: int,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Judged:
    """Judge facts from both sides. All of them must be among the known answers, which do not compete with each other."""
    asked = np.concatenate([facts, reciprocal(facts, relations)]).astype(np.int64)
    timed = asked.shape[1] > 3
    keys = [0, 1, 3] if timed else [0, 1]
    order = np.lexsort([asked[:, key] for key in ([0, 3, 1] if timed else [0, 1])])
    rows = asked[order]
    starts = np.flatnonzero(np.append(True, (rows[1:, keys] != rows[:-1, keys]).any(axis=1))[: len(rows)])
    ends = np.append(starts, len(rows))
    share, rank = np.empty(len(rows)), np.empty(len(rows))
    size = max(1, BLOCK_BYTES // (4 * model.sizes.entities))
    with model.answering():
        for a in range(0, len(starts), size):
            b = min(a + size, len(starts))
            part = slice(ends[a], ends[b])
            which = np.repeat(np.arange(b - a), np.diff(ends[a : b + 1]))
            share[part], rank[part] = _block(model, rows[starts[a:b]], rows[part, 2], which, known)
            progress(b, len(starts))
    place = np.argsort(order)
    return Judged(*(values[place].reshape(2, -1).T.copy() for values in (share, rank)))


def _block(
    model: Model, questions: IntArray, answers: IntArray, which: IntArray, known: Questions
) -> tuple[FloatArray, FloatArray]:
    """Log share and rank of each answer; `which` says to which of the questions it belongs."""
    columns = [
        torch.from_numpy(questions[:, at].copy()).to(model.device) for at in (0, 1, *range(3, questions.shape[1]))
    ]
    scores = model.score_all(*columns)
    check_finite(scores)
    row = torch.from_numpy(which).to(model.device)
    own = scores[row, torch.from_numpy(answers).to(model.device)]
    others = known.known(questions[:, 0], questions[:, 1], questions[:, 3] if questions.shape[1] > 3 else None)
    drop = (torch.from_numpy(ids.astype(np.int64)).to(model.device) for ids in (others.question, others.answers))
    scores[tuple(drop)] = -torch.inf
    share = own - torch.logaddexp(scores.logsumexp(1)[row], own)
    rank = torch.empty_like(own, dtype=torch.float64)
    for a in range(0, len(row), len(scores)):  # as many facts at a time as there are questions: the same room
        rivals, mine = scores[row[a : a + len(scores)]], own[a : a + len(scores), None]
        rank[a : a + len(scores)] = 1 + (rivals > mine).sum(1) + 0.5 * (rivals == mine).sum(1)
    return share.double().cpu().numpy(), rank.cpu().numpy()
