"""The sheet and the figures of a sweep, from plain values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dura.reports.sweeps import draw_history, draw_importance, draw_slices, summary


def row(trial: int, mrr: float | None, state: str = "complete", **values: Any) -> dict[str, Any]:
    shared = {"trial": trial, "valid_mrr": mrr, "state": state, "epochs": 3, "best_epoch": 2, "seconds": 1.25}
    return {**shared, "failure": "the loss became nan" if state == "failed" else None, "values": values}


ROWS = [
    row(1, 0.9, weight=0.003, rank=50, name="dura"),
    row(0, 0.8, weight=0.1, rank=100, name="n3"),
    row(2, 0.5, "pruned", weight=0.0, rank=50, name="dura"),
    row(3, None, "failed", weight=3.0, rank=50, name="dura"),
]


def test_the_summary_holds_every_trial_and_says_why_one_failed() -> None:
    sheet = summary(ROWS, "Sweep", ["a note"])
    assert sheet.columns == ["trial", "valid MRR", "weight", "rank", "name", "epochs", "best epoch", "seconds", "state"]
    assert [line["valid MRR"] for line in sheet.rows] == [0.9, 0.8, 0.5, None]
    assert "| 1 | 0.9000 | 0.003 | 50 | dura | 3 | 2 | 1.2 | complete |" in sheet.markdown()
    assert list(sheet.notes) == ["a note", "Trial 3 failed: the loss became nan."]


def test_a_failed_trial_is_not_called_pruned(tmp_path: Path) -> None:
    rows = [row(0, 0.3), row(1, 0.2, "failed"), row(2, 0.1, "pruned")]
    text = draw_history(rows, tmp_path / "history.svg").read_text()
    assert all(f"<!-- {label} -->" in text for label in ("complete", "pruned", "failed or unfinished"))
    text = draw_history(rows[:2], tmp_path / "history.svg").read_text()
    assert "<!-- pruned -->" not in text


@pytest.mark.parametrize(
    "draw", [draw_history, draw_slices, lambda _, path: draw_importance({"model.rank": 0.7, "optimizer.lr": 0.3}, path)]
)
def test_figures_are_drawn(draw: Callable[[Any, Path], Path], tmp_path: Path) -> None:
    written = draw(ROWS, tmp_path / "new" / "figure.png")
    assert written.read_bytes().startswith(b"\x89PNG")
    assert written.stat().st_size > 5000
