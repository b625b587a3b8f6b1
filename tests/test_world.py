from __future__ import annotations

from pathlib import Path

import pytest

import dura
from dura import world
from dura.types import BadInput
from graphs import random_graph


def test_one_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (world.rank(), world.size(), world.leads()) == (0, 1, True)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert (world.rank(), world.size(), world.leads()) == (0, 1, True)


def test_torchrun_says_which_process_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    assert (world.rank(), world.size(), world.leads()) == (2, 4, False)
    monkeypatch.setenv("RANK", "two")
    with pytest.raises(BadInput, match="RANK is 'two', but it must be a whole number of at least 0"):
        world.rank()


def test_several_processes_do_not_train_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match=r"training runs in one process, but torchrun started 2 \(WORLD_SIZE=2\)"):
        dura.fit(random_graph(), epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
