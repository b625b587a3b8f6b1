"""Times: the distinct times of a graph in their real order, with their real distances.

The times of a graph are all of one kind:
  number  Every time is a number: 42, -44, 3.5. Years alone are numbers too. A position is the number itself.
  date    Every time is a date: 2014-05-06, 2014-05 or 2014, an ISO week 2014-W19 or an hour 2014-05-06T13, and at least one is not
          just a year. Unknown parts are ##: 1963-##-## is the year 1963. A position is a number of days; a week, a month or a year
          is at its first day, and an hour is a part of its day.
  label   At least one time is neither a number nor a date. Then all times are labels, in the order of code points, 1 apart.
Different spellings of a time are the same time: "1963-##-##" (also with the quotes) is 1963, 007 is 7, 1.50 is 1.5. An empty
time, "-" and "####-##-##" mean that a fact has no time. `dates` turns other ways to write a date into these when a file is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

import numpy as np
import polars as pl

from dura.data.readers import FACT, FACTS
from dura.data.vocabulary import Vocabulary
from dura.types import BadInput, FloatArray, IntArray, Split

Kind = Literal["number", "date", "label"]
NO_TIME = ""
"""The name of the extra time that facts without a time have."""
NUMBER = re.compile(r"([+-]?)0*(\d*)(?:\.(\d*?)0*)?", re.ASCII)
NUMBER_PARTS = r"^([+-]?)0*([0-9]*)(?:\.([0-9]*?)0*)?$"
"""NUMBER in the syntax of polars."""
DATE = re.compile(r"(-?\d{1,4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d))?)?)?", re.ASCII)
WEEK = re.compile(r"(-?\d{1,4})-W(\d\d)", re.ASCII)


def spelling(time: str) -> str:
    """A time as it is kept: without quotes, unknown parts and needless zeros; "" if it means no time.

    >>> [spelling(time) for time in ('"1963-##-##"', "1999-04-##", "007", "-0.50", "####-##-##", "-", "May")]
    ['1963', '1999-04', '7', '-0.5', '', '', 'May']
    """
    if len(time) > 1 and time[0] == time[-1] == '"':
        time = time[1:-1]
    while time.endswith("-##"):
        time = time[:-3]
    if time in ("", "-", "####"):
        return NO_TIME
    number = NUMBER.fullmatch(time)
    if number is None or not any(char.isdigit() for char in time):
        return time
    sign, whole, part = number[1], number[2] or "0", number[3]
    value = f"{whole}.{part}" if part else whole
    return f"-{value}" if sign == "-" and value != "0" else value


def spelled(column: pl.Series) -> pl.Series:
    """A column of times as they are kept: `spelling` of each."""
    texts = bare(column)
    return numbers(texts).fill_null(texts)


def bare(texts: pl.Series) -> pl.Series:
    """Times without quotes and unknown parts; "" if they mean no time."""
    texts = texts.str.replace(r'(?s)^"(.*)"$', "$1").str.replace(r"(?:-##)+$", "")
    return texts.set(texts.is_in(["-", "####"]), NO_TIME)


def numbers(texts: pl.Series) -> pl.Series:
    """Numbers as they are kept; null for what is not a number."""
    parts = texts.str.extract_groups(NUMBER_PARTS).struct.unnest()
    sign, whole, part = (parts.to_series(at) for at in range(3))
    value = pl.when(part.fill_null("") == "").then(pl.lit("")).otherwise(pl.lit(".") + part)
    text = pl.when(whole == "").then(pl.lit("0")).otherwise(whole) + value
    minus = pl.when((sign == "-") & (text != "0")).then(pl.lit("-")).otherwise(pl.lit(""))
    digits = texts.str.contains("[0-9]") & whole.is_not_null()
    return pl.select(pl.when(digits).then(minus + text)).to_series()


def number_of(time: str) -> float | None:
    """The time as a number; None if it is not a number or too large for a float."""
    value = float(time) if NUMBER.fullmatch(time) and any(char.isdigit() for char in time) else math.inf
    return value if math.isfinite(value) else None


def day_of(time: str) -> float | None:
    """The days from 1970-01-01 to a date or hour, or to the first day of a week, month or year; None if not in the calendar.

    >>> day_of("1970-01-03"), day_of("1971"), day_of("2014-02-30"), day_of("May")
    (2.0, 365.0, None, None)
    >>> day_of("1970-01-03T12"), day_of("1970-W02")
    (2.5, 4.0)
    """
    match, week = DATE.fullmatch(time), WEEK.fullmatch(time)
    found = match or week
    if found is None:
        return None
    # The calendar repeats itself after 400 years of 146,097 days (20,871 weeks), and Python only has years from 1.
    era, year = divmod(int(found[1]), 400)
    try:
        if match is None:
            day = date.fromisocalendar(year + 400, int(found[2]), 1)
        else:
            day = date(year + 400, int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None
    hour = int(match[4] or 0) if match is not None else 0
    return day.toordinal() - 719_163 + 146_097 * (era - 1) + hour / 24 if hour < 24 else None


class Times(Vocabulary):
    """Distinct times in order of time; the id of a time is its place in this order. The name "" is no time and comes last.

    >>> times = Times(["2014-03-01", "2013-12-31", "2014-##-##", ""])
    >>> list(times), times.kind, times.positions.tolist(), times.no_time
    (['2013-12-31', '2014', '2014-03-01', ''], 'date', [16070.0, 16071.0, 16130.0], True)
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        found = {spelling(name) for name in names}
        if any("\n" in name for name in found):
            raise BadInput("a time holds a line break, but vocabularies keep one name per line")
        self.no_time: bool = NO_TIME in found
        """True if the last id is the extra time of facts without a time. It has no position."""
        real = sorted(found - {NO_TIME})
        self.kind: Kind
        self.kind, places = _places(real)
        # A month comes before its first day, which has the same position.
        order = sorted(range(len(real)), key=lambda at: (places[at], len(real[at]), real[at]))
        self.positions: FloatArray = np.array([places[at] for at in order], dtype=np.float64)
        """The position of each time except no time: numbers, days since 1970-01-01, or 0, 1, 2, … for labels."""
        kept = [real[at] for at in order] + [NO_TIME] * self.no_time
        self._names = pl.Series("name", kept, dtype=pl.String)

    @property
    def span(self) -> tuple[str, str]:
        """The first and the last time."""
        return self.name(0), self.name(len(self.positions) - 1)

    def __contains__(self, name: str) -> bool:
        return spelling(name) in self._ids

    def id(self, name: str, kind: str = "time") -> int:
        """The id of a time in any spelling. The error for an unknown time names the times next to it, or similar ones."""
        found = self._ids.get(spelling(name))
        if found is not None:
            return found
        if spelling(name) == NO_TIME:
            raise BadInput(
                f"no {kind} is given, but every fact of this graph has one, from {self.span[0]} to {self.span[1]}"
            )
        raise BadInput(f"the {kind} {name!r} is not in this graph{self._hint(spelling(name))}")

    def _hint(self, time: str) -> str:
        if self.kind == "label":
            near = [known for known in self.suggest(time) if known]
            return f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        place = number_of(time) if self.kind == "number" else day_of(time)
        first, last = self.span
        if place is None:
            return f", whose times are {self.kind}s from {first} to {last}"
        at = int(np.searchsorted(self.positions, place))
        near = [f"{self.name(at - 1)} before"] if at > 0 else []
        near += [f"{self.name(at)} after"] if at < len(self.positions) else []
        return f"; the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)} it"

    def ids(self, names: pl.Series) -> IntArray:
        """The ids of a column of times that are all in the vocabulary, in any spelling."""
        given = names.unique()
        found = [self.id(name) for name in given.to_list()]
        return names.replace_strict(given, pl.Series(found, dtype=pl.Int32)).to_numpy().astype(np.int32)


