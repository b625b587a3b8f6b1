"""Score: the scores of given facts, computed in blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dura.models import Model, SemanticMatching

MOST_BYTES = 64_000_000
"""The most bytes for the relations of a block. Each fact may have another relation, and a relation may be a matrix."""


def score_facts(model: Model, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
    """The score of each fact [n], as `model.score` gives it, on the CPU."""
    scores = torch.empty(len(head), dtype=model.dtype)
    numbers = math.prod(model.family.shape(model.rank)) if isinstance(model, SemanticMatching) else model.rank**2
    # Three rows per fact: those of the relation and the time, and their product.
    block = max(1, MOST_BYTES // (3 * numbers * model.dtype.itemsize))
    with model.answering():
        for at in range(0, len(head), block):
            h, r, t = (column[at : at + block].to(model.device) for column in (head, relation, tail))
            when = None if time is None else time[at : at + block].to(model.device)
            scores[at : at + block] = model.score(h, r, t, when)
    return scores
