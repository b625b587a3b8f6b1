"""Text: parse and print text that may come from a stranger, such as settings, records and names.

The parsers of the standard library are safe, but they have no limits: a deeply nested value causes a RecursionError later, and a
key with many parts takes quadratic time. Names are printed to the terminal, which acts on control characters.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NoReturn

MOST_DEPTH = 32
"""How deep tables and lists may be nested, and how many parts a dotted key may have."""
MOST_TOML = 1 << 20
"""The most bytes of a settings file."""
SHOWN = 100
"""The most characters of a value in an error message."""

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Control characters (except tab and line feed), line separators, and marks that change the direction of text."""
_UNSAFE, _UNSAFE_LINE = re.compile(f"[{_CONTROL}]"), re.compile(f"[\\n{_CONTROL}]")
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(f"(?<![\\w-])(?:{_PART}){{{MOST_DEPTH}}}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_toml(source: Traversable) -> Any:
    """The value of a TOML file. A pipe or a device is not read: it may never end."""
    if isinstance(source, Path) and source.exists() and not source.is_file():
        raise OSError(None, "it is not a regular file")
    return parse_toml(source.read_bytes().decode("utf-8"))


def printable(text: str, *, lines: bool = True) -> str:
    r"""The text with every control character written as \u and its code. Line breaks stay if `lines` is true.

    >>> printable("Ann\x1b]0;owned\x07"), printable("two\nlines", lines=False)
    ('Ann\\u001b]0;owned\\u0007', 'two\\u000alines')
    """
    return (_UNSAFE if lines else _UNSAFE_LINE).sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def with_label(name: str, label: str) -> str:
    """A name with its label, if that is another text.

    >>> with_label("Q64", "Berlin"), with_label("Berlin", "Berlin")
    ('Q64 (Berlin)', 'Berlin')
    """
    return name if label == name else f"{name} ({label})"


def shown(value: object) -> str:
    """A value for an error message: on one line, and cut if it is long.

    >>> shown("name"), len(shown("x" * 10_000))
    ("'name'", 101)
    """
    try:
        whole = printable(repr(value[: 2 * SHOWN] if isinstance(value, str | list | tuple) else value), lines=False)
    except ValueError:  # Python does not print numbers of more than 4,300 digits
        return "a number with too many digits"
    return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}…"


def parse_json(data: bytes) -> Any:
    """The value of a JSON text. It is a ValueError if the text is not JSON, is nested too deeply, or holds NaN or Infinity.

    Half of a surrogate pair cannot be written to a file, so it becomes a question mark.

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
    """The tables of a TOML text. It is a ValueError if the text is not TOML, too long, or nested too deeply.

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
    raise ValueError(f"it holds {name}, which JSON does not allow")


def _check_depth(value: Any) -> None:
    """Refuse values that are nested too deeply for recursive functions."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_DEPTH):
        inside = [found.values() if isinstance(found, dict) else found for found in level if found]
        level = [found for several in inside for found in several if isinstance(found, dict | list)]
        if not level:
            return
    raise ValueError(f"its values are nested more than {MOST_DEPTH} deep")
