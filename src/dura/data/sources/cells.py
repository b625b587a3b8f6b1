"""Cells: columns of any type to text.

Whole numbers are written as such, also if they are floats: a column of numbers with a gap becomes floats in many programs. Dates
and times are in ISO form. NaN is a gap. Lists, structs and bytes are not names, so their columns are left out and named in a note.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

EXACT = 2.0**53
"""Floats below this are exact whole numbers."""
LISTED = 10
"""How many columns a note lists."""


def as_text(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The columns that can be written as text, and the titles of the others."""
    kept = [column for column in frame.get_columns() if not _nested(column.dtype)]
    left_out = [column.name for column in frame.get_columns() if _nested(column.dtype)]
    return pl.DataFrame([text(column) for column in kept]), left_out


def left_out_note(titles: Sequence[str]) -> list[str]:
    """A note that names the columns that are left out; no note if there are none."""
    if not titles:
        return []
    shown = ", ".join(map(repr, titles[:LISTED])) + (", …" if len(titles) > LISTED else "")
    plural = "s" if len(titles) > 1 else ""
    return [f"column{plural} {shown} not used: lists, objects and bytes are not names"]


def text(column: pl.Series) -> pl.Series:
    """One column as text."""
    kind = column.dtype
    if kind.is_float():
        return _floats(column)
    if kind.is_decimal():
        return column.cast(pl.String).str.replace(r"\.0+$", "")
    if isinstance(kind, pl.Datetime):
        return _moments(column, kind)
    if kind == pl.Time:
        return column.dt.to_string("%H:%M:%S%.f")
    if kind == pl.Duration:
        return column.dt.to_string("iso")
    return column.cast(pl.String)


def _nested(kind: pl.DataType) -> bool:
    return kind.is_nested() or kind in (pl.Binary, pl.Object)


def _floats(column: pl.Series) -> pl.Series:
    value = pl.col(column.name)
    whole = value.is_finite() & (value.abs() < EXACT) & (value == value.round())
    texts = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))
    return pl.DataFrame([column.fill_nan(None)]).select(texts.alias(column.name)).to_series()


def _moments(column: pl.Series, kind: pl.Datetime) -> pl.Series:
    """Dates with times. If all are midnight and no time zone is named, they are dates: many programs know no other dates."""
    if kind.time_zone is None and (column.is_null() | (column.dt.truncate("1d") == column)).all():
        return column.dt.date().cast(pl.String)
    return column.dt.to_string("%Y-%m-%dT%H:%M:%S%.f" + ("%:z" if kind.time_zone else ""))
