"""Days: the calendar for whole columns. Parts of times become seconds, zones move them, and units cut them to their spelling.

The calendar is the Gregorian one for all years from -9999 to 9999 (year 0 is 1 BC), as in ISO 8601. Spellings:
  year  2014      month  2014-05      week  2014-W19      day  2014-05-06      hour  2014-05-06T13
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from dura.data.forms import MONTHS, Form, Level
from dura.text import shown
from dura.types import BadInput

LEVELS: tuple[Level, ...] = ("year", "month", "week", "day", "hour")
DAY = 86_400
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?", re.ASCII)


@dataclass(frozen=True)
class Zone:
    """The zone in which days begin: a name such as Europe/Berlin, or an offset such as +02:00."""

    name: str = "UTC"

    def __post_init__(self) -> None:
        if self._offset is not None:
            return
        try:
            if not self.name:
                raise ValueError
            self.local(np.zeros(1, np.int64))
        except (ValueError, pl.exceptions.PolarsError):
            raise BadInput(f"the time zone {shown(self.name)} is not known{_near(self.name)}") from None

    @cached_property
    def _offset(self) -> int | None:
        found = _OFFSET.fullmatch(self.name)
        if found is None:
            return 0 if self.name in ("UTC", "Z") else None
        offset = int(found[2]) * 3600 + int(found[3] or 0) * 60
        return -offset if found[1] == "-" else offset

    def local(self, seconds: Longs) -> Longs:
        """Seconds since 1970 in UTC as seconds on the clocks of this zone."""
        if self._offset is not None:
            return seconds + self._offset
        moments = pl.Series(seconds * 1000).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(self.name)
        return moments.dt.replace_time_zone(None).to_physical().to_numpy() // 1000


def _near(name: str) -> str:
    """Zones that look like this name, for a message."""
    known = {zone.lower(): zone for zone in sorted(zoneinfo.available_timezones())}
    cities = {zone.rsplit("/", 1)[-1]: zone for zone in known}
    text = name[:60].strip().lower().replace(" ", "_")
    close = difflib.get_close_matches(text, known, n=3, cutoff=0.7)
    close += [cities[city] for city in difflib.get_close_matches(text, cities, n=3, cutoff=0.7)]
    near = list(dict.fromkeys(known[zone] for zone in close))[:3]
    return f"; did you mean {', '.join(near)}?" if near else "; write for example UTC, Europe/Berlin or +02:00"


@dataclass
class Moments:
    """Times as seconds since 1970 on the clocks of the wanted zone, and which of them are in the calendar."""

    seconds: Longs
    valid: Flags
    level: Level
    zoned: Flags
    """True for times that say their zone."""
    whole: bool = False
    """True if times are written as hours, without minutes."""

    def spelled(self, level: Level) -> pl.Series:
        """The times cut to this level; null if they are not in the calendar."""
        days = self.seconds // DAY
        if LEVELS.index(level) > LEVELS.index(self.level):
            level = self.level
        if self.level == "week" and level in ("month", "year"):
            days = days + 3  # a week belongs to the month and year of its Thursday
        if level == "week":
            return self._kept(_weeks(days))
        year, month, day = civil(days)
        return self._kept(_dates(year, month, day, self.seconds % DAY // 3600, level))

    def _kept(self, texts: pl.Series) -> pl.Series:
        return pl.select(pl.when(pl.Series(self.valid)).then(texts)).to_series()


def moments(parts: pl.DataFrame, form: Form, zone: Zone) -> Moments:
    """Moments of the parts that the form's expression found."""

    def number(name: str, default: int) -> Longs:
        if name not in parts.columns:
            return np.full(len(parts), default, np.int64)
        texts = parts[name].str.strip_prefix("+")
        return texts.cast(pl.Int64, strict=False).fill_null(default).to_numpy()

    year = number("y", 0)
    if "b" in parts.columns:
        names = parts["b"].str.slice(0, 3).str.to_lowercase()
        month = names.replace_strict(MONTHS, range(1, 13), default=0, return_dtype=pl.Int64).to_numpy()
    else:
        month = number("m", 1)
    days, valid = from_weeks(year, number("w", 1), number("e", 1))
    if "w" not in parts.columns:
        days, valid = from_civil(year, month, number("d", 1))
    seconds, fine = _clock(number("H", 0), number("M", 0), number("S", 0), parts)
    found = placed(days * DAY + seconds, valid & fine, parts, form.level, zone)
    return replace(found, whole=form.level == "hour" and "M" not in form.groups)


