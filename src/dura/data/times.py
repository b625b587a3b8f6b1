"""Times: the distinct times of a graph in their real order, with their real distances.

A time is one of
  number  42, -44, 3.5; years alone are numbers too. Positions are the numbers themselves.
  date    2014-05-06, 2014-05 or 2014; parts that are not known are ##, as in 1963-##-##, which is the year 1963. Positions are days
          (of a month or a year: its first), where at least one time names a month.
  label   anything else, if only one of the graph's times is. Order is that of code points, neighbours are 1 apart.
Spellings of one time are one time: "1963-##-##" (also with its quotes) is 1963, 007 is 7, 1.50 is 1.5. Nothing, "-" and
"####-##-##" mean that a fact has no time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from typing import Literal

import numpy as np
import polars as pl

from dura.data.vocabulary import Vocabulary
from dura.types import BadInput, FloatArray, IntArray

Kind = Literal["number", "date", "label"]
NO_TIME = ""
"""The name of the extra time of facts without one."""
NUMBER = re.compile(r"([+-]?)0*(\d*)(?:\.(\d*?)0*)?", re.ASCII)
DATE = re.compile(r"(-?\d{1,4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


def spelling(time: str) -> str:
    """A time as it is kept: without quotes, unknown parts and needless zeros; "" where it is none.

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
    """A column of times as they are kept."""
    given = column.unique()
    kept = pl.Series([spelling(time) for time in given.to_list()], dtype=pl.String)
    return column.replace_strict(given, kept, return_dtype=pl.String)


def number_of(time: str) -> float | None:
    """The number that a time is, None if it is none or too large for one."""
    value = float(time) if NUMBER.fullmatch(time) and any(char.isdigit() for char in time) else math.inf
    return value if math.isfinite(value) else None


def day_of(time: str) -> float | None:
    """The day since 1970-01-01 that a date is or begins with, None if it is no date of the calendar.

    >>> day_of("1970-01-03"), day_of("1971"), day_of("2014-02-30"), day_of("May")
    (2.0, 365.0, None, None)
    """
    match = DATE.fullmatch(time)
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        # The calendar repeats itself after 400 years of 146,097 days, and Python knows the years from 1 on.
        return float(date(year % 400 + 400, month, day).toordinal() - 719_163 + 146_097 * (year // 400 - 1))
    except ValueError:
        return None


class Times(Vocabulary):
    """Distinct times in order of time; a time's place is its id. Where the name "" is among them, it is the last: no time.

    >>> times = Times(["2014-03-01", "2013-12-31", "2014-##-##", ""])
    >>> list(times), times.kind, times.positions.tolist(), times.no_time
    (['2013-12-31', '2014', '2014-03-01', ''], 'date', [16070.0, 16071.0, 16130.0], True)
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        found = {spelling(name) for name in names}
        if any("\n" in name for name in found):
            raise BadInput("a time holds a line break, but vocabularies keep one name a line")
        self.no_time: bool = NO_TIME in found
        """Whether the last id is the extra one of facts without a time; it has no position."""
        real = sorted(found - {NO_TIME})
        self.kind: Kind
        self.kind, places = _places(real)
        # Coarser first, where a month begins with its first day.
        order = sorted(range(len(real)), key=lambda at: (places[at], len(real[at]), real[at]))
        self.positions: FloatArray = np.array([places[at] for at in order], dtype=np.float64)
        """Where each time is, without that of no time: numbers, days since 1970-01-01, or 0, 1, 2, … for labels."""
        kept = [real[at] for at in order] + [NO_TIME] * self.no_time
        self._names = pl.Series("name", kept, dtype=pl.String)

    @property
    def odd(self) -> str | None:
        """The first time that is neither date nor number; None where all are."""
        return next((time for time in self if time and number_of(time) is None and day_of(time) is None), None)

    @property
    def span(self) -> tuple[str, str]:
        """The first and the last time."""
        return self.name(0), self.name(len(self.positions) - 1)

    def __contains__(self, name: str) -> bool:
        return spelling(name) in self._ids

    def id(self, name: str, kind: str = "time") -> int:
        """The id of a time in any spelling; an unknown one is an error that names its neighbours, or what looks like it."""
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
    """What kind of times these are, and where each of them is."""
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
    """The times that look like a date, with month and day in figures, but are none of the calendar."""
    return [
        time for time in column.unique().to_list() if DATE.fullmatch(spelling(time)) and day_of(spelling(time)) is None
    ]


def turned(begin: pl.Series, end: pl.Series) -> pl.Series:
    """Which intervals end before they begin."""
    times = Times(pl.concat([begin, end]))
    first, last = times.ids(begin), times.ids(end)
    none = len(times.positions)
    return pl.Series((first > last) & (first != none) & (last != none))
