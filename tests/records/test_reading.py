"""The door to a run folder: regular files inside of it, within limits, and what manifests must hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from disks import linux
from dura.records import RunFolder
from dura.records.reading import (
    MOST_LINE,
    MOST_NAME,
    Damage,
    Missing,
    open_file,
    read_bytes,
    read_json,
    read_lines,
    read_names,
    read_pairs,
)
from dura.records.schema import NUMBER, WHOLE, check
from dura.records.tensors import Stored, read_header
from dura.types import BadInput
from folders import epoch, toy_run

# -- what is a file --------------------------------------------------------------------------------------


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


NOT_FILES: list[tuple[Callable[[Path], object], str]] = [
    (os.mkfifo, "it is a pipe, not a file"),
    (Path.mkdir, "it is a folder, not a file"),
    (lambda path: path.symlink_to("/dev/zero"), "it is a link that leads out of the folder"),
    (lambda path: path.symlink_to("../secret"), "it is a link that leads out of the folder"),
    (lambda path: path.symlink_to("file"), "it is a link to itself, not a file"),
    (lambda path: path.symlink_to("."), "it is a folder, not a file"),
    (sparse, "it has 68,719,476,736 bytes, but at most 100 are allowed"),
]


@linux
@pytest.mark.parametrize(("make", "why"), NOT_FILES)
def test_only_small_regular_files_inside_the_folder_are_read(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    (tmp_path / "secret").write_text("private")
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / "file")
    with pytest.raises(Damage, match=f"^{tmp_path}/run/file cannot be read: {why}"):
        read_bytes(tmp_path / "run", "file", 100)


def test_links_inside_the_folder_and_to_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "run" / "inner").mkdir(parents=True)
    (tmp_path / "run" / "inner" / "file").write_text("whole")
    (tmp_path / "run" / "link").symlink_to("inner/file")
    (tmp_path / "latest").symlink_to("run")
    assert read_bytes(tmp_path / "latest", "link", 5) == b"whole"
    with pytest.raises(Missing, match="nothing is missing$"):
        read_bytes(tmp_path / "run", "nothing", 5)


def test_a_file_that_grows_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    with open_file(tmp_path, "file", 10) as (file, size):
        assert size == 10 and file.read() == b"x" * 10
    if Path("/proc/self/status").exists():  # a file without a size
        with pytest.raises(Damage, match="it has more than 10 bytes"):
            read_bytes(Path("/proc/self"), "status", 10)


# -- lines, names and JSON -------------------------------------------------------------------------------


def test_lines_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab\n\nabc")
    assert list(read_lines(tmp_path, "file", 100, 3)) == [b"ab\n", b"\n", b"abc"]
    with pytest.raises(Damage, match="it has a line of more than 2 bytes"):
        list(read_lines(tmp_path, "file", 100, 2))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a\nb\n", "has 2 lines, but run.json says 3"),
        (b"a\nb\nc\nd\n", "has more than 3 lines"),
        (b"a\nb\nc", "its last line has no line end"),
        (b"a\n\xff\nc\n", "is not UTF-8 text"),
        (b"x" * (MOST_NAME + 1), "a line of more than 1,048,576 bytes"),
    ],
)
def test_names_are_as_many_as_they_should_be(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "names.txt").write_bytes(b"a\n\nc\n")
    assert read_names(tmp_path, "names.txt", 3) == ["a", "", "c"]
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(Damage, match=why):
        read_names(tmp_path, "names.txt", 3)


def test_labels(tmp_path: Path) -> None:
    assert read_pairs(tmp_path, "labels.tsv", 2) == {}
    (tmp_path / "labels.tsv").write_text("a\tA\na\tb\tAB\n")
    assert read_pairs(tmp_path, "labels.tsv", 2) == {"a": "A", "a\tb": "AB"}  # a name may hold a tab, a label does not
    for content in ("a\tA\na\tB\n", "a A\n", "a\tA\nb\tB\nc\tC\n"):
        (tmp_path / "labels.tsv").write_text(content)
        with pytest.raises(Damage, match="a name, a tab and a text, with each name at most once"):
            read_pairs(tmp_path, "labels.tsv", 2)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "nested more than 32 deep"),
        (b'{"a": ' * 40 + b"1" + b"}" * 40, "nested more than 32 deep"),
        (b'{"a": NaN}', "it holds NaN"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "Exceeds the limit"),
        (b"[1]", "is not a JSON object"),
        (b"\xff", "it is not UTF-8 text"),
        (b"{", "it is not JSON"),
    ],
)
def test_json_within_limits(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(Damage, match=why):
        read_json(tmp_path, "run.json")


def test_records_are_checked_by_their_kind(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    run.append({"kind": "start"})
    run.append({**epoch(1, 0.5), "new": ["of a later program"]})
    run.append({"kind": "of a later program", "epoch": "?"})
    assert len(run.records()) == 3
    run.append({**epoch(2), "epoch": "1"})
    with pytest.raises(
        Damage, match=r"records\.jsonl is damaged in line 4: epoch must be a whole number, not the text"
    ):
        run.records()


def test_a_record_without_end_is_refused(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    (run.path / "records.jsonl").write_bytes(b"x" * (MOST_LINE + 1))
    with pytest.raises(Damage, match=r"records\.jsonl cannot be read: it has a line of more than 16,777,216 bytes"):
        run.records()


# -- nothing is written through a link -------------------------------------------------------------------


@linux
@pytest.mark.parametrize("there", [True, False])
def test_records_are_not_appended_outside(tmp_path: Path, there: bool) -> None:
    run, precious = toy_run(tmp_path / "run"), tmp_path / "precious"
    if there:
        precious.write_text("precious\n")
    (run.path / "records.jsonl").symlink_to(precious)
    with pytest.raises(Exception, match=r"records\.jsonl"):
        run.append({"kind": "notice", "text": "x"})
    assert precious.read_text() == "precious\n" if there else not precious.exists()


@linux
def test_the_lock_and_its_pid_are_not_written_outside(tmp_path: Path) -> None:
    run, precious = toy_run(tmp_path / "run"), tmp_path / "precious"
    precious.write_text("precious\n")
    (run.path / ".lock.pid").symlink_to(precious)
    with run.lock():
        assert (run.path / ".lock.pid").read_text() == f"{os.getpid()}\n"
    (run.path / ".lock").unlink(missing_ok=True)
    (run.path / ".lock").symlink_to(precious)
    with pytest.raises(Damage, match=r"\.lock cannot be used: it is a link"), run.lock():
        pass
    assert precious.read_text() == "precious\n"


@linux
def test_checkpoints_elsewhere_are_refused(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    (run.path / "checkpoints").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (run.path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damage, match="checkpoints cannot be used: it is a link that leads out of the run folder"):
        RunFolder.open(run.path)


# -- schemas ---------------------------------------------------------------------------------------------

SCHEMA = {"count": WHOLE, "share?": Annotated[float, 0, 1], "names?": [str], "by?": {"*": {"mrr": NUMBER}}}


def test_a_schema_lets_pass_what_fits() -> None:
    check({"count": 0}, SCHEMA)
    check({"count": 2**63 - 1, "share": 1, "names": ["a"], "by": {"x": {"mrr": None}}, "new": object()}, SCHEMA)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], r"it must be an object with keys, not \[\]"),
        ({}, "it has no count"),
        ({"count": True}, "count must be a whole number, not true"),
        ({"count": 1.0}, "count must be a whole number"),
        ({"count": -1}, "count must be at least 0, not -1"),
        ({"count": 2**63}, "count must be a whole number"),
        ({"count": 1, "share": 1.5}, "share must be from 0 to 1, not 1.5"),
        ({"count": 1, "share": float("inf")}, "share must be a number, not inf"),
        ({"count": 1, "names": "abc"}, "names must be a list, not 'abc'"),
        ({"count": 1, "names": ["a", 3]}, r"names\[1\] must be text"),
        ({"count": 1, "by": {"x": {}}}, r"it has no by\.x\.mrr"),
        ({"count": 1, "by": {"\x1b": {"mrr": "?"}}}, r"by\.\\x1b\.mrr must be a number or nothing"),
        ({"count": 1, "by": {"x": {"mrr": 1e200}}}, r"by\.x\.mrr must be from"),
    ],
)
def test_a_schema_says_what_does_not_fit(value: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=f"^{sentence}"):
        check(value, SCHEMA)


# -- safetensors -----------------------------------------------------------------------------------------


def tensors_file(path: Path, header: Any, data: bytes, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(begin: int, end: int, dtype: Any = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_sound_header(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"any": "thing"},
        "b": entry(4, 12, "I64"),
        "a": entry(0, 4),
        "c": entry(12, 12, shape=(0, 3)),
    }
    path = tensors_file(tmp_path / "x", header, bytes(12))
    with open_file(tmp_path, "x", 1000) as (file, size):
        found = read_header(file, size, path)
    start = size - 12
    assert found["a"] == Stored("F32", (1,), start, start + 4)
    assert found["c"] == Stored("F32", (0, 3), size, size) and set(found) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("header", "length", "why"),
    [
        ({"a": entry(0, 4)}, 2**62, "shorter than its header"),
        (b"[]", None, "header is not a JSON object"),
        (b"{", None, "it is not JSON"),
        ({"a": entry(0, 4), "b": entry(0, 4)}, None, "'b' does not begin where the one before it ends"),
        ({"a": entry(0, 4)}, None, "its tensors end at byte"),
        ({"a": entry(4, 12, "I64")}, None, "'a' does not begin"),
        ({"a": entry(0, 8)}, None, "'a' has more or fewer bytes than its shape needs"),
        ({"a": entry(8, 0)}, None, "'a' has more or fewer bytes"),
        ({"a": entry(0, 8, "C64")}, None, "'a' has an unknown type"),
        ({"a": entry(0, 8, "I64", [1] * 9)}, None, "too many dimensions"),
        ({"a": entry(0, 8, "I64", [-1, -1])}, None, r"a\.shape\[0\] must be at least 0"),
        ({"a": entry(0, 8, ["I64"])}, None, r"a\.dtype must be text"),
        ({"a": 3}, None, "a must be an object with keys"),
        ({"a": {"dtype": "I64"}}, None, r"it has no a\.shape"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: Any, length: int | None, why: str) -> None:
    path = tensors_file(tmp_path / "x", header, bytes(8), length)
    with open_file(tmp_path, "x", 1000) as (file, size), pytest.raises(Damage, match=f"x is damaged: .*{why}"):
        read_header(file, size, path)