def placed(seconds: Longs, valid: Flags, parts: pl.DataFrame, level: Level, zone: Zone) -> Moments:
    """Moments on the clocks of the zone: those that say their own zone are moved, the others are there already."""
    zoned = np.zeros(len(seconds), np.bool_)
    if "z" in parts.columns:
        zones = parts["z"]
        zoned = zones.is_not_null().to_numpy()
        found = zones.str.extract_groups(r"^([+-])([0-9]{2}):?([0-9]{2})?$").struct.unnest()
        sign = (found.to_series(0) == "-").fill_null(False).to_numpy() * -2 + 1
        hours, minutes = (found.to_series(at).cast(pl.Int64).fill_null(0).to_numpy() for at in (1, 2))
        valid = valid & (hours < 24) & (minutes < 60)
        seconds = seconds - sign * (hours * 3600 + minutes * 60)
        seconds = np.where(zoned, zone.local(np.where(zoned & valid, seconds, 0)), seconds)
    year = civil(seconds // DAY)[0]
    return Moments(seconds, valid & (np.abs(year) <= 9999), level, zoned)


def unix(texts: pl.Series, parts: int, zone: Zone) -> tuple[pl.Series, Moments]:
    """The rows that are numbers, and their moments. Seconds of more than twelve digits are in no calendar."""
    rows = texts.str.contains(r"^\s*[+-]?[0-9]+(?:\.[0-9]*)?\s*$").arg_true()
    numbers = texts.gather(rows).str.strip_chars(" +").str.extract(r"^(-?[0-9]+)").cast(pl.Int64, strict=False)
    seconds = numbers.fill_null(2**62).to_numpy() // parts
    near = np.abs(seconds) < 10**12
    local = zone.local(np.where(near, seconds, 0))
    year = civil(local // DAY)[0]
    return rows, Moments(local, near & (np.abs(year) <= 9999), "hour", np.ones(len(local), np.bool_))


def _clock(hour: Longs, minute: Longs, second: Longs, parts: pl.DataFrame) -> tuple[Longs, Flags]:
    """Seconds since midnight, and which are a time of day. 24:00 is the next midnight; a minute may have a 60th second."""
    if "p" in parts.columns:
        half = parts["p"].str.to_lowercase().fill_null("").to_numpy()
        twelve = half != ""
        valid = ~twelve | ((hour >= 1) & (hour <= 12))
        hour = np.where(twelve, hour % 12 + 12 * (half == "p"), hour)
    else:
        valid = np.ones(len(hour), np.bool_)
    midnight = (hour == 24) & (minute == 0) & (second == 0)
    valid &= ((hour < 24) | midnight) & (minute < 60) & (second <= 60)
    return hour * 3600 + minute * 60 + np.minimum(second, 59), valid


def from_civil(year: Longs, month: Longs, day: Longs) -> tuple[Longs, Flags]:
    """Days since 1970-01-01, and which are in the calendar."""
    at = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first, after = (months.view("M8[M]").astype("M8[D]").astype(np.int64) for months in (at, at + 1))
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= after - first)
    return first + day - 1, valid


def civil(days: Longs) -> tuple[Longs, Longs, Longs]:
    """Year, month and day of days since 1970-01-01."""
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    at = months.astype(np.int64)
    return at // 12 + 1970, at % 12 + 1, days - months.astype("M8[D]").astype(np.int64) + 1


def from_weeks(year: Longs, week: Longs, weekday: Longs) -> tuple[Longs, Flags]:
    """Days since 1970-01-01 of days of ISO weeks, and which are in the calendar."""
    one = np.ones_like(year)
    fourth = from_civil(year, one, one * 4)[0]  # 4 January is always in the first week
    monday = fourth - (fourth + 3) % 7 + 7 * (week - 1)
    return monday + weekday - 1, (week >= 1) & (civil(monday + 3)[0] == year)


def _weeks(days: Longs) -> pl.Series:
    thursday = days - (days + 3) % 7 + 3
    year = civil(thursday)[0]
    one = np.ones_like(year)
    week = (thursday - from_civil(year, one, one)[0]) // 7 + 1
    texts = pl.format("{}-W{}", _padded(year), pl.Series(week).cast(pl.String).str.zfill(2))
    # The first days of the first year may be in the last week of the year before it.
    return pl.select(pl.when(pl.Series(np.abs(year) <= 9999)).then(texts)).to_series()


def _dates(year: Longs, month: Longs, day: Longs, hour: Longs, level: Level) -> pl.Series:
    if level == "year":
        return pl.Series(year).cast(pl.String)
    two = [pl.Series(part).cast(pl.String).str.zfill(2) for part in (month, day, hour)]
    count = {"month": 1, "day": 2, "hour": 3}[level]
    text = "{}-{}-{}T{}"[: 2 + 3 * count]
    return pl.select(pl.format(text, _padded(year), *two[:count])).to_series()


def _padded(year: Longs) -> pl.Series:
    """Years with four digits, as in 0044 and -0044."""
    digits = pl.Series(np.abs(year)).cast(pl.String).str.zfill(4)
    return pl.select(pl.when(pl.Series(year) < 0).then(pl.lit("-") + digits).otherwise(digits)).to_series()
