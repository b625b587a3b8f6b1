"""Appending: write a file of any length, a few rows at a time. The file has its name only when all of it is there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import polars as pl

from dura.data.exporting import check_tabs
from dura.data.opening import STANDARD_INPUT
from dura.records import disk_error
from dura.types import BadInput
from dura.words import finite

STANDARD_OUTPUT = STANDARD_INPUT
"""The name of standard output, which gets JSON Lines."""
ROWS = 1 << 13
"""About how many rows are written at a time."""
Schema = Mapping[str, type[pl.DataType]]


class Appender(ABC):
    """A file that grows by rows."""

    nested = False
    """True if a row may hold lists and objects, and other keys than the schema."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path, self.schema = path, schema
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows. They are written a few thousand at a time."""
        self._waiting += rows
        if len(self._waiting) >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._waiting:
            self._write(self._waiting)
        self._waiting = []

    def finish(self) -> None:
        """Make the file whole."""
        self.flush()

    def close(self) -> None:  # noqa: B027
        """Leave nothing open, whether or not the file is whole."""

    @abstractmethod
    def _write(self, rows: list[Mapping[str, Any]]) -> None:
        """Write rows after those that are there."""


class _Objects(Appender):
    """JSON Lines."""

    nested = True

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        self._file: TextIO = sys.stdout if path == STANDARD_OUTPUT else path.open("w", encoding="utf-8", newline="\n")

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows. They are written at once: objects may be large, and whoever reads standard output need not wait."""
        self._write(list(rows))

    def _write(self, rows: list[Mapping[str, Any]]) -> None:
        self._file.writelines(json.dumps(finite(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        if self.path == STANDARD_OUTPUT:
            self._file.flush()

    def finish(self) -> None:
        super().finish()
        self._file.flush()
        if self.path != STANDARD_OUTPUT:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self.path != STANDARD_OUTPUT:
            self._file.close()


class _Commas(Appender):
    """CSV. Fields are quoted where needed."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        self._append(pl.DataFrame(schema=dict(schema)), "wb", header=True)

    def _write(self, rows: list[Mapping[str, Any]]) -> None:
        self._append(pl.DataFrame(rows, schema=dict(self.schema)), "ab", header=False)

    def _append(self, frame: pl.DataFrame, mode: str, *, header: bool) -> None:
        with self.path.open(mode) as file:
            frame.write_csv(cast(BinaryIO, file), include_header=header)


class _Tabs(_Commas):
    """TSV. It has no quotes, so names with a tab or a line break cannot be written."""

    def _append(self, frame: pl.DataFrame, mode: str, *, header: bool) -> None:
        check_tabs(frame)
        with self.path.open(mode) as file:
            frame.write_csv(cast(BinaryIO, file), include_header=header, separator="\t", quote_style="never")


class _Parquet(Appender):
    """Parquet. Parts are kept in a folder next to the file and put together at the end, also with bounded memory."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        self._folder = path.with_name(f"{path.name}.parts")
        self._folder.mkdir()
        self._count = 0
        self._write([])

    def _write(self, rows: list[Mapping[str, Any]]) -> None:
        pl.DataFrame(rows, schema=dict(self.schema)).write_parquet(self._folder / f"{self._count:08}.parquet")
        self._count += 1

    def finish(self) -> None:
        super().finish()
        pl.scan_parquet(self._folder / "*.parquet").sink_parquet(self.path)
        shutil.rmtree(self._folder)


APPENDERS: dict[str, type[Appender]] = {".csv": _Commas, ".tsv": _Tabs, ".jsonl": _Objects, ".parquet": _Parquet}
"""Ending -> how such a file is written."""


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written: an unknown ending, a file that is there, a folder that is not there."""
    if path == STANDARD_OUTPUT:
        return
    if path.suffix.lower() not in APPENDERS:
        raise BadInput(f"{path} must end in {', '.join(APPENDERS)}, or be - for JSON Lines on standard output")
    if path.exists():
        raise BadInput(f"{path} is there already; name a new file")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for {path.name}")


@contextmanager
def appending(path: Path, schema: Schema) -> Iterator[Appender]:
    """A file to add rows to. It gets its name at the end. After an error nothing is left of it."""
    check_output(path)
    if path == STANDARD_OUTPUT:
        lines = _Objects(path, schema)
        yield lines
        lines.finish()
        return
    hidden = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    appender: Appender | None = None
    try:
        appender = APPENDERS[path.suffix.lower()](hidden, schema)
        yield appender
        appender.finish()
        appender.close()
        hidden.replace(path)
    except OSError as error:
        raise disk_error(error, path, "name another place") from error
    except pl.exceptions.ComputeError as error:  # polars has no class of its own for a full disk
        raise disk_error(OSError(str(error)), path, "name another place") from error
    finally:
        with suppress(OSError):
            if appender is not None:
                appender.close()
            hidden.unlink(missing_ok=True)
        shutil.rmtree(hidden.with_name(f"{hidden.name}.parts"), ignore_errors=True)
