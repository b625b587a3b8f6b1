"""Files that are written whole or not at all, and the records of a run."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disks import linux, names, output, small_disk
from dura.records import RunFolder, curve, write_atomic
from dura.types import DuraError
from folders import epoch, toy_run

IMPORTS = """
import os, sys, resource, signal, time
from pathlib import Path
from dura.records import *
from dura.types import DuraError
"""


def refuse_to_sync(descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


# -- write_atomic ----------------------------------------------------------------------------------------


def test_write_atomic_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    write_atomic(path, (bytes([i]) for i in range(3)))
    assert path.read_bytes() == b"\0\1\2"
    write_atomic(path, [memoryview(b"ab"), b"", b"c"])
    assert path.read_bytes() == b"abc"
    assert names(tmp_path) == ["file"]


def test_write_atomic_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise KeyboardInterrupt

    path = tmp_path / "file"
    write_atomic(path, b"old")
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, pieces())
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_failing_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse_to_sync)
    with pytest.raises(DuraError, match=r"cannot write file in the folder .*: Input/output error; nothing is lost"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


LIMITED = (
    IMPORTS
    + """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder = Path(sys.argv[1])
write_atomic(folder / "file", b"old")
try: write_atomic(folder / "file", [b"x" * 400] * 5)
except DuraError as error: print(error)
print((folder / "file").read_bytes(), os.listdir(folder))
"""
)


@linux
def test_a_file_size_limit_counts_as_full(tmp_path: Path) -> None:
    said, state = output(LIMITED, tmp_path).splitlines()
    assert said == (
        f"cannot write file in the folder {tmp_path}: there is no space left (the disk is full or a quota is"
        " used up); nothing is lost yet: make room, or name another folder"
    )
    assert state == "b'old' ['file']"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 kB."""
    with small_disk(tmp_path / "disk", "64k") as path:
        yield path


@linux
def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(disk: Path) -> None:
    run = toy_run(disk / "run")
    run.append(epoch(1))
    with pytest.raises(DuraError, match=r"cannot write big in the folder .*/disk/run: there is no space left"):
        write_atomic(run.path / "big", b"x" * 100_000)
    with pytest.raises(DuraError, match=r"cannot write records\.jsonl in the folder .*: there is no space left"):
        for number in range(2, 10_000):
            run.append({**epoch(number), "text": "x" * 1000})
    assert run.about()["graph"]["name"] == "toy" and run.settings() == "version = 1\n"
    assert [record["epoch"] for record in run.records()] == list(range(1, len(run.records()) + 1))
    assert not list(run.path.glob(".*"))


@linux
def test_a_read_only_disk_is_one_sentence(disk: Path) -> None:
    run = toy_run(disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    sentence = r"in the folder .*/disk/run: the file system is read-only; earlier checkpoints are kept"
    with pytest.raises(DuraError, match=sentence):
        write_atomic(run.path / "file", b"x")
    with pytest.raises(DuraError, match=sentence):
        run.append({})
    with pytest.raises(DuraError, match=sentence), run.lock():
        pass
    with pytest.raises(DuraError, match=r"cannot write new in the folder .*: the file system is read-only; name anoth"):
        RunFolder.create(disk / "new")
    assert RunFolder.open(run.path).settings() == "version = 1\n"


def test_a_read_only_disk_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(self: Path, target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "replace", read_only)
    with pytest.raises(DuraError, match="the file system is read-only"):
        write_atomic(tmp_path / "file", b"x")
    assert names(tmp_path) == []


FORBIDDEN = (
    IMPORTS
    + """
if os.getuid() == 0: os.setuid(65534)
try: write_atomic(Path(sys.argv[1]) / "file", b"x")
except DuraError as error: print(error)
try: RunFolder.create(Path(sys.argv[1]) / "run")
except DuraError as error: print(error)
"""
)


@linux
def test_a_forbidden_folder_is_one_sentence() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        write, create = output(FORBIDDEN, folder).splitlines()
        Path(folder).chmod(0o755)
    why = f"in the folder {folder}: you have no permission to write there"
    assert write.startswith(f"cannot write file {why}; nothing is lost yet")
    assert create == f"cannot write run {why}; name another folder"


# -- records ---------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.text(), plain, max_size=3), max_size=4), st.data())
def test_records_survive_a_torn_last_line(records: list[dict[str, Any]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        for record in records:
            run.append(record)
        assert run.records() == records
        file = run.path / "records.jsonl"
        if not records:
            return
        whole = file.read_bytes()
        assert whole.count(b"\n") == len(records)
        last = len(whole.rstrip(b"\n").rpartition(b"\n")[2])
        cut = data.draw(st.integers(0, last + 1), "bytes torn off")
        file.write_bytes(whole[: len(whole) - cut])
        kept = records if cut <= 1 else records[:-1]
        assert run.records() == kept
        run.append({"after": 1})
        assert run.records() == [*kept, {"after": 1}]


def test_records_pass_over_rubbish_and_hold_no_nan(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.records() == []
    run.append({"loss": float("nan"), "all": [float("inf"), 1.5], "in": {"x": -float("inf")}})
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b"\0\0\0\n[1]\n\n\xff\xfe{")
    run.append({"name": "Zürich"})
    assert run.records() == [{"loss": None, "all": [None, 1.5], "in": {"x": None}}, {"name": "Zürich"}]
    first = (tmp_path / "records.jsonl").read_bytes().split(b"\n")[0]
    assert json.loads(first, parse_constant=lambda name: pytest.fail(name))["loss"] is None


def test_curve_keeps_the_last_record_of_each_epoch() -> None:
    records: list[dict[str, Any]] = [
        {"kind": "start"},
        {"kind": "epoch", "epoch": 1, "loss": 3.0},
        {"kind": "epoch", "epoch": 2, "loss": 2.0},
        {"kind": "epoch", "epoch": 3, "loss": 1.5},
        {"kind": "resume", "epoch": 1},
        {"kind": "epoch", "epoch": 2, "loss": 2.1},
        {"kind": "end", "epoch": 2},
    ]
    assert [(record["epoch"], record["loss"]) for record in curve(records)] == [(1, 3.0), (2, 2.1), (3, 1.5)]
    assert curve([]) == []


def test_importing_records_is_cheap() -> None:
    heavy = "{'torch', 'polars', 'filelock', 'safetensors'}"
    assert output(f"import sys, dura.config, dura.registry, dura.records\nprint({heavy} & set(sys.modules))") == "set()"
