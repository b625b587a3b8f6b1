"""Numbered: facts as numbers, with files that say which number is which name."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from dura.types import BadInput

PLURALS = {"entity": "entities", "relation": "relations"}
ARTICLES = {"entity": "an", "relation": "a"}


def names_by_number(path: Path, numbers: pl.Series, names: pl.Series, kind: str) -> pl.Series:
    """The names in the order of their numbers. Numbers must be 0, 1, 2, … without a gap, names must differ."""
    values = numbers.cast(pl.Int64, strict=False)
    if values.null_count():
        at = int(values.is_null().arg_true()[0])
        raise BadInput(f"{path} gives the {kind} {names[at]!r} the number {numbers[at]!r}, which is not a whole number")
    frame = pl.DataFrame({"number": values, "name": names}).sort("number")
    expected = pl.arange(0, len(frame), eager=True)
    wrong = (frame["number"] != expected).arg_true()
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(
            f"{path} does not number its {len(frame):,} {PLURALS[kind]} from 0 without gaps: {frame['number'][at]} is where {at} "
            "should be"
        )
    if frame["name"].n_unique() < len(frame):
        twice = frame["name"].filter(frame["name"].is_duplicated())[0]
        raise BadInput(f"{path} names two {PLURALS[kind]} {twice!r}")
    return frame["name"]


def named(path: Path, numbers: pl.Series, names: pl.Series, kind: str, lines: pl.Series) -> pl.Series:
    """The names of a column of numbers."""
    values = numbers.cast(pl.Int64, strict=False)
    wrong = (values.is_null() | (values < 0) | (values >= len(names))).arg_true()
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(
            f"{path}:{lines[at]}: {numbers[at]!r} is not the number of {ARTICLES[kind]} {kind}; these are 0 to {len(names) - 1:,} "
            f"({len(wrong):,} such lines)"
        )
    return names.gather(values)
