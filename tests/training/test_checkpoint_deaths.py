"""Checkpoints of processes that die and of disks that are full: the old or the new one is whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from checkpoints import save, step_of, table
from disks import linux, names, output, small_disk
from dura.training.checkpoint import Checkpoints
from dura.types import DuraError


class Killed(BaseException):
    """Stands for the end of the process at one system call."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [20, 30])
def test_death_at_each_rename_and_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, step: int
) -> None:
    """Whatever the system call before or after which the process dies, the old or the new pair is whole."""
    done, calls, died = {name: getattr(Path, name) for name in ("replace", "unlink")}, 0, 0

    def dying(name: str) -> Callable[..., Any]:
        def call(self: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls -= 1
            if calls == 0 and not after:
                raise Killed
            result = done[name](self, *arguments, **options)
            if calls == 0:
                raise Killed
            return result

        return call

    for last in range(1, 12):
        folder = tmp_path / str(last)
        checkpoints = Checkpoints(folder)
        save(checkpoints, 10, 20)
        checkpoints.save_best(20, table(20), {"step": 20})
        with monkeypatch.context() as patch:
            for name in done:
                patch.setattr(Path, name, dying(name))
            calls = last
            try:
                save(checkpoints, step)
                checkpoints.save_best(step, table(step), {"step": step})
            except Killed:
                died += 1
        assert step_of(checkpoints.newest()) in (20, step)
        assert step_of(checkpoints.best()) in (20, step)
    assert 6 <= died < 11  # the range of calls was wide enough to see a whole save


KILL = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
from dura.training.checkpoint import Checkpoints

checkpoints, rng = Checkpoints(Path(sys.argv[1])), random.Random(0)

def table(step):
    return {"table": torch.full((50_000,), float(step)), "steps": torch.tensor(step)}

def check(saved):
    tensors, state = saved
    assert tensors["steps"].item() == state["step"] and bool((tensors["table"] == state["step"]).all())
    return state["step"]

def train(step):
    while True:
        checkpoints.save(step, table(step), {"step": step})
        checkpoints.save_best(step, table(step), {"step": step})
        step += 1

last, best, notes, kills = 0, 0, [], 0
began = time.monotonic()
checkpoints.save(0, table(0), {"step": 0})
checkpoints.save_best(0, table(0), {"step": 0})
pace = time.monotonic() - began  # of this disk: kill after up to three rounds of saving, later on a busy machine
spent = lambda: time.monotonic() - began
while spent() < float(sys.argv[2]) or (last < 3 and spent() < 60):
    child = os.fork()
    if child == 0:
        train(last)
    time.sleep(rng.uniform(0, 3 * pace + 0.02 * kills))
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    kills += 1
    before, last, best = (last, best), check(checkpoints.newest(notes.append)), check(checkpoints.best())
    assert last >= before[0] and best >= before[1]
left = [name for name in os.listdir(sys.argv[1]) if name.endswith(".tmp")]
print(json.dumps({"kills": kills, "steps": last, "notes": notes, "left": len(left)}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and kill -9")
def test_kill_minus_nine_at_random_moments(tmp_path: Path) -> None:
    seen = json.loads(output(KILL, tmp_path, 2))
    assert seen["kills"] >= 3 and seen["steps"] >= 1
    assert all("was never finished" in note for note in seen["notes"])
    assert step_of_any(Checkpoints(tmp_path).newest()) == seen["steps"]


def step_of_any(saved: tuple[dict[str, Tensor], dict[str, Any]] | None) -> int:
    assert saved is not None
    return int(saved[0]["steps"])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MB."""
    with small_disk(tmp_path / "disk", "1m") as path:
        yield path


@linux
def test_a_full_disk_keeps_the_earlier_checkpoints(disk: Path) -> None:
    checkpoints = Checkpoints(disk / "checkpoints")
    save(checkpoints, 10, 20)
    (disk / "run.json").touch()
    kept = names(disk / "checkpoints")
    for write in (checkpoints.save, checkpoints.save_best):
        with pytest.raises(
            DuraError, match=r"disk/checkpoints: there is no space left .*; earlier checkpoints are kept"
        ):
            write(30, {"table": torch.zeros(400_000)}, {})
        assert names(disk / "checkpoints") == kept
    assert step_of(checkpoints.newest()) == 20
    save(checkpoints, 31)
    assert step_of(checkpoints.newest()) == 31


def test_a_full_disk_by_a_limit(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 10)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(DuraError, match=r"cannot write step-000000020\.safetensors in .*: there is no space left"):
            checkpoints.save(20, {"table": torch.zeros(10_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert step_of(checkpoints.newest()) == 10 and len(names(tmp_path)) == 2
