"""Text: what other people wrote, parsed within limits and printed without harm.

Settings, records and names may come from a stranger. The parsers of the standard library are safe but have no limits: a deep value
ends in a RecursionError somewhere else, and a key of many parts takes quadratic time. Names reach the terminal, which obeys
control characters.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, NoReturn

MOST_DEPTH = 32
"""How many tables or lists may stand inside each other, and how many parts a dotted key may have."""
MOST_TOML = 1 << 20
"""Bytes of a settings file."""
SHOWN = 100
"""Characters of a value in an error sentence."""

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""The controls of ASCII and of Latin-1 but for tab and line feed, line separators, and what turns the direction of writing."""
_UNSAFE, _UNSAFE_LINE = re.compile(f"[{_CONTROL}]"), re.compile(f"[\\n{_CONTROL}]")
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(f"(?<![\\w-])(?:{_PART}){{{MOST_DEPTH}}}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def printable(text: str, *, lines: bool = True) -> str:
    r"""The text with every character that a terminal would obey written as \u and its code; line breaks stay if `lines`.

    >>> printable("Ann\x1b]0;owned\x07"), printable("two\nlines", lines=False)
    ('Ann\\u001b]0;owned\\u0007', 'two\\u000alines')
    """
    return (_UNSAFE if lines else _UNSAFE_LINE).sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown(value: object) -> str:
    """A value in an error sentence: on one line and cut where it is long.

    >>> shown("name"), len(shown("x" * 10_000))
    ("'name'", 101)
    """
    try:
        whole = printable(repr(value[: 2 * SHOWN] if isinstance(value, str | list | tuple) else value), lines=False)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of too many digits"
    return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}…"


def parse_json(data: bytes) -> Any:
    """The value of a JSON text; a ValueError where it is none, is nested too deeply or holds NaN or Infinity.

    Half of a surrogate pair, which no file can hold as text, becomes a question mark.

    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"its values are nested more than {MOST_DEPTH} deep") from None
    _check_depth(value)
    if _SURROGATE.search(data):
        value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; a ValueError where it is none, too long, or nested too deeply.

    >>> parse_toml("[model]\\nrank = 200")
    {'model': {'rank': 200}}
    """
    if len(text) > MOST_TOML:
        raise ValueError(f"it has {len(text):,} characters, more than {MOST_TOML:,}")
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_DEPTH} parts")
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"its values are nested more than {MOST_DEPTH} deep") from None
    _check_depth(tables)
    return tables


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a number of JSON")


def _check_depth(value: Any) -> None:
    """Refuse values that functions which call themselves could not walk."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_DEPTH):
        inside = [found.values() if isinstance(found, dict) else found for found in level if found]
        level = [found for several in inside for found in several if isinstance(found, dict | list)]
        if not level:
            return
    raise ValueError(f"its values are nested more than {MOST_DEPTH} deep")
