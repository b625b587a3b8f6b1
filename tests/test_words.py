from __future__ import annotations

import json
import math
from types import MappingProxyType

import pytest

from dura.words import duration, finite


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.0261, "0.026 s"),
        (59.4, "59 s"),
        (60, "1.0 min"),
        (90, "1.5 min"),
        (600, "10 min"),
        (3599, "60 min"),
        (7300, "2.0 h"),
        (36_000, "10 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_json_cannot_hold_becomes_null() -> None:
    value = {"a": [1.5, math.nan, (math.inf, "x")], "b": MappingProxyType({3: -math.inf}), "c": True, "d": None}
    plain = finite(value)
    assert plain == {"a": [1.5, None, [None, "x"]], "b": {"3": None}, "c": True, "d": None}
    assert plain["c"] is True
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
