"""Score: facts one by one, in blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dura.models import Model, SemanticMatching

MOST_BYTES = 64_000_000
"""What the relations of a block may take: where they depend on the time, facts may need one each, and it may be a matrix."""


def score_facts(model: Model, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None = None) -> Tensor:
    """The score of each fact [n], on the CPU: what `model.score` gives."""
    table = model.targets()
    scores = torch.empty(len(head), dtype=table.dtype)
    numbers = math.prod(model.family.shape(model.rank)) if isinstance(model, SemanticMatching) else table.shape[1]
    # Three for each: the rows of relation and time, and what they are together.
    block = max(1, MOST_BYTES // (3 * numbers * table.dtype.itemsize))
    with torch.no_grad():
        for at in range(0, len(head), block):
            h, r, t = (column[at : at + block].to(table.device) for column in (head, relation, tail))
            when = None if time is None else time[at : at + block].to(table.device)
            scores[at : at + block] = model.score(h, r, t, when)
    return scores
