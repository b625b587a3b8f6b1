"""Rounds of a benchmark: who takes part in how many, and whose best counts."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from measure import fastest, interleaved, ratio


def test_a_variant_that_is_clearly_behind_drops_out_and_the_rest_go_on_together() -> None:
    paces = {"dura, 1000": 95.0, "dura, 2000": 100.0, "dura, 10": 20.0, "bound": 120.0, "literal": 5.0}
    turns: Counter[str] = Counter()

    def turn(name: str) -> float:
        turns[name] += 1
        return paces[name] * turns[name]

    found = interleaved({name: partial(turn, name) for name in paces}, repeat=3, seconds=60)

    assert turns == {"dura, 1000": 4, "dura, 2000": 4, "dura, 10": 2, "bound": 4, "literal": 4}
    assert found["bound"] == [240.0, 360.0, 480.0]  # the turn that warms up is left out
    assert sorted(found) == ["bound", "dura, 1000", "dura, 2000", "literal"]
    best = fastest(found, "dura")
    assert best == "dura, 2000" and fastest(found, "PyKEEN") == ""
    assert ratio(found[best], found["literal"]).turns == (20.0, 20.0, 20.0)


def test_rounds_end_with_the_time_but_not_before_the_least_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("measure.time.perf_counter", lambda: float(next(clock)))
    assert [len(turns) for turns in interleaved({"dura": lambda: 1.0}, repeat=9, seconds=5, least=3).values()] == [3]
