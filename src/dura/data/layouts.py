"""Layouts: how the lines of a published graph say when its facts hold, and columns of times to ids.

To add a layout: a function Table -> columns of (head, relation, tail, time), and its row in LAYOUTS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from dura.data.readers import read_columns
from dura.data.table import FACT, FACTS, POINT, ReadOptions, Roles, Table
from dura.data.times import NO_TIME, Times, day_of, number_of, spelled
from dura.types import BadInput, IntArray, Split


@dataclass(frozen=True)
class Layout:
    """The columns of a line, where options do not choose others, and what becomes of them."""

    roles: Roles | None = None
    turn: Callable[[list[pl.Series]], list[pl.Series]] = list

    def read(self, path: Path, options: ReadOptions) -> Table:
        """The facts of a file."""
        if self.roles is not None:
            options = replace(options, columns=tuple(range(len(self.roles))))
        table = read_columns(path, options, self.roles)
        return replace(table, columns=self.turn(table.columns))


def since_until(columns: list[pl.Series]) -> list[pl.Series]:
    """YAGO15k: a fact says since or until when it holds, or nothing; which of them goes into the relation's name.

    Times are years. Two lines have <occursSince> or <occursUntil> but no date: they have no time.
    """
    head, relation, tail, modifier, time = columns
    suffix = modifier.replace_strict({"": "_notime", "<occursSince>": "_since", "<occursUntil>": "_until"})
    return [head, relation + suffix, tail, time.str.extract(r"(-?\d+)-").fill_null("")]


FACTS_AS_THEY_STAND = Layout()
LAYOUTS = {
    "": FACTS_AS_THEY_STAND,
    "point": Layout(POINT),
    "since-until": Layout((*FACT, "modifier", "time"), since_until),
}


@dataclass(frozen=True)
class Stamps:
    """The times of a graph and their columns of ids by split: none, one (time) or two (begin, end)."""

    times: Times | None
    ids: Mapping[Split, list[IntArray]]
    notes: list[str] = field(default_factory=list)


def times_of(name: str, names: Mapping[Split, list[pl.Series]]) -> Stamps:
    """The times among the columns of each split; a split without any beside others with them has facts without a time."""
    widths = {len(columns) for columns in names.values()} - {len(FACT)}
    if not widths:
        return Stamps(None, {part: [] for part in names})
    if len(widths) > 1:
        kinds = ", ".join(
            f"{part} {' and '.join(FACTS[len(columns) - 3][3:]) or 'none'}" for part, columns in names.items()
        )
        raise BadInput(f"the splits of {name!r} have different times ({kinds}); give all of them the same columns")
    (width,) = widths
    columns = {
        part: [spelled(column) for column in given[3:]] or _empty(given[0], width) for part, given in names.items()
    }
    every = [column for part in columns.values() for column in part]
    untimed = any(_untimed(part).any() for part in columns.values())
    times = Times(
        {name for column in every for name in column.unique().to_list() if name} | ({NO_TIME} if untimed else set())
    )
    if not len(times.positions):
        raise BadInput(f"the graph {name!r} has a column of times, but no fact has one; three columns read it without")
    return Stamps(times, {part: _ids(times, given) for part, given in columns.items()}, _notes(times))


def _empty(like: pl.Series, width: int) -> list[pl.Series]:
    """Columns of times for facts that have none."""
    return [pl.repeat(NO_TIME, len(like), dtype=pl.String, eager=True)] * (width - len(FACT))


def _untimed(columns: list[pl.Series]) -> pl.Series:
    """Which facts have no time at all; an interval that is open at one end only has one."""
    empty = pl.Series(np.ones(len(columns[0]), dtype=bool))
    for column in columns:
        empty &= column == NO_TIME
    return empty


def _ids(times: Times, columns: list[pl.Series]) -> list[IntArray]:
    """The columns as ids; an open end is the first or the last time."""
    if len(columns) > 1:
        untimed = _untimed(columns)
        columns = [
            column.set((column == NO_TIME) & ~untimed, bound) for column, bound in zip(columns, times.span, strict=True)
        ]
    return [times.ids(column) for column in columns]


def _notes(times: Times) -> list[str]:
    """Worth telling where most times are dates or numbers, so that order by text may come as a surprise."""
    known = sum(number_of(time) is not None or day_of(time) is not None for time in times)
    if times.kind != "label" or 2 * known < len(times.positions):
        return []
    return [f"times are ordered as text, one apart, because {times.odd!r} is neither a date nor a number"]
