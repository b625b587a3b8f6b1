"""Folder: create, open and lock a run folder, and read and write its settings, run.json and records."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from dura.records.kinds import check_record
from dura.records.reading import (
    MOST_LINE,
    MOST_RECORDS,
    Damage,
    Missing,
    inside,
    read_bytes,
    read_json,
    read_lines,
    read_text,
)
from dura.records.schema import WHOLE, check
from dura.records.writing import disk_error, write_atomic
from dura.text import MOST_TOML, parse_json, shown
from dura.types import BadInput, DuraError, __version__
from dura.words import finite

PLAIN, PACKED, COMBINED = 1, 2, 3
"""The format of run folders, of those with packed tables, and of combinations of runs. Older programs refuse the newer ones."""
FORMAT = COMBINED
"""The newest format that this program reads."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
_MAKING = {
    *(
        "settings.toml",
        "records.jsonl",
        "entities.txt",
        "relations.txt",
        "times.txt",
        "labels.tsv",
        "types.tsv",
        "descriptions.tsv",
        "relation-labels.tsv",
        "relation-types.tsv",
        "relation-descriptions.tsv",
        "facts.safetensors",
        "reviews.csv",
        "combined.json",
        "weights.safetensors",
    ),
    *("checkpoints", ".lock", ".lock.pid", "run.json"),
}
"""The files that may be in a run folder before it has a checkpoint."""
_FRUITLESS = {"start", "resume", "notice", "failure"}
"""The records of a run that failed before its first epoch ended."""
_EXPORTED = re.compile(r"best(\.json|-[0-9]+\.safetensors)")
"""The tables of an export, which is worth nothing before it has a run.json."""
_COUNT = Annotated[int, 1, 2**31 - 1]
GRAPH = {"name": str, "digest": str, "entities": _COUNT, "relations": _COUNT, "times?": Annotated[int, 0, 2**31 - 1]}
GRAPH |= {"train": _COUNT, "valid": WHOLE, "test": WHOLE}
"""What a manifest says about a graph."""


class InUse(DuraError):
    """Another process is writing to the run folder."""


