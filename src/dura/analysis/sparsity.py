"""Sparsity: how the metrics of a model change if the small entries of its entities' rows become zero.

The paper's λ-sparsity s_λ is the share of entries in the entities' tables with an absolute value below λ. Entries are real numbers,
even if two neighbours are one complex number. If heads and tails have separate tables, the same λ holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from dura.models import Model
from dura.tables.packed import index_type
from dura.tables.table import Table
from dura.types import BadInput, Metrics


@dataclass(frozen=True)
class Level:
    """The metrics of a model if a share of its entries is zero, and the bytes that its entities' tables then need.

    `share` is the wanted share of zeros, `zeros` is the actual one. `dense`, `csr` and `csc` are bytes with float32 entries.
    """

    share: float
    zeros: float
    threshold: float
    metrics: Metrics
    dense: int
    csr: int
    csc: int


def entity_tables(model: Model) -> dict[str, Table]:
    """The tables of entities by name: one table, or those of heads and tails."""
    tables = model.entity_tables
    if not tables:
        raise BadInput(
            f"the model {type(model).__name__} does not list its tables of entities, so none can be made small"
        )
    if not all(isinstance(table, Table) for table in tables.values()):
        raise BadInput("the tables of this model are packed already; use the run that it was exported from")
    return {name: table for name, table in tables.items() if isinstance(table, Table)}


def thresholds(model: Model, shares: Sequence[float]) -> list[float]:
    """For each share, the λ such that this share of the entries has an absolute value below λ.

    If several entries are equal to λ, the actual share is smaller, because entries equal to λ are all kept.
    """
    for share in shares:
        if not 0 <= share < 1:
            raise BadInput(f"the share of entries to make zero must be at least 0 and below 1, not {share:g}")
    sizes = np.concatenate([table.detach().abs().cpu().flatten().numpy() for table in entity_tables(model).values()])
    if not np.isfinite(sizes).all():
        raise BadInput(
            "the model's tables hold numbers that are not finite, so no threshold can be found; train it again"
        )
    places = [round(share * len(sizes)) for share in shares]
    sizes.partition([min(place, len(sizes) - 1) for place in places])
    return [float(sizes[min(place, len(sizes) - 1)]) if place else 0.0 for place in places]


@contextmanager
def zeroed(model: Model, threshold: float) -> Iterator[None]:
    """Set every entry below the threshold to zero. On exit the model is as before."""
    tables = entity_tables(model).values()
    before = [table.detach().clone() for table in tables]
    with torch.no_grad():
        for table in tables:
            table.masked_fill_(table.abs() < threshold, 0)
    try:
        yield
    finally:
        with torch.no_grad():
            for table, rows in zip(tables, before, strict=True):
                table.copy_(rows)


def curve(
    model: Model,
    shares: Sequence[float],
    evaluate: Callable[[], Metrics],
    progress: Callable[[int, int], None] | None = None,
) -> list[Level]:
    """The levels of the paper's figure. `evaluate` is called once for each share.

    >>> curve(model, [0.0, 0.7], lambda: evaluate(model, graph).metrics)  # doctest: +SKIP
    """
    levels: list[Level] = []
    for share, threshold in zip(shares, thresholds(model, shares), strict=True):
        with zeroed(model, threshold):
            zeros, dense, csr, csc = _storage(model)
            levels.append(Level(share, zeros, threshold, evaluate(), dense, csr, csc))
        if progress is not None:
            progress(len(levels), len(shares))
    return levels


def _storage(model: Model) -> tuple[float, int, int, int]:
    """The share of zeros, and the bytes of the entities' tables: dense, sparse by rows, sparse by columns."""
    tables = entity_tables(model).values()
    numbers, kept, csr, csc = 0, 0, 0, 0
    for table in tables:
        filled = int(torch.count_nonzero(table))
        numbers, kept = numbers + table.numel(), kept + filled
        csr += sparse_bytes(len(table), table.shape[1], filled)
        csc += sparse_bytes(table.shape[1], len(table), filled)
    return 1 - kept / numbers, 4 * numbers, csr, csc


def sparse_bytes(lines: int, across: int, filled: int) -> int:
    """The bytes of a sparse matrix stored line by line: float32 entries, the place of each in its line, the start of each line.

    Indices have the smallest type that can hold them, as in an exported model.

    >>> sparse_bytes(14_541, 400, 1_744_920), 4 * 14_541 * 400
    (10527688, 23265600)
    """
    starts = (lines + 1) * index_type(filled + 1).itemsize
    return filled * (4 + index_type(across).itemsize) + starts
