"""Words: values as people and JSON read them. Any room may use this module; it knows nothing but plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def duration(seconds: float) -> str:
    """A length of time as people say it.

    >>> duration(0.25), duration(7.31), duration(95), duration(1856), duration(8000), duration(1e6)
    ('0.25 s', '7.3 s', '1.6 min', '31 min', '2.2 h', '278 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.{1 if seconds < 10 * size else 0}f} {unit}"
    return f"{seconds:.2g} s"


def finite(value: Any) -> Any:
    """The same value for JSON, which has no nan and no infinity: they become None, also inside of mappings and lists.

    >>> finite({"loss": float("nan"), 1: (2.5, float("inf"))})
    {'loss': None, '1': [2.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