def _places(times: list[str]) -> tuple[Kind, list[float]]:
    """The kind of these times, and the position of each."""
    readings: tuple[tuple[Kind, list[float | None]], ...] = (
        ("number", [number_of(time) for time in times]),
        ("date", [day_of(time) for time in times]),
    )
    for kind, read in readings:
        places = [place for place in read if place is not None]
        if len(places) == len(times):
            return kind, places
    return "label", [float(at) for at in range(len(times))]


def bad_dates(column: pl.Series) -> list[str]:
    """The times that are written like a date but are not in the calendar."""
    return [
        time for time in column.unique().to_list() if DATE.fullmatch(spelling(time)) and day_of(spelling(time)) is None
    ]


def turned(begin: pl.Series, end: pl.Series) -> pl.Series:
    """True for each interval that ends before it begins."""
    times = Times(pl.concat([begin, end]))
    first, last = times.ids(begin), times.ids(end)
    none = len(times.positions)
    return pl.Series((first > last) & (first != none) & (last != none))


@dataclass(frozen=True)
class Stamps:
    """The times of a graph, and for each split its columns of time ids: one (time) or two (begin, end)."""

    times: Times
    ids: Mapping[Split, list[IntArray]]


def times_of(name: str, names: Mapping[Split, list[pl.Series]]) -> Stamps:
    """The times in the columns of each split; at least one split has times. Facts of a split without times have no time."""
    widths = {len(columns) for columns in names.values()} - {len(FACT)}
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
        raise BadInput(
            f"the graph {name!r} has a column of times, but no fact has a time; choose only head, relation and tail"
        )
    return Stamps(times, {part: _ids(times, given) for part, given in columns.items()})


def _empty(like: pl.Series, width: int) -> list[pl.Series]:
    """Columns of times for facts that have none."""
    return [pl.repeat(NO_TIME, len(like), dtype=pl.String, eager=True)] * (width - len(FACT))


def _untimed(columns: list[pl.Series]) -> pl.Series:
    """True for each fact without any time. An interval that is open at one end only has a time."""
    empty = pl.Series(np.ones(len(columns[0]), dtype=bool))
    for column in columns:
        empty &= column == NO_TIME
    return empty


def _ids(times: Times, columns: list[pl.Series]) -> list[IntArray]:
    """The columns as ids. An open end is the first or the last time."""
    if len(columns) > 1:
        untimed = _untimed(columns)
        columns = [
            column.set((column == NO_TIME) & ~untimed, bound) for column, bound in zip(columns, times.span, strict=True)
        ]
    return [times.ids(column) for column in columns]
