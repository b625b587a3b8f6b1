"""A run folder: made, opened and held by one process at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import names, program
from dura.records import PLAIN, RunFolder
from dura.types import BadInput, DuraError
from folders import TOY, toy_run

# -- the folder ------------------------------------------------------------------------------------------


def test_create_describe_open(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "a" / "b")
    again = RunFolder.open(run.path)
    about = again.about()
    assert list(about) == ["format", "dura", "created", "graph"]
    assert about["format"] == PLAIN == 1
    assert about["graph"] == TOY
    assert about["created"].endswith("+00:00")
    assert again.settings() == "version = 1\n"
    assert (run.path / "checkpoints").is_dir()


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    with pytest.raises(BadInput, match=rf"{run.path} already holds a run; continue it with --resume {run.path}, or"):
        RunFolder.create(run.path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(BadInput, match=r"other is not an empty folder; name a new one with --out"):
        RunFolder.create(tmp_path / "other")
    with pytest.raises(BadInput, match=r"thesis\.txt is not an empty folder"):
        RunFolder.create(tmp_path / "other" / "thesis.txt")
    with pytest.raises(DuraError, match=r"cannot write run in the folder .*thesis\.txt: Not a directory; name anoth"):
        RunFolder.create(tmp_path / "other" / "thesis.txt" / "run")
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty")
    RunFolder.create(tmp_path / "empty")  # whoever made it died before there was a run.json
    with RunFolder(tmp_path / "empty").lock(), pytest.raises(BadInput, match="is not an empty folder"):
        RunFolder.create(tmp_path / "empty")  # or lives and is about to write it


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is not a run folder: it has no run.json"),
        (b"{", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[]", "is not a JSON object"),
        (b'{"format": "1"}', "is damaged"),
        (b'{"format": 4}', "has format 4, but this dura reads formats up to 3; update dura"),
        (b'{"format": -1}', r"run\.json is damaged: format must be from 1 to 3, not -1"),
        (b'{"format": true}', r"run\.json is damaged: format must be a whole number, not true"),
        (b'{"format": 1}', r"run\.json is damaged: it has no graph$"),
        (b'{"format": 1, "graph": {"name": "x", "digest": "y"}}', r"run\.json is damaged: it has no graph\.entities$"),
        (b"[" * 100_000, r"run\.json cannot be read: its values are nested more than 32 deep"),
    ],
)
def test_open_refuses(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(DuraError, match=sentence):
        RunFolder.open(tmp_path)


def test_open_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no run folder .*nowhere"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(DuraError, match=r"unfinished/settings\.toml is missing"):
        RunFolder.create(tmp_path / "unfinished").settings()


MAKE = """
import sys, time
from pathlib import Path
from dura.config import Experiment
from dura.records import RunFolder
from dura.runs.run import train
from graphs import dated_graph

def die(*_, **__):
    print("making", flush=True)
    time.sleep(60)

RunFolder.describe = die
train(Experiment.of_dated_facts().with_value("model.rank", 2), dated_graph(), Path(sys.argv[1]))
"""


def test_a_dated_run_that_is_killed_while_its_folder_is_made_does_not_block_it(tmp_path: Path) -> None:
    process = program(MAKE, tmp_path / "run")
    assert process.stdout is not None and process.stdout.readline() == "making\n"
    with pytest.raises(BadInput, match="is not an empty folder"):
        RunFolder.create(tmp_path / "run")  # the process lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "times.txt" in names(tmp_path / "run") and "run.json" not in names(tmp_path / "run")
    assert RunFolder.create(tmp_path / "run").records() == []


def test_files_with_our_names_are_not_ours_unless_we_made_the_folder(tmp_path: Path) -> None:
    """A folder of a graph may have an entities.txt too."""
    for name in ("entities.txt", "relations.txt", "settings.toml"):
        (tmp_path / name).write_text("mine\n")
    with pytest.raises(BadInput, match="is not an empty folder"):
        RunFolder.create(tmp_path)
    assert set(names(tmp_path)) >= {"entities.txt", "relations.txt", "settings.toml"}


@pytest.mark.parametrize("extra", ["notes.txt", "tensorboard", "checkpoints/step-000000001.safetensors"])
def test_a_failed_run_with_anything_of_value_is_kept(tmp_path: Path, extra: str) -> None:
    run = RunFolder.create(tmp_path / "run")
    run.append({"kind": "start"})
    run.append({"kind": "failure", "text": "the loss became nan"})
    (run.path / "run.json").write_text("{}")
    (run.path / extra).write_text("value")
    with pytest.raises(BadInput, match="already holds a run"):
        RunFolder.create(run.path)
    (run.path / extra).unlink()
    assert RunFolder.create(run.path).records() == []


# -- the lock --------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from dura.records import RunFolder

with RunFolder.open(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(run: RunFolder) -> Iterator[subprocess.Popen[str]]:
    process = program(HOLD, run.path)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_and_a_dead_one_lets_go(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    with holder(run) as process:
        with (
            pytest.raises(DuraError, match=rf"run is in use by the process {process.pid}; wait for it or stop it"),
            run.lock(),
        ):
            raise AssertionError("two processes in one run")
        RunFolder.open(run.path).records()  # reading needs no lock
        (run.path / ".lock.pid").unlink()
        with pytest.raises(DuraError, match="in use by another process"), run.lock():
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with run.lock():
        run.append({"kind": "resume"})
        assert (run.path / ".lock.pid").read_text() == f"{os.getpid()}\n"
    assert not (run.path / ".lock.pid").exists()
    with run.lock():
        assert len(run.records()) == 1


def test_the_lock_is_not_shared_within_a_process(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    with (
        run.lock(),
        pytest.raises(DuraError, match="is in use by the process"),
        RunFolder.open(run.path).lock(),
    ):
        pass


def test_the_lock_is_released_by_an_error(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    with run.lock():
        pass


WRITE_FOREVER = """
import sys, time
from pathlib import Path
from dura.records import write_atomic

folder = Path(sys.argv[1])
def slow():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
write_atomic(folder / "checkpoints" / "step", slow())
"""


def test_files_of_killed_processes_are_cleaned_by_the_next_holder(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    process = program(WRITE_FOREVER, run.path)
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    mine = run.path / ".notes.tmp"
    mine.write_text("the user's own")
    left = names(run.path / "checkpoints")
    assert len(left) == 1 and left[0].startswith(".step.") and left[0].endswith(".tmp")
    RunFolder.open(run.path)
    assert names(run.path / "checkpoints") == left  # who only reads removes nothing
    with run.lock():
        assert names(run.path / "checkpoints") == [] and mine.exists()
