"""Words: plain values as text for people, and as JSON. Any room may use this module."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def duration(seconds: float) -> str:
    """A length of time as text.

    >>> duration(0.25), duration(7.31), duration(95), duration(1856), duration(8000), duration(1e6)
    ('0.25 s', '7.3 s', '1.6 min', '31 min', '2.2 h', '278 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.{1 if seconds < 10 * size else 0}f} {unit}"
    return f"{seconds:.2g} s"


def finite(value: Any) -> Any:
    """The value for JSON, which has no nan and no infinity: they become None, also inside mappings and lists.

    >>> finite({"loss": float("nan"), 1: (2.5, float("inf"))})
    {'loss': None, '1': [2.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def short_names(paths: Sequence[Path]) -> list[str]:
    """The names of the folders, with as many parent folders as are needed to tell them apart.

    >>> short_names([Path("/a/seed-0/umls"), Path("/a/seed-1/umls")])
    ['seed-0/umls', 'seed-1/umls']
    """
    whole = [path.resolve().parts for path in paths]
    for size in range(1, max(map(len, whole), default=0)):
        names = ["/".join(parts[-size:]) for parts in whole]
        if len(set(names)) == len(set(whole)):
            return names
    return ["/".join(parts) for parts in whole]


def spelled(name: str, like: str) -> str:
    """A registered name with the capital letters of its class, if the class's name begins with the same letters.

    >>> spelled("complex", "ComplEx"), spelled("dura-ii", "DURAII"), spelled("none", "NoRegularizer")
    ('ComplEx', 'DURA-II', 'none')
    """
    letters = "".join(filter(str.isalnum, name))
    if not like.casefold().startswith(letters.casefold()):
        return name
    capitals = iter(like)
    return "".join(next(capitals) if character.isalnum() else character for character in name)
