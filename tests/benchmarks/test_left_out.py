"""Left out and unseen: what their tables say follows from the rows."""

from __future__ import annotations

from typing import Any

import left_out
import unseen


def test_the_rule_of_a_graph_is_chosen_by_the_others() -> None:
    """Graph a alone would choose `ratio`, but b and c prefer `root`."""
    valid = {"a": (0.1, 0.2, 0.9), "b": (0.4, 0.5, 0.3), "c": (0.4, 0.6, 0.3)}
    rows = [
        {"graph": graph, "rule": rule, "weight": 0.1, "valid_mrr": mrr, "test_mrr": mrr, "preset_mrr": 0.25}
        for graph, mrrs in valid.items()
        for rule, mrr in zip(left_out.RULES, mrrs, strict=True)
    ]
    lines = left_out.table(rows).splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == ["root", "ratio", "ratio"]
    assert lines[0].endswith("| 0.2000 | 0.250 | -0.0500 |")
    alone = {"graph": "d", "rule": "ratio", "weight": 0.1, "valid_mrr": 9.0, "test_mrr": 0.3, "preset_mrr": 0.25}
    voiceless = left_out.table([*rows, alone]).splitlines()[2:]
    assert voiceless[:3] == lines  # a graph without all rules has no say
    assert voiceless[3].startswith("| d | ratio |")


def test_rare_tails_are_left_out_once() -> None:
    facts = [("a", "r", "x"), ("b", "r", "x"), ("b", "r", "x"), ("a", "s", "y"), ("c", "q", "z")]
    assert unseen.frequent(facts) == [("a", "r", "x"), ("b", "r", "x")]


def _row(mrr: float, **settings: Any) -> dict[str, Any]:
    return {"valid_mrr": mrr, "settings": settings, "chosen": {unseen.WEIGHT: 0.02}}


def test_changes_that_helped_are_tried_together() -> None:
    best = _row(0.5)
    tried = [_row(0.52, rate=1), _row(0.51, rate=2), _row(0.55, batch=3), _row(0.4, epochs=4)]
    assert unseen.together(best, tried) == {"rate": 1, "batch": 3}


def test_a_better_weight_is_followed_further() -> None:
    asked: list[float] = []

    def attempt(settings: dict[str, Any]) -> dict[str, Any]:
        asked.append(settings[unseen.WEIGHT])
        return _row(0.5 + settings[unseen.WEIGHT])

    unseen.weights(_row(0.52), attempt)
    assert asked == [0.01, 0.04, 0.08]
