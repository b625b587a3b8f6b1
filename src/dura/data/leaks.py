"""Leaks: relations whose facts can be read off another relation, or off themselves the other way round.

Relation r gives away relation s if most pairs (h, t) of r are pairs of s too, in the same direction (s nearly
repeats r) or the other (s is nearly r's inverse; r itself if it is symmetric). A test fact (h, s, t) for
which train holds the pair under such an r can then be answered without having learnt anything. Times do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from dura.data.graph import distinct, frame
from dura.types import IntArray

SHARE = 0.8
"""From this share of its pairs on a relation gives the other away."""
LEAST = 10
"""Relations with fewer facts in train are passed over: chance alone makes them look alike."""
JOINED = 20_000_000
"""Rows joined at a time."""


@dataclass(frozen=True)
class Leak:
    """`share` of the `facts` of relation `giver` also hold for `given`, head and tail swapped if `inverse`.

    `answered` counts the test facts of `given` that train gives away by it.
    """

    giver: int
    given: int
    inverse: bool
    share: float
    facts: int
    answered: int

    @property
    def symmetric(self) -> bool:
        """True where a relation gives away itself."""
        return self.giver == self.given


@dataclass(frozen=True)
class Leaks:
    """All leaks, those that answer most test facts first; `answered` counts distinct test facts."""

    found: list[Leak]
    answered: int


def find_leaks(train: IntArray, test: IntArray) -> Leaks:
    """The leaks of train, and how many test facts they answer. Self loops do not count."""
    pairs = _pairs(train)
    asked = frame(distinct(test)[:, :3]).filter(pl.col("head") != pl.col("tail")).with_row_index("fact")
    sizes = pairs.group_by("relation").len("facts").filter(pl.col("facts") >= LEAST)
    large = pairs.join(sizes.select("relation"), on="relation", how="semi")
    tables, answers = [], []
    for inverse in (False, True):
        common = _common(large, pairs, inverse)
        leaks = (
            common.join(sizes, left_on="giver", right_on="relation")
            .with_columns(share=pl.col("common") / pl.col("facts"))
            .filter((pl.col("share") >= SHARE) & (pl.lit(inverse) | (pl.col("giver") != pl.col("given"))))
        )
        givers = large.join(leaks.select("giver").unique(), left_on="relation", right_on="giver", how="semi")
        hits = _joined(givers, asked, inverse).join(leaks, on=["giver", "given"], how="semi")
        counts = hits.group_by("giver", "given").len("answered")
        tables.append(leaks.join(counts, on=["giver", "given"], how="left").with_columns(inverse=pl.lit(inverse)))
        answers.append(hits["fact"])
    table = pl.concat(tables).with_columns(pl.col("answered").fill_null(0))
    table = table.sort("answered", "share", "giver", "given", "inverse", descending=[True, True, False, False, False])
    columns = ["giver", "given", "inverse", "share", "facts", "answered"]
    return Leaks([Leak(*row) for row in table.select(columns).iter_rows()], pl.concat(answers).n_unique())


def _pairs(facts: IntArray) -> pl.DataFrame:
    """Distinct facts without self loops."""
    return frame(facts[:, :3]).filter(pl.col("head") != pl.col("tail")).unique(maintain_order=True)


def _joined(givers: pl.DataFrame, given: pl.DataFrame, inverse: bool) -> pl.DataFrame:
    """Every fact of `given` beside every fact of `givers` of the same pair."""
    left = givers.rename({"relation": "giver"})
    right = given.rename({"relation": "given"})
    swapped = ["tail", "head"] if inverse else ["head", "tail"]
    return right.join(left, left_on=["head", "tail"], right_on=swapped)


def _common(givers: pl.DataFrame, pairs: pl.DataFrame, inverse: bool) -> pl.DataFrame:
    """For each (giver, given) the number of pairs they have in common."""
    counts = [_joined(part, pairs, inverse).group_by("giver", "given").len("common") for part in _parts(givers, pairs)]
    return pl.concat(counts).group_by("giver", "given").agg(pl.col("common").sum())


def _parts(givers: pl.DataFrame, pairs: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The givers in parts, each of which joins to about JOINED rows."""
    several = pairs.group_by("head", "tail").len().select((pl.col("len").cast(pl.Int64) ** 2).sum()).item() or 0
    size = max(1, len(givers) * JOINED // max(int(several), JOINED))
    yield from givers.iter_slices(size) if len(givers) else iter([givers])
