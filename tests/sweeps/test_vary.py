"""Variations of one experiment: one setting at a time, continued by the same call, never mixed with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dura.runs.api import choose
from dura.sweeps import vary as module
from dura.sweeps.vary import vary
from dura.training.trainer import Interrupted
from dura.types import BadInput

OVER: dict[str, list[Any]] = {"regularizer.weight": [0.001, 0.01], "model.rank": [2, 3]}


def test_one_setting_changes_at_a_time_and_nothing_is_trained_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = choose("nations/complex-dura", settings={"model.rank": 2, "training.epochs": 1})
    assert experiment.by_path()["regularizer.weight"] == 0.01
    with pytest.raises(Interrupted, match="the same command goes on from here"):
        vary(experiment, OVER, tmp_path / "v", keep=0, stopped=lambda: True)
    found = vary(experiment, OVER, tmp_path / "v", keep=0)
    chosen = sorted(tuple(row["values"].values()) for row in found.rows)
    assert chosen == [(0.001, 2), (0.01, 2), (0.01, 3)]
    assert all(any(Path(row["run"], "checkpoints").iterdir()) for row in found.rows), "keep=0 keeps all tables"
    monkeypatch.setattr(module, "sweep", lambda *_, **__: pytest.fail("begun again"))
    assert vary(experiment, OVER, tmp_path / "v", keep=0).rows == found.rows
    for other, over in ((experiment.with_value("training.seed", 7), OVER), (experiment, {"model.rank": [2, 4]})):
        with pytest.raises(BadInput, match="holds another study; name a new folder"):
            vary(other, over, tmp_path / "v", keep=0)
