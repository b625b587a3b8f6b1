"""Relation categories: 1-1, 1-N, N-1 and N-N, by how many tails a head has and how many heads a tail has."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dura.data.graph import frame
from dura.types import IntArray

CATEGORIES = ("1-1", "1-N", "N-1", "N-N")
UNSEEN = "unseen"
"""The category of a relation without facts."""
MANY = 1.5
"""From so many tails a head on average (or heads a tail) a side counts as N."""


def relation_categories(facts: IntArray, relations: int) -> NDArray[np.str_]:
    """The category of every relation by its (train) facts; repeated facts, also at other times, count once.

    >>> facts = np.array([[0, 0, 1], [0, 0, 2], [3, 1, 4]])
    >>> relation_categories(facts, relations=3).tolist()
    ['1-N', '1-1', 'unseen']
    """
    table = (
        frame(facts[:, :3])
        .unique()
        .group_by("relation")
        .agg(pl.len(), pl.col("head").n_unique().alias("heads"), pl.col("tail").n_unique().alias("tails"))
    )
    seen = table["relation"].to_numpy()
    many_tails = (table["len"] >= MANY * table["heads"]).to_numpy()
    many_heads = (table["len"] >= MANY * table["tails"]).to_numpy()
    names = np.full(relations, UNSEEN)
    names[seen] = np.array(CATEGORIES)[2 * many_heads + many_tails]
    return names
