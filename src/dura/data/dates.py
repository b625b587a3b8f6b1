"""Dates: columns of times as people write them, turned once into the spelling that `times` keeps.

`decide` looks at all distinct times of a graph and makes a Rule; `Rule.apply` turns a column. So all files of a graph are read by
the same rule. A rule is written as a time format: patterns joined with | (see `forms`), or one of
  number    Times are numbers, as they are.
  label     Times are labels: text without an order of its own.
  unix      Seconds since 1970-01-01 in UTC. unix-ms: milliseconds.
How a rule is found, if the user names none:
  - Numbers alone stay numbers, but if all have eight digits and are dates of the years 1000 to 2999, they are YYYYMMDD.
  - With dots between the parts the day comes first. With / or - and the year at the end, the column has to decide: a first number
    above 12 is a day, and so is a second one above 12. If no number is above 12, the user has to say it.
  - If nine of ten times are dates (or numbers), the others are errors. Otherwise all times are labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import polars as pl

from dura.config.sections import Unit
from dura.data.day_month import DAY_FIRST, in_order
from dura.data.days import DAY, Flags, Moments, Zone, moments, unix
from dura.data.forms import EXAMPLES, Form, Level, form_of, forms_of
from dura.data.times import Times, bare, numbers
from dura.text import shown
from dura.types import BadInput

KNOWN_SHARE = 0.9
"""If this share of the times are dates or numbers, the other times are errors."""
MOVED = 0.3
"""If a zone moves more than this share of the times to another day, days probably begin in another zone."""
LONGEST = 100
"""Longer text is never a date or a number, and is cut in messages."""
NUMBERS, LABELS = "number", "label"
UNIX = {"unix": 1, "unix-ms": 1000}
CLOCK = " HH:MM:SS"
DAYS = (
    "YYYY-MM-DD",
    "YYYY/MM/DD",
    "YYYY.MM.DD",
    "DD.MM.YYYY",
    *DAY_FIRST,
    "DD Month YYYY",
    "Month DD, YYYY",
    "YYYY Month DD",
)
AUTO = (
    "YYYY-MM-DDTHH",
    *(form for day in DAYS for form in (day, day + CLOCK)),
    *("YYYY-MM", "YYYY-Www", "YYYY-Www-D", "Month YYYY", "MM/YYYY", "YYYYMMDDTHHMMSS", "YYYY"),
)
"""The forms that are recognised, in the order in which they are tried."""
SHORT_YEAR = (
    r"^\s*(?:[0-9]{1,2}([-/.])[0-9]{1,2}[-/.][0-9]{2}|[0-9]{1,2}[ .-]+[A-Za-z]{3,9}[ .,-]+'?[0-9]{2})(?:[ T,].*)?$"
)
LIKE_DATE = r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}|(?:^|[^0-9])(?:1[0-9]|20)[0-9]{2}(?:[^0-9]|$)"
NOT_THERE = "is not a date of the calendar"


@dataclass(frozen=True)
class Reading:
    """A column that a rule was applied to. `times` has "" for no time and for bad times."""

    times: pl.Series
    why: pl.Series
    """For each bad time, what is wrong with it, as in "is not a date of the calendar"; null if nothing is."""
    given: pl.Series

    @property
    def bad(self) -> pl.Series:
        """True for each bad time."""
        return self.why.is_not_null()

    def reasons(self, role: str) -> pl.Series:
        """For each bad time a sentence that names it; null if nothing is wrong."""
        short = self.given.str.slice(0, LONGEST).str.replace_all(r"[\p{C}\x{2028}\x{2029}]", "?")
        return pl.select(pl.format(f"the {role} {{}} {{}}", short, self.why)).to_series()


@dataclass(frozen=True)
class Rule:
    """How the times of a graph are written, cut and placed. `notes` and `warnings` are sentences for the user."""

    format: str
    unit: Unit = "auto"
    zone: str = "UTC"
    notes: tuple[str, ...] = field(default=(), compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of times that are dates; none if they are numbers, labels or seconds."""
        return () if self.format in (NUMBERS, LABELS, *UNIX) else forms_of(self.format)

    @property
    def level(self) -> Level:
        """To what times are cut."""
        return "day" if self.unit == "auto" else self.unit

    def apply(self, column: pl.Series) -> Reading:
        """The column in the spelling that `Times` keeps; null is no time."""
        column = column.cast(pl.String).fill_null("")
        given = column.unique()
        times, why = self._turned(bare(given))
        table = pl.DataFrame({"given": given, "times": times, "why": why})
        found = pl.DataFrame({"given": column}).join(table, on="given", how="left", maintain_order="left")
        return Reading(found["times"].alias(column.name), found["why"], column)

    def _turned(self, texts: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Distinct times in their new spelling, and what is wrong with them."""
        if self.format == LABELS:
            return numbers(texts).fill_null(texts), _nothing(len(texts))
        times, seen = _nothing(len(texts)), np.zeros(len(texts), np.bool_)
        if self.format == NUMBERS:
            times = _numbers(texts)
        for rows, found in self._moments(texts):
            times = times.scatter(rows, found.spelled("hour" if self.unit == "auto" and found.whole else self.level))
            seen[rows] = True
        wrong = pl.when(pl.Series(seen)).then(pl.lit(NOT_THERE)).otherwise(pl.lit(self._unlike))
        why = pl.select(pl.when(times.is_null() & (texts != "")).then(wrong)).to_series()
        return times.fill_null(""), why

    @property
    def _unlike(self) -> str:
        if self.format == NUMBERS:
            return "is not a number, but the other times are; leave it empty if the fact has no time"
        if self.format in UNIX:
            return f"is not a number of {'seconds' if self.format == 'unix' else 'milliseconds'}"
        return f"is not written as {' or '.join(self.format.split('|'))}"

    def _moments(self, texts: pl.Series) -> list[tuple[pl.Series, Moments]]:
        """For each form, the rows that are written so and their moments. A row has the first form that fits."""
        zone = Zone(self.zone)
        if self.format in UNIX:
            return [unix(texts, UNIX[self.format], zone)]
        left, result = (
            pl.DataFrame({"text": texts}).with_row_index("row").filter(pl.col("text").str.len_bytes() <= LONGEST),
            [],
        )
        for form in self.forms:
            fits = left["text"].str.contains(form.regex)
            rows = left.filter(fits)
            if len(rows):
                parts = rows["text"].str.extract_groups(form.regex).struct.unnest()
                result.append((rows["row"], moments(parts, form, zone)))
                left = left.filter(~fits)
        return result


@dataclass(frozen=True)
class Dated:
    """Columns that were turned together, and the rule."""

    readings: list[Reading]
    rule: Rule

    @property
    def columns(self) -> list[pl.Series]:
        """The new columns; "" is no time."""
        return [reading.times for reading in self.readings]


def canonical(
    columns: Sequence[pl.Series], *, time_format: str | None = None, unit: Unit = "auto", zone: str = "UTC"
) -> Dated:
    """The columns in the spelling that `Times` keeps, all read by one rule.

    >>> dated = canonical([pl.Series(["06.05.2014", "13.5.2014", None])])
    >>> dated.columns[0].to_list(), dated.rule.format
    (['2014-05-06', '2014-05-13', ''], 'DD.MM.YYYY')
    """
    texts = [column.cast(pl.String).unique() for column in columns]
    values = pl.concat(texts) if texts else pl.Series([], dtype=pl.String)
    rule = decide(values, time_format=time_format, unit=unit, zone=zone)
    return Dated([rule.apply(column) for column in columns], rule)


def decide(values: pl.Series, *, time_format: str | None = None, unit: Unit = "auto", zone: str = "UTC") -> Rule:
    """The rule for these times: the one that `time_format` names, or the one that fits them."""
    if unit not in get_args(Unit):
        raise BadInput(f"the time unit {shown(unit)} is not known; known are {', '.join(get_args(Unit))}")
    Zone(zone)
    texts = bare(values.cast(pl.String).fill_null("").unique()).unique().sort()
    texts = texts.filter(texts != "")
    if time_format:
        word = time_format.strip().lower()
        rule = Rule(word if word in (NUMBERS, LABELS, *UNIX) else time_format.strip(), unit, zone)
        why = rule._turned(texts)[1]
        if len(texts) and (why.is_not_null() & (why != NOT_THERE)).all():
            raise BadInput(
                f"no time is written as {time_format}, for example {shown(texts[0])}; a time format is {EXAMPLES}"
            )
        return _noted(rule, texts)
    return _noted(_found(texts, unit, zone), texts)


def _found(texts: pl.Series, unit: Unit, zone: str) -> Rule:
    """The rule that fits distinct times."""
    plain = _numbers(texts).is_not_null()
    if len(texts) and _compact(texts).all():
        note = f"times such as {texts[0]} are read as dates, YYYYMMDD (numbers: --time-format number)"
        return Rule("YYYYMMDD", unit, zone, notes=(note,))
    forms, years = _matches(texts, plain)
    dates = pl.Series(np.logical_or.reduce([np.zeros(len(texts), np.bool_), *forms.values()]))
    known = dates | years if dates.any() else plain
    if known.sum() < KNOWN_SHARE * len(texts):
        _refuse_short_years(texts, known)
        return Rule(LABELS, unit, zone, warnings=_label_warnings(texts, known, plain))
    if not dates.any():
        return Rule(NUMBERS, unit, zone, warnings=_number_warnings(texts, unit))
    names = in_order(texts, forms) + ["YYYY"] * bool((years & ~dates).any() and "YYYY" not in forms)
    return Rule("|".join(names), unit, zone)


def _matches(texts: pl.Series, plain: pl.Series) -> tuple[dict[str, Flags], pl.Series]:
    """For each form that occurs, which times are written so; and which numbers may be years."""
    left = ~plain & (texts.str.len_bytes() <= LONGEST)
    found: dict[str, Flags] = {}
    for name in AUTO:
        if not left.any():
            break
        rows = left.arg_true()
        fits = rows.filter(texts.gather(rows).str.contains(form_of(name).regex))
        if len(fits):
            found[name] = np.zeros(len(texts), np.bool_)
            found[name][fits] = True
            left = left & ~pl.Series(found[name])
    return found, plain & texts.str.contains(form_of("YYYY").regex)


def _refuse_short_years(texts: pl.Series, known: pl.Series) -> None:
    short = texts.str.contains(SHORT_YEAR) & ~known
    if short.any() and (known | short).sum() >= KNOWN_SHARE * len(texts):
        raise BadInput(
            f"the time {shown(texts.filter(short)[0])} has a year of two digits, which may be of any century; write years with "
            "four digits (labels: --time-format label)"
        )


def _label_warnings(texts: pl.Series, known: pl.Series, plain: pl.Series) -> tuple[str, ...]:
    odd = texts.filter(~known)
    like = odd.filter(odd.str.slice(0, LONGEST).str.contains(LIKE_DATE))
    text = "times are labels in the order of text, one apart,"
    if len(like):
        text += f" although {shown(like[0])} resembles a date; say how dates are written, for example --time-format DD.MM.YYYY"
    elif 2 * known.sum() >= len(texts):
        what = "no date, but others are" if plain.filter(~known)[0] else "neither a date nor a number"
        text += f" because {shown(odd[0])} is {what}; leave the field empty if a fact has no time"
    else:
        return ()
    return (text,)


def _number_warnings(texts: pl.Series, unit: Unit) -> tuple[str, ...]:
    if not len(texts):
        return ()
    compact, years = _compact(texts), texts.str.contains(form_of("YYYY").regex)
    seconds, ms = (texts.str.contains(rf"^1[0-9]{{{digits}}}(?:\.[0-9]*)?$").all() for digits in (9, 12))
    text = f"times such as {shown(texts.filter(~years)[0] if not years.all() else texts[0])} are numbers"
    if 2 * compact.sum() >= len(texts):
        odd = shown(texts.filter(~compact)[0])
        text = f"times are numbers because {odd} is not a date YYYYMMDD, but most are; if all should be: --time-format YYYYMMDD"
    elif seconds or ms:
        text += (
            f", but look like seconds since 1970; --time-format {'unix' if seconds else 'unix-ms'} makes dates of them"
        )
    elif unit != "auto" and not years.all():
        text += f", which --time-unit {unit} does not change"
    else:
        return ()
    return (text,)


def _noted(rule: Rule, texts: pl.Series) -> Rule:
    """The rule with notes on date-times that are cut to days, and on zones that only some times have."""
    if not any(form.level == "hour" for form in rule.forms) and rule.format not in UNIX:
        return rule
    found = [(rows, one) for rows, one in rule._moments(texts) if one.level == "hour"]
    notes = list(rule.notes)
    cut = [(rows, one.seconds % DAY != 0) for rows, one in found if not one.whole]
    if rule.unit == "auto" and (
        lost := next((texts[int(rows[int(at.argmax())])] for rows, at in cut if at.any()), None)
    ):
        notes.append(f"times such as {shown(lost)} are cut to days (to keep hours: --time-unit hour)")
    zoned = sum(int(one.zoned.sum()) for _, one in found)
    every = sum(len(rows) for rows, _ in found)
    if 0 < zoned < every:
        notes.append(
            f"{zoned:,} of {every:,} distinct date-times have a time zone; the others are taken as {rule.zone}"
        )
    return replace(rule, notes=tuple(notes), warnings=(*rule.warnings, *_moved(rule, texts, found)))


def _moved(rule: Rule, texts: pl.Series, found: list[tuple[pl.Series, Moments]]) -> list[str]:
    """A warning if another day is kept than the one that is written, because the day begins at another hour in the wanted zone."""
    for rows, one in found:
        written = texts.gather(rows).str.slice(0, 10)
        other = (
            (written != one.spelled("day"))
            & written.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
            & pl.Series(one.zoned)
        )
        if int(other.sum()) > MOVED * len(rows):
            given = shown(texts[int(rows[int(other.arg_max() or 0)])])
            many = f"{int(other.sum()):,} of {len(rows):,} distinct date-times such as {given} are on another day in {rule.zone}"
            return [f"{many}; if days begin elsewhere, say where, for example --time-zone Europe/Berlin"]
    return []


def _numbers(texts: pl.Series) -> pl.Series:
    """Numbers as they are kept; null for what is not a number, or too long to be one."""
    return pl.select(pl.when(texts.str.len_bytes() <= LONGEST).then(numbers(texts.str.strip_chars()))).to_series()


def _compact(texts: pl.Series) -> pl.Series:
    """Which times are dates YYYYMMDD of the years 1000 to 2999."""
    parts = texts.str.extract_groups(r"^(?P<y>[12][0-9]{3})(?P<m>[0-9]{2})(?P<d>[0-9]{2})$").struct.unnest()
    found = moments(parts, form_of("YYYYMMDD"), Zone())
    return pl.Series(found.valid) & parts["y"].is_not_null()


def _nothing(count: int) -> pl.Series:
    return pl.repeat(None, count, dtype=pl.String, eager=True)


def respelled(times: Times, given: str) -> str:
    """A time as a graph spells it, if the given one is another form of it; otherwise as it is given.

    >>> respelled(Times(["2014-05-06", "2014-05-07"]), "06.05.2014"), respelled(Times(["2014-05", "2014-06"]), "May 6, 2014")
    ('2014-05-06', '2014-05')
    """
    if not given or given in times:
        return given
    for unit in ("auto", *(unit for unit in get_args(Unit) if unit != "auto")):
        try:
            (found,) = canonical([pl.Series([given])], unit=unit).columns
        except BadInput:
            return given
        if found[0] and found[0] in times:
            return str(found[0])
    return given
