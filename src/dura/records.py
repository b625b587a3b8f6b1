"""Records: a run folder, the files that a run leaves and continues from.

```
RUN/
  settings.toml                 the experiment
  run.json                      {"format", "dura", "created", "graph"}; written last, it makes a run
  entities.txt relations.txt    one name a line
  labels.tsv                    entity, label (optional)
  facts.safetensors             train, valid, test: int32 [n, 3]
  records.jsonl                 append-only, one JSON object a line
  checkpoints/                  see `dura.training.checkpoint`
  .lock .lock.pid               one process a run folder
```
Files are written whole or not at all (temporary file, fsync, rename). This module knows bytes, texts and JSON
only: what stands in them is the business of the rooms above.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dura.types import BadInput, DuraError, __version__
from dura.words import finite

PLAIN, PACKED = 1, 2
"""The format of run folders, and of those whose tables are packed, which programs that know no packed tables refuse."""
FORMAT = PACKED
"""The newest format that this program reads."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MAKING = {
    *("settings.toml", "records.jsonl", "entities.txt", "relations.txt", "labels.tsv", "facts.safetensors"),
    *("checkpoints", ".lock", ".lock.pid"),
}
"""What stands in a run folder before its run.json does."""
_NEW = "nothing is lost yet; make room or name another place"
_KEPT = "earlier checkpoints are kept, continue with --resume once this is mended"


