from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import dura
from dura import world
from dura.cli.main import app
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


def test_a_process_that_cannot_find_the_others_does_not_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match="RANK is not set, but with WORLD_SIZE=2 it must be a number from 0 to 1"):
        dura.fit(random_graph(), epochs=1, out=tmp_path / "run")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(BadInput, match="WORLD_SIZE is set, but MASTER_ADDR or MASTER_PORT is not"):
        dura.fit(random_graph(), epochs=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_commands_that_are_made_for_one_process_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = CliRunner().invoke(app, ["presets"])
    assert isinstance(found.exception, BadInput)
    assert "dura presets runs in one process, but torchrun started 2 (WORLD_SIZE=2)" in str(found.exception)


def test_with_one_process_everything_is_as_it_was() -> None:
    values = torch.tensor([1.0, 2.0])
    assert world.total(values) is values and world.highest(values) is values and world.from_first(values) is values
    assert world.gather(values, [2]) is values and world.scatter_total(values, [2]) is values
    assert world.exchange(values, [2], [2]) is values and world.texts("a") == ["a"]
    assert [block.tolist() for block in world.stream(values, [2])] == [[1.0, 2.0]]
    assert (world.join(), world.grid().shards, world.count("all")) == (world.Grid(), 1, 1)
    with pytest.raises(BadInput, match="wrong"):
        world.together(lambda: _wrong())


def _wrong() -> None:
    raise BadInput("wrong")
