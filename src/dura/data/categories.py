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
"""A side of a relation is N if it has at least this many tails per head (or heads per tail) on average."""


def relation_categories(facts: IntArray, relations: int) -> NDArray[np.str_]:
    """The category of every relation, by these facts (those of train). A fact counts once, also if it is there at several times.

    >>> facts = np.array([[0, 0, 1], [0, 0, 2], [3, 1, 4]])
    >>> relation_categories(facts, relations=3).tolist()
    ['1-N', '1-1', 'unseen']
    """
    counts = (
        frame(facts[:, :3])
        .unique()
        .group_by("relation")
        .agg(pl.len(), pl.col("head").n_unique().alias("heads"), pl.col("tail").n_unique().alias("tails"))
    )
    seen = counts["relation"].to_numpy()
    many_tails = (counts["len"] >= MANY * counts["heads"]).to_numpy()
    many_heads = (counts["len"] >= MANY * counts["tails"]).to_numpy()
    names = np.full(relations, UNSEEN)
    names[seen] = np.array(CATEGORIES)[2 * many_heads + many_tails]
    return names