def write_atomic(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that `path` holds either its old content or all of the new, even after a power cut.

    >>> write_atomic(Path("run/settings.toml"), b"version = 1")  # doctest: +SKIP
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with temporary.open("xb") as file:
                for piece in [data] if isinstance(data, bytes) else data:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        in_run = any((folder / "run.json").exists() for folder in (path.parent, path.parent.parent))
        raise disk_error(error, path, _KEPT if in_run else _NEW) from error


def disk_error(error: OSError, path: Path, then: str = _KEPT) -> DuraError:
    """The sentence for a file that cannot be written: where, why, and `then` what holds or helps."""
    if error.errno in _FULL:
        why = "there is no space left (the disk is full or a quota is used up)"
    elif error.errno == errno.EROFS:
        why = "the file system is read-only"
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = "you have no permission to write there"
    else:
        why = error.strerror or str(error)
    return DuraError(f"cannot write {path.name} in the folder {path.parent}: {why}; {then}")


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
        """Make a new run folder; an existing run or a folder with other things in it is refused."""
        if (path / "run.json").exists():
            ways = f"continue it with --resume {path} or name a new folder with --out"
            raise BadInput(f"{path} already holds a run; {ways}")
        _clear_unfinished(path)
        taken = BadInput(f"{path} is not an empty folder; name a new one with --out")
        if path.exists() and (not path.is_dir() or any(file.name != ".lock" for file in path.iterdir())):
            raise taken
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "checkpoints").mkdir()
        except FileExistsError:  # another process was faster
            raise taken from None
        except OSError as error:
            raise disk_error(error, path, "name another folder") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder for reading; take `lock` before writing."""
        if not path.is_dir():
            raise BadInput(f"there is no run folder {path}")
        if not (path / "run.json").is_file():
            raise BadInput(f"{path} is not a run folder: it has no run.json (or was never finished being made)")
        run = cls(path)
        run.about()
        return run

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for writing, alone; the kernel lets go when the process dies, however it dies."""
        import filelock  # costs some 50 ms, which `dura --help` must not pay

        lock = filelock.FileLock(self.path / ".lock", timeout=0, thread_local=False)
        holder = self.path / ".lock.pid"
        try:
            lock.acquire()
        except filelock.Timeout:
            raise DuraError(f"the run {self.path} is in use by {_holder(holder)}; wait for it or stop it") from None
        except OSError as error:
            raise disk_error(error, self.path / ".lock") from error
        try:
            self._clean()
            with contextlib.suppress(OSError):  # the pid only makes the other process's sentence better
                holder.write_text(f"{os.getpid()}\n")
            yield
        finally:
            with contextlib.suppress(OSError):
                holder.unlink(missing_ok=True)
            lock.release()

    def _clean(self) -> None:
        """Remove what killed processes left half written; only the holder of the lock may."""
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
        try:
            return (self.path / "settings.toml").read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise DuraError(f"the settings of the run {self.path} cannot be read: {error}") from error

    def describe(self, graph: Mapping[str, Any], version: int = PLAIN) -> None:
        """Write run.json with what the graph is; from now on the folder is a run, of this format."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"format": version, "dura": __version__, "created": now, "graph": dict(graph)}
        write_atomic(self.path / "run.json", (json.dumps(finite(about), indent=2) + "\n").encode())

    def about(self) -> dict[str, Any]:
        """What `describe` wrote; a folder of a newer program is refused."""
        try:
            about = json.loads((self.path / "run.json").read_bytes())
        except (OSError, ValueError) as error:
            raise DuraError(f"run.json of the run {self.path} cannot be read: {error}") from error
        if not isinstance(about, dict) or type(about.get("format")) is not int:
            raise DuraError(f"run.json of the run {self.path} is damaged: it does not say which format it has")
        if about["format"] > FORMAT:
            raise DuraError(
                f"the run {self.path} has format {about['format']}, "
                f"but this dura reads formats up to {FORMAT}; update dura"
            )
        return about

    # -- records.jsonl --------------------------------------------------------------------------------------

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record as one line, in one write; nan and inf become null, which all JSON readers take."""
        path = self.path / "records.jsonl"
        line = json.dumps(finite(record), allow_nan=False).encode() + b"\n"
        try:
            with path.open("ab+", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(end - 1)
                    # A process that was killed may have left half a line: start on a new one.
                    line = line if file.read(1) == b"\n" else b"\n" + line
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise disk_error(error, path) from error

    def records(self) -> list[dict[str, Any]]:
        """All records in the order of writing, superseded ones too; torn lines are left out."""
        try:
            lines = (self.path / "records.jsonl").read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DuraError(f"the records of the run {self.path} cannot be read: {error}") from error
        return [record for record in map(_record, lines) if record is not None]


def curve(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of kind "epoch" by epoch; where a resume went over an epoch again, the last record counts.

    >>> curve([{"kind": "epoch", "epoch": 1, "loss": 2.0}, {"kind": "epoch", "epoch": 1, "loss": 1.0}])
    [{'kind': 'epoch', 'epoch': 1, 'loss': 1.0}]
    """
    last = {record["epoch"]: dict(record) for record in records if record.get("kind") == "epoch"}
    return [last[epoch] for epoch in sorted(last)]


def best_epoch(records: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The record of the epoch with the best valid MRR, the first of several; None if no epoch was validated.

    >>> valid = [{"kind": "epoch", "epoch": i, "valid": {"mrr": mrr}} for i, mrr in enumerate([0.2, 0.3, None, 0.3])]
    >>> best_epoch(valid)["epoch"]
    1
    """
    validated = [record for record in curve(records) if (record.get("valid") or {}).get("mrr") is not None]
    return max(validated, key=lambda record: record["valid"]["mrr"], default=None)


def exported_as(records: Iterable[Mapping[str, Any]]) -> str:
    """How the tables of an exported run are stored, in as few words as tell runs apart; empty where they are as trained.

    >>> exported_as([{"kind": "export", "format": 1, "dtype": "int8", "sparse": 0.7}]), exported_as([{"kind": "export"}])
    ('70 % zeros, int8', '')
    """
    made = [record for record in records if record.get("kind") == "export" and "format" in record]
    if not made:
        return ""
    dtype, zeros = made[-1]["dtype"], made[-1].get("sparse")
    sparse = [] if zeros is None else [f"{100 * zeros:.3g} % zeros"]
    # Packed tables with float32 entries are sparse, though a copy made by an older program does not say how much.
    small = [dtype] if dtype != "float32" else [] if sparse else ["sparse"]
    return ", ".join(sparse + small)


def _record(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):  # a torn line: neither whole JSON nor always whole UTF-8
        record = json.loads(line)
        return record if isinstance(record, dict) else None
    return None


def _holder(path: Path) -> str:
    """Who holds the lock, as far as is known."""
    try:
        return f"the process {int(path.read_text())}"
    except (OSError, ValueError):
        return "another process"


def _sync_folder(folder: Path) -> None:
    """Make a rename last; some systems (Windows, some network disks) do not sync folders and need not."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _clear_unfinished(path: Path) -> None:
    """Remove what a process left that died while it made this run folder: our own files, and never a checkpoint."""
    if not path.is_dir() or (path / "run.json").exists():
        return
    inside = list(path.iterdir())
    ours = all(file.name in _MAKING or _TEMPORARY.fullmatch(file.name) for file in inside)
    checkpoints = path / "checkpoints"
    if not inside or not ours or (checkpoints.is_dir() and any(checkpoints.iterdir())):
        return
    with contextlib.suppress(DuraError), RunFolder(path).lock():  # a process that is alive and making it keeps it
        for file in inside:
            file.rmdir() if file.is_dir() else file.unlink(missing_ok=True)
