from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.records import PLAIN, RunFolder, curve, write_atomic
from dura.types import BadInput, DuraError

linux = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's mount and limits")


def run_folder(path: Path) -> RunFolder:
    run = RunFolder.create(path)
    run.write_settings("version = 1\n")
    run.describe(graph={"name": "toy", "digest": "d", "entities": 3})
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def script(code: str, *arguments: object) -> subprocess.Popen[str]:
    head = "import os, sys, resource, signal, time\nfrom pathlib import Path\nfrom dura.records import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def output(code: str, *arguments: object) -> str:
    return script(code, *arguments).communicate(timeout=30)[0].strip()


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


LIMITED = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder = Path(sys.argv[1])
write_atomic(folder / "file", b"old")
try: write_atomic(folder / "file", [b"x" * 400] * 5)
except DuraError as error: print(error)
print((folder / "file").read_bytes(), os.listdir(folder))
"""


@linux
def test_a_file_size_limit_counts_as_full(tmp_path: Path) -> None:
    said, state = output(LIMITED, tmp_path).splitlines()
    assert said == (
        f"cannot write file in the folder {tmp_path}: there is no space left (the disk is full or a quota is"
        " used up); nothing is lost yet; make room or name another place"
    )
    assert state == "b'old' ['file']"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 kB, where the tests may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@linux
def test_a_full_disk_is_one_sentence_and_keeps_what_was_there(small_disk: Path) -> None:
    run = run_folder(small_disk / "run")
    run.append({"kind": "epoch", "epoch": 1})
    with pytest.raises(DuraError, match=r"cannot write big in the folder .*/disk/run: there is no space left"):
        write_atomic(run.path / "big", b"x" * 100_000)
    with pytest.raises(DuraError, match=r"cannot write records\.jsonl in the folder .*: there is no space left"):
        for epoch in range(2, 10_000):
            run.append({"kind": "epoch", "epoch": epoch, "text": "x" * 1000})
    assert run.about()["graph"]["name"] == "toy" and run.settings() == "version = 1\n"
    assert [record["epoch"] for record in run.records()] == list(range(1, len(run.records()) + 1))
    assert not list(run.path.glob(".*"))


@linux
def test_a_read_only_disk_is_one_sentence(small_disk: Path) -> None:
    run = run_folder(small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    sentence = r"in the folder .*/disk/run: the file system is read-only; earlier checkpoints are kept"
    with pytest.raises(DuraError, match=sentence):
        write_atomic(run.path / "file", b"x")
    with pytest.raises(DuraError, match=sentence):
        run.append({})
    with pytest.raises(DuraError, match=sentence), run.lock():
        pass
    with pytest.raises(DuraError, match=r"cannot write new in the folder .*: the file system is read-only; name anoth"):
        RunFolder.create(small_disk / "new")
    assert RunFolder.open(run.path).settings() == "version = 1\n"


def test_a_read_only_disk_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(self: Path, target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "replace", read_only)
    with pytest.raises(DuraError, match="the file system is read-only"):
        write_atomic(tmp_path / "file", b"x")
    assert names(tmp_path) == []


FORBIDDEN = """
if os.getuid() == 0: os.setuid(65534)
try: write_atomic(Path(sys.argv[1]) / "file", b"x")
except DuraError as error: print(error)
try: RunFolder.create(Path(sys.argv[1]) / "run")
except DuraError as error: print(error)
"""


@linux
def test_a_forbidden_folder_is_one_sentence() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        write, create = output(FORBIDDEN, folder).splitlines()
        Path(folder).chmod(0o755)
    why = f"in the folder {folder}: you have no permission to write there"
    assert write.startswith(f"cannot write file {why}; nothing is lost yet")
    assert create == f"cannot write run {why}; name another folder"


# -- the folder ------------------------------------------------------------------------------------------


def test_create_describe_open(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "a" / "b")
    again = RunFolder.open(run.path)
    about = again.about()
    assert list(about) == ["format", "dura", "created", "graph"]
    assert about["format"] == PLAIN == 1
    assert about["graph"] == {"name": "toy", "digest": "d", "entities": 3}
    assert about["created"].endswith("+00:00")
    assert again.settings() == "version = 1\n"
    assert (run.path / "checkpoints").is_dir()


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    with pytest.raises(BadInput, match=rf"{run.path} already holds a run; continue it with --resume {run.path} or"):
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
        (b"[]", "is damaged"),
        (b'{"format": "1"}', "is damaged"),
        (b'{"format": 3}', "has format 3, but this dura reads formats up to 2; update dura"),
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
    with pytest.raises(DuraError, match=r"the settings of the run .* cannot be read"):
        RunFolder.create(tmp_path / "unfinished").settings()


# -- the lock --------------------------------------------------------------------------------------------

HOLD = """
with RunFolder.open(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(run: RunFolder) -> Iterator[subprocess.Popen[str]]:
    process = script(HOLD, run.path)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_and_a_dead_one_lets_go(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
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
    run = run_folder(tmp_path / "run")
    with (
        run.lock(),
        pytest.raises(DuraError, match="is in use by the process"),
        RunFolder.open(run.path).lock(),
    ):
        pass


def test_the_lock_is_released_by_an_error(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    with run.lock():
        pass


WRITE_FOREVER = """
folder = Path(sys.argv[1])
def slow():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
write_atomic(folder / "checkpoints" / "step", slow())
"""


def test_files_of_killed_processes_are_cleaned_by_the_next_holder(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    process = script(WRITE_FOREVER, run.path)
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


# -- records ---------------------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
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
    assert output(f"import dura.config, dura.registry\nprint({heavy} & set(sys.modules))") == "set()"
