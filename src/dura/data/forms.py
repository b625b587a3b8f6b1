r"""Forms: how a time may be written, as a pattern such as DD.MM.YYYY, and the regular expression that finds its parts.

A pattern holds YYYY, MM, DD, Month (an English name, long or short), Www (an ISO week), HH, MM and SS (MM after HH are minutes). It
may also be a pattern of strftime: %d.%m.%Y. Several patterns are joined with |. A form is as generous as it can be without a doubt:
  - DD and MM may lack a leading zero, unless digits follow each other as in YYYYMMDD.
  - A time of day may lack seconds, may have fractions, AM or PM, and a zone (Z, +02:00, +0200), and follows after T or a blank.
  - With the name of a month, any of blank . , - / may be between the parts, and the day of the week may come first.
The expressions run in polars (the syntax of Rust), so they have no way to take more than linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dura.text import shown
from dura.types import BadInput

Level = Literal["year", "month", "week", "day", "hour"]
"""How fine a form is. A time of day counts as an hour: nothing is finer than that."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
EXAMPLES = "DD.MM.YYYY, MM/DD/YYYY, 'YYYY-MM-DD HH:MM:SS', DD-Month-YYYY or %d.%m.%Y"
LONGEST = 200
"""The most characters of a time format."""

_NAMES = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = r"(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_DAY_ZONE = r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"
_ZONE = r"(?:\s*(?P<z>[Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_SECONDS = r"(?P<S>[0-9]{2})(?:[.,][0-9]+)?"
_HALF = r"(?:\s*(?P<p>[AaPp])\.?[Mm]\.?)?"
_CLOCK = rf"(?:[Tt]|,?\s+)(?P<H>[0-9]{{1,2}})(?::(?P<M>[0-9]{{2}})(?::{_SECONDS})?)?{_HALF}{_ZONE}"
_SHORT_CLOCK = rf"(?:[Tt]|\s+)?(?P<H>[0-9]{{2}})(?P<M>[0-9]{{2}})(?:{_SECONDS})?{_ZONE}"
_HOUR = r"[Tt](?P<H>[0-9]{2})"
_HOUR_SUFFIX = re.compile(r"THH$")
_SUFFIX = re.compile(r"(?:T|,? +)HH?(?:24|12)?(?::M[MI]?(?::SS?(?:[.,][SF]+)?)?)? ?(?:[AP]M)? ?Z*$")
_SHORT_SUFFIX = re.compile(r"(?:T| +)?HHM[MI](?:SS)?Z*$")
_TOKEN = re.compile(r"YYYY|YY|MONTH|MON|MMMM?|MM|MI|M|DD?|WWW|HH(?:24|12)?|H|SS?|AM|PM|F+|Z+|\s+|.", re.DOTALL)
_STRFTIME = {
    "Y": "YYYY", "G": "YYYY", "y": "YY", "m": "MM", "d": "DD", "e": "DD", "b": "MON", "B": "MONTH", "h": "MON", "V": "WW",
    "u": "D", "H": "HH", "I": "HH", "M": "MI", "S": "SS", "f": "F", "p": "AM", "z": "Z", "Z": "Z", "T": "HH:MI:SS",
    "R": "HH:MI", "F": "YYYY-MM-DD", "D": "MM/DD/YY", "%": "%",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One way to write a time: its pattern, and an expression with these groups.

    They are y, m or b (a name), d, w, e (the day of the week), H, M, S, p (A or P) and z (the zone).
    """

    name: str
    regex: str

    @property
    def groups(self) -> frozenset[str]:
        """The parts that a time of this form has."""
        return frozenset(re.findall(r"\(\?P<(\w)>", self.regex))

    @property
    def level(self) -> Level:
        """How fine the times of this form are."""
        if "H" in self.groups:
            return "hour"
        if self.groups & {"d", "e"}:
            return "day"
        if "w" in self.groups:
            return "week"
        return "month" if self.groups & {"m", "b"} else "year"


def forms_of(text: str) -> tuple[Form, ...]:
    """The forms of patterns that are joined with |.

    >>> [(form.name, form.level) for form in forms_of("YYYY | %d.%m.%Y %H:%M")]
    [('YYYY', 'year'), ('%d.%m.%Y %H:%M', 'hour')]
    """
    if len(text) > LONGEST * 10:
        raise BadInput(f"the time format {shown(text)} is too long")
    return tuple(form_of(part.strip()) for part in text.split("|"))


@lru_cache(maxsize=256)
def form_of(pattern: str) -> Form:
    """The form of one pattern; what is wrong with it is a BadInput.

    >>> form_of("YYYYMMDD").regex
    '^\\\\s*(?P<y>[0-9]{4})(?P<m>[0-9]{2})(?P<d>[0-9]{2})(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?\\\\s*$'
    """
    if len(pattern) > LONGEST:
        raise BadInput(f"the time format {shown(pattern)} is too long")
    plain = (_from_strftime(pattern) if "%" in pattern else pattern).upper()
    clock = ""
    for suffix, expression in ((_HOUR_SUFFIX, _HOUR), (_SUFFIX, _CLOCK), (_SHORT_SUFFIX, _SHORT_CLOCK)):
        found = suffix.search(plain)
        if found is not None and not clock:
            plain, clock = plain[: found.start()], expression
    form = Form(pattern, rf"^\s*{_date(pattern, plain)}{clock or _DAY_ZONE}\s*$")
    _check(form)
    return form


def _from_strftime(pattern: str) -> str:
    def word(found: re.Match[str]) -> str:
        if found[1] not in _STRFTIME:
            raise BadInput(f"the time format {shown(pattern)} holds {found[0]}, which is not known; write {EXAMPLES}")
        return _STRFTIME[found[1]]

    return re.sub(r"%[-_0]?(.?)", word, pattern, flags=re.DOTALL)


def _date(pattern: str, plain: str) -> str:
    """The expression of all but a time of day at the end."""
    tokens = _TOKEN.findall(plain)
    named = any(token in ("MONTH", "MON", "MMM", "MMMM") for token in tokens)
    if named:
        # A day that is followed by a dot, a comma or a dash is the same day.
        tokens = _TOKEN.findall(re.sub(r"[\s.,/-]+", " ", plain.strip(" .,")))
    parts = [_WEEKDAY] if named else []
    for at, token in enumerate(tokens):
        close = any(token[:1].isalpha() for token in (*tokens[max(at - 1, 0) : at], *tokens[at + 1 : at + 2]))
        digits = "[0-9]{2}" if close else "[0-9]{1,2}"
        minutes = any(token.startswith("H") for token in tokens[:at]) and "(?P<M>" not in "".join(parts)
        if token == "YYYY":
            parts.append(f"(?P<y>{_year(tokens, at)})")
        elif named and token == " ":
            parts.append(r"[\s.,/-]{1,3}")
        else:
            ordinal = "(?i:st|nd|rd|th)?" if named and token in ("D", "DD") else ""
            parts.append(_part(pattern, token, digits, minutes, "WWW" in tokens) + ordinal)
    return "".join(parts)


def _year(tokens: list[str], at: int) -> str:
    """Four digits. Years before Christ and of three digits are only clear if the year stands first, or alone."""
    if len(tokens) == 1:
        return r"[+-]?[0-9]{1,4}"
    if at == 0 and tokens[1] == "-":
        return r"-[0-9]{1,4}|\+?[0-9]{3,4}"
    return "[0-9]{4}"


def _part(pattern: str, token: str, digits: str, minutes: bool, weeks: bool) -> str:
    """The expression of one token of a pattern."""
    if token == "YY":
        raise BadInput(
            f"the time format {shown(pattern)} has a year of two digits, which may be of any century; write years with four digits"
        )
    if token in ("MONTH", "MON", "MMM", "MMMM"):
        return f"(?P<b>{_NAMES})"
    if token in ("MM", "M", "MI"):
        return f"(?P<M>{digits})" if minutes or token == "MI" else f"(?P<m>{digits})"
    if token in ("DD", "D"):
        return "(?P<e>[1-7])" if weeks else f"(?P<d>{digits})"
    if token.isspace():
        return r"\s+"
    if token[0].isdigit() or token[0].isalpha():
        fixed = {"WWW": "[Ww](?P<w>[0-9]{2})", "AM": _HALF, "PM": _HALF, "S": _SECONDS, "SS": _SECONDS, "T": "[Tt]"}
        fixed |= dict.fromkeys(("HH", "H", "HH24", "HH12"), f"(?P<H>{digits})")
        fixed |= {"Z": _ZONE, "F": "[0-9]*"}
        known = fixed.get(token) or fixed.get(token[0] if token[0] in "FZ" else "")
        if known is None:
            raise BadInput(f"the time format {shown(pattern)} holds {token!r}, which is not known; write {EXAMPLES}")
        return known
    return re.escape(token)


def _check(form: Form) -> None:
    """A form must have a year, and no part twice or without the part above it."""
    names = re.findall(r"\(\?P<(\w)>", form.regex)
    months = len({"m", "b"} & set(names))
    wrong = ""
    if "y" not in names:
        wrong = "has no year (YYYY)"
    elif len(names) > len(set(names)) or months > 1 or (months and "w" in names):
        wrong = "names a part twice"
    elif "d" in names and not months:
        wrong = "has a day but no month (MM)"
    elif "H" in names and not {"d", "e"} & set(names):
        wrong = "has an hour but no day (DD)"
    elif {"M", "S", "p", "z"} & set(names) and "H" not in names:
        wrong = "has minutes, seconds or a zone but no hour (HH)"
    if wrong:
        raise BadInput(f"the time format {shown(form.name)} {wrong}; write for example {EXAMPLES}")
