"""The study of the theorems: what its sheet and figure show, and that a failure ends the command."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from dura.studies import theory
from dura.studies.theory import command, compute, draw, sheets
from folders import png_size


def plain(holds: bool = True) -> dict[str, Any]:
    """What a study finds, made up."""
    bounded = {"bounded": True, "gap": 3e-16, "moved": 1e-15, "ends": 2e-16, "conditions": 1e-8, "lowest": 1.0}
    none = {"bounded": False, "gap": None, "moved": None, "ends": 3.0, "conditions": None, "lowest": 0.4}
    verdicts = [
        {
            "statement": name,
            "regularizer": regularizer,
            "model": "cp",
            "ratios": ratios,
            "paths": [[3.0, 1.5, 1.0]],
            "holds": holds,
            **about,
        }
        for name, regularizer, ratios, about in (
            ("Theorem 1", "dura", [1.00000001, 4.0], bounded),
            ("Theorem 1, complex", "dura", [1.0, 9.0], bounded),
            ("p = 1 instead of 2", "reg-p1", [0.0, 0.5, 2.0], none),
        )
    ]
    return {"seed": 3, "size": 6, "trials": verdicts}


def test_the_sheet_carries_the_verdict() -> None:
    rows = sheets(plain())["theory"].rows
    assert rows[0]["least ratio"] == "1.0000000100"
    assert rows[0]["at minimizers"] == "3e-16"
    assert [row["verdict"] for row in rows] == ["holds", "holds", "no bound, as the paper says"]
    assert rows[2]["at minimizers"] == rows[2]["minimised: gap"] == ""
    verdicts = [row["verdict"] for row in sheets(plain(holds=False))["theory"].rows]
    assert verdicts == ["FAILS", "FAILS", "no counterexample found"]


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    assert png_size(draw(plain(), tmp_path / "theory.png"))[0] > 600


def test_what_was_found_is_plain() -> None:
    found = compute(draws=1, starts=1, size=2, seed=5)
    json.dumps(found, allow_nan=False)
    assert (found["seed"], found["size"], len(found["trials"])) == (5, 2, 12)


@pytest.mark.parametrize(
    ("holds", "failure"),
    [(True, ""), (False, "these statements did not hold: Theorem 1, Theorem 1, complex, p = 1 instead of 2")],
)
def test_a_statement_that_fails_is_written_and_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: bool, failure: str
) -> None:
    monkeypatch.setattr(theory, "compute", lambda **_: plain(holds))
    made = command(out=tmp_path, bar=lambda _: contextlib.nullcontext(lambda *_: None))
    assert made.failure == failure
    assert (tmp_path / "theory.json").exists()
