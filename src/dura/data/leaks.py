"""Leaks: relations whose facts follow from another relation, or from the relation itself with head and tail swapped.

Relation r gives away relation s if most pairs (h, t) of r are also pairs of s: in the same direction (s nearly repeats r) or
swapped (s is nearly the inverse of r; a symmetric r is its own inverse). If train holds the pair of a test fact (h, s, t) under
such an r, a model can answer the test fact without having learnt anything else. Times do not count.

Whether a relation leaks is a property of the graph, so it is best seen in all facts: if a fifth of the facts is held out, train
holds both directions of a fully symmetric relation for only about four fifths of its pairs, and the relation looks harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from dura.data.graph import distinct, frame
from dura.types import IntArray

SHARE = 0.8
"""A relation gives away another one if at least this share of its pairs are pairs of the other one."""
LEAST = 10
"""Relations with fewer facts are left out: they look alike by chance."""
JOINED = 20_000_000
"""About how many joined pairs are in memory at a time."""


@dataclass(frozen=True)
class Leak:
    """A `share` of the `facts` of relation `giver` also holds for relation `given`, with head and tail swapped if `inverse`.

    `answered` is the number of test facts of `given` that train gives away like this.
    """

    giver: int
    given: int
    inverse: bool
    share: float
    facts: int
    answered: int

    @property
    def symmetric(self) -> bool:
        """True if a relation gives away itself."""
        return self.giver == self.given


@dataclass(frozen=True)
class Leaks:
    """All leaks; those that answer most test facts come first. `answered` is the number of distinct test facts."""

    found: list[Leak]
    answered: int


def find_leaks(train: IntArray, test: IntArray, among: IntArray | None = None) -> Leaks:
    """The leaks among some facts (those of train, if no others are given), and how many test facts they and train answer.

    Self loops do not count.
    """
    known = _pairs(train)
    pairs = known if among is None else _pairs(among)
    tested = frame(distinct(test)[:, :3]).filter(pl.col("head") != pl.col("tail")).with_row_index("fact")
    sizes = pairs.group_by("relation").len("facts").filter(pl.col("facts") >= LEAST)
    large = pairs.join(sizes.select("relation"), on="relation", how="semi")
    both, answers = [], []
    for inverse in (False, True):
        common = _common(large, pairs, inverse)
        leaks = (
            common.join(sizes, left_on="giver", right_on="relation")
            .with_columns(share=pl.col("common") / pl.col("facts"))
            .filter((pl.col("share") >= SHARE) & (pl.lit(inverse) | (pl.col("giver") != pl.col("given"))))
        )
        givers = known.join(leaks.select("giver").unique(), left_on="relation", right_on="giver", how="semi")
        hits = _joined(givers, tested, inverse).join(leaks, on=["giver", "given"], how="semi")
        counts = hits.group_by("giver", "given").len("answered")
        both.append(leaks.join(counts, on=["giver", "given"], how="left").with_columns(inverse=pl.lit(inverse)))
        answers.append(hits["fact"])
    every = pl.concat(both).with_columns(pl.col("answered").fill_null(0))
    every = every.sort("answered", "share", "giver", "given", "inverse", descending=[True, True, False, False, False])
    columns = ["giver", "given", "inverse", "share", "facts", "answered"]
    return Leaks([Leak(*leak) for leak in every.select(columns).iter_rows()], pl.concat(answers).n_unique())


def _pairs(facts: IntArray) -> pl.DataFrame:
    """Distinct facts without self loops."""
    return frame(facts[:, :3]).filter(pl.col("head") != pl.col("tail")).unique(maintain_order=True)


def _joined(givers: pl.DataFrame, given: pl.DataFrame, inverse: bool) -> pl.DataFrame:
    """Every fact of `given` together with every fact of `givers` that has the same pair."""
    left = givers.rename({"relation": "giver"})
    right = given.rename({"relation": "given"})
    swapped = ["tail", "head"] if inverse else ["head", "tail"]
    return right.join(left, left_on=["head", "tail"], right_on=swapped)


def _common(givers: pl.DataFrame, pairs: pl.DataFrame, inverse: bool) -> pl.DataFrame:
    """The number of common pairs of each (giver, given)."""
    counts = [_joined(part, pairs, inverse).group_by("giver", "given").len("common") for part in _parts(givers, pairs)]
    return pl.concat(counts).group_by("giver", "given").agg(pl.col("common").sum())


def _parts(givers: pl.DataFrame, pairs: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The givers in parts, each of which gives about JOINED joined pairs."""
    several = pairs.group_by("head", "tail").len().select((pl.col("len").cast(pl.Int64) ** 2).sum()).item() or 0
    size = max(1, len(givers) * JOINED // max(int(several), JOINED))
    yield from givers.iter_slices(size) if len(givers) else iter([givers])