class RunFolder:
    """The folder of one run.

    >>> run = RunFolder.create(Path("runs/umls"))  # doctest: +SKIP
    >>> with run.lock():  # doctest: +SKIP
    ...     run.append({"kind": "epoch", "epoch": 1, "loss": 2.5})
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Make a new run folder. A folder that holds a run or other files is refused."""
        cls.check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "checkpoints").mkdir()
        except FileExistsError:  # another process was faster
            raise _taken(path) from None
        except OSError as error:
            raise disk_error(error, path, "name another folder") from error
        return cls(path)

    @staticmethod
    def check_free(path: Path) -> None:
        """Refuse a folder that holds a run or other files. What a failed start left there is removed."""
        clear_leftovers(path)
        if (path / "run.json").exists():
            ways = f"continue it with --resume {path}, or name a new folder with --out"
            raise BadInput(f"{path} already holds a run; {ways}")
        if path.exists() and (not path.is_dir() or any(file.name != ".lock" for file in path.iterdir())):
            raise _taken(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder for reading. Hold `lock` while you write to it."""
        if not path.is_dir():
            raise BadInput(f"there is no run folder {path}")
        run = cls(path)
        try:
            run.about()
        except Missing:
            raise BadInput(
                f"{path} is not a run folder: it has no run.json (or the process that made it was stopped too early)"
            ) from None
        if not Path(os.path.realpath(path / "checkpoints")).is_relative_to(os.path.realpath(path)):
            raise Damage(f"{path / 'checkpoints'} cannot be used: it is a link that leads out of the run folder")
        return run

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Reserve the folder for writing by this process. The kernel releases the lock when the process ends in any way."""
        import filelock  # takes about 50 ms, too long for `dura --help`

        if (self.path / ".lock").is_symlink():  # opening a lock file empties it
            raise Damage(f"{self.path / '.lock'} cannot be used: it is a link")
        with contextlib.suppress(Missing):
            inside(self.path, ".lock")
        lock = filelock.FileLock(self.path / ".lock", timeout=0, thread_local=False)
        holder = self.path / ".lock.pid"
        try:
            lock.acquire()
        except filelock.Timeout:
            raise InUse(f"the run {self.path} is in use by {_holder(self.path)}; wait for it or stop it") from None
        except OSError as error:
            raise disk_error(error, self.path / ".lock") from error
        try:
            self._clean()
            with contextlib.suppress(OSError):  # the pid is only for the error message of other processes
                holder.unlink(missing_ok=True)  # never write through a link to another place
                with holder.open("x") as file:
                    file.write(f"{os.getpid()}\n")
            yield
        finally:
            with contextlib.suppress(OSError):
                holder.unlink(missing_ok=True)
            lock.release()

    def _clean(self) -> None:
        """Remove temporary files of killed processes. Call this only while holding the lock."""
        for folder in (self.path, self.path / "checkpoints"):
            for path in folder.glob(".*.tmp"):
                if _TEMPORARY.fullmatch(path.name):
                    with contextlib.suppress(OSError):
                        path.unlink()

    # -- settings.toml and run.json -------------------------------------------------------------------------

    def write_settings(self, toml: str) -> None:
        """Write settings.toml."""
        write_atomic(self.path / "settings.toml", toml.encode())

    def settings(self) -> str:
        """The text of settings.toml."""
        return read_text(self.path, "settings.toml", MOST_TOML)

    def describe(self, graph: Mapping[str, Any], version: int = PLAIN) -> None:
        """Write run.json with the facts about the graph. From now on the folder is a run of this format."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"format": version, "dura": __version__, "created": now, "graph": dict(graph)}
        write_atomic(self.path / "run.json", (json.dumps(finite(about), indent=2) + "\n").encode())

    def about(self) -> dict[str, Any]:
        """The content of run.json. A folder of a newer program is refused."""
        about, path = read_json(self.path, "run.json"), self.path / "run.json"
        version = about.get("format")
        if type(version) is int and version > FORMAT:
            raise DuraError(
                f"the run {self.path} has format {shown(version)}, "
                f"but this dura reads formats up to {FORMAT}; update dura"
            )
        try:
            check(about, {"format": Annotated[int, 1, FORMAT], "graph": GRAPH})
        except BadInput as error:
            raise Damage(f"{path} is damaged: {error}") from None
        return about

    @property
    def combined(self) -> bool:
        """True if the folder is a combination of runs, which has no tables of its own."""
        return bool(self.about()["format"] == COMBINED)

    # -- records.jsonl --------------------------------------------------------------------------------------

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record as one line, in one write. nan and inf become null, because JSON does not have them."""
        path = self.path / "records.jsonl"
        line = json.dumps(finite(record), allow_nan=False).encode() + b"\n"
        real = path
        with contextlib.suppress(Missing):
            real = inside(self.path, path.name)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            with os.fdopen(os.open(real, flags, 0o666), "ab+", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(end - 1)
                    # A killed process may have left an incomplete line: start a new line.
                    line = line if file.read(1) == b"\n" else b"\n" + line
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise disk_error(error, path) from error

    def records(self) -> list[dict[str, Any]]:
        """All records in the order in which they were written. Incomplete lines are left out."""
        lines = read_lines(self.path, "records.jsonl", MOST_RECORDS, MOST_LINE)
        try:
            found = [self._record(number, line) for number, line in enumerate(lines, 1)]
        except Missing:
            return []
        return [record for record in found if record is not None]

    def _record(self, number: int, line: bytes) -> dict[str, Any] | None:
        try:
            record = parse_json(line)
            if isinstance(record, dict):
                check_record(record)
                return record
        except ValueError:  # an incomplete line: not valid JSON, and perhaps not valid UTF-8
            return None
        except BadInput as error:
            raise Damage(f"{self.path / 'records.jsonl'} is damaged in line {number}: {error}") from None
        return None


def _holder(root: Path) -> str:
    """The process that holds the lock, for an error message."""
    try:
        return f"the process {int(read_bytes(root, '.lock.pid', 20))}"
    except (Damage, ValueError):
        return "another process"


def clear_leftovers(path: Path) -> None:
    """Empty a folder that a process left and that holds nothing of value. Only our own files go, never those of another."""
    if not path.is_dir() or not _is_leftover(path):
        return
    # A living process that makes or continues the run holds the lock.
    with contextlib.suppress(DuraError), RunFolder(path).lock():
        if not _is_leftover(path):
            return
        checkpoints = path / "checkpoints"
        others = [file for file in path.iterdir() if file != checkpoints]
        # run.json goes first and the folder of checkpoints last: if this is cut off, the rest is a leftover too.
        for file in (path / "run.json", *checkpoints.iterdir(), *others):
            file.unlink(missing_ok=True)
        checkpoints.rmdir()


def _is_leftover(path: Path) -> bool:
    """True if the process died while it made the run folder or exported to it, or training failed before the first checkpoint."""
    checkpoints, found = path / "checkpoints", list(path.iterdir())
    if (
        not checkpoints.is_dir() or checkpoints.is_symlink()
    ):  # `create` makes it first; other folders may have an entities.txt
        return False
    if not all(file.name in _MAKING or _TEMPORARY.fullmatch(file.name) for file in found):
        return False
    try:
        kinds = [record.get("kind") for record in RunFolder(path).records()]
    except DuraError:
        return False
    tables = [file.name for file in checkpoints.iterdir() if not _TEMPORARY.fullmatch(file.name)]
    if (path / "run.json").exists():
        return not tables and kinds[:1] == ["start"] and kinds[-1] == "failure" and set(kinds) <= _FRUITLESS
    return not tables or (kinds == ["export"] and all(_EXPORTED.fullmatch(name) for name in tables))


def _taken(path: Path) -> BadInput:
    return BadInput(f"{path} is not an empty folder; name a new one with --out")
