"""Columnar: Parquet and Arrow files to sheets."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from dura.data.opening import STANDARD_INPUT, endings, open_stream
from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.cells import as_text, left_out_note
from dura.data.sources.claims import arrow_claim, parquet_claim
from dura.types import BadInput

MOST_COLUMNS = 10_000
PARQUET, ARROW, OLD_FEATHER = b"PAR1", b"ARROW1", b"FEA1"


def read_parquet(path: Path, options: ReadOptions) -> Sheet:
    """Read a Parquet file."""
    with _seekable(path, options) as file:
        if _start(file) != PARQUET:
            raise BadInput(f"{path} is not a Parquet file: it does not begin with {PARQUET.decode()}")
        _affordable(path, options, parquet_claim, file)
        return _sheet(path, "Parquet", lambda: pl.read_parquet(file, use_pyarrow=False))


def parquet_part(path: Path, options: ReadOptions, first: int, count: int) -> Sheet | None:
    """Some rows of a Parquet file, or None after the last one. Only the parts of the file that hold them are read."""
    with _seekable(path, options) as file:
        if _start(file) != PARQUET:
            raise BadInput(f"{path} is not a Parquet file: it does not begin with {PARQUET.decode()}")
        sheet = _sheet(path, "Parquet", lambda: pl.scan_parquet(path).slice(first, count).collect())
    return sheet if len(sheet) or not first else None


def read_arrow(path: Path, options: ReadOptions) -> Sheet:
    """Read an Arrow file, which is also named Feather (version 2) or IPC, or an Arrow stream."""
    with _seekable(path, options) as file:
        start = _start(file)
        if start == OLD_FEATHER:
            raise BadInput(f"{path} is a Feather file of version 1, which is not read; write it again as version 2")
        _affordable(path, options, arrow_claim, file)
        if start == ARROW[:4]:
            return _sheet(path, "Arrow", lambda: pl.read_ipc(file, use_pyarrow=False))
        return _sheet(path, "Arrow", lambda: pl.read_ipc_stream(file, use_pyarrow=False))


@contextmanager
def _seekable(path: Path, options: ReadOptions) -> Iterator[BinaryIO]:
    """The file itself, or what it unpacks to: these formats are read from their end."""
    with open_stream(path, options.most_gb) as stream:
        if path != STANDARD_INPUT and not endings(path)[1]:
            with path.open("rb") as file:
                yield file
            return
        yield io.BytesIO(stream.read())


def _start(file: BinaryIO) -> bytes:
    start = file.read(4)
    file.seek(0)
    return start


def _affordable(path: Path, options: ReadOptions, claim: Callable[[BinaryIO], int], file: BinaryIO) -> None:
    """Refuse a file that asks for more memory than allowed. A few bytes can ask for any amount."""
    try:
        size = claim(file)
    except (ValueError, OSError) as error:
        raise BadInput(f"{path} is damaged or cut short ({error}); get it again") from None
    except (LookupError, TypeError, OverflowError, struct.error):
        raise BadInput(f"{path} is damaged or cut short: it does not describe itself; get it again") from None
    if size > options.most_gb * 1e9:
        raise BadInput(
            f"{path} needs {size / 1e9:,.1f} GB when it is unpacked, more than {options.most_gb:g} GB; if this is right, raise the "
            f"ceiling with --most-gb {size // 10**9 + 1}"
        )
    file.seek(0)


def _sheet(path: Path, kind: str, read: Callable[[], pl.DataFrame]) -> Sheet:
    try:
        frame = read()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0][:200]
        raise BadInput(f"the {kind} file {path} cannot be read: {reason}") from None
    if frame.width > MOST_COLUMNS:
        raise BadInput(
            f"{path} has {frame.width:,} columns, more than {MOST_COLUMNS:,}; write the columns of facts only"
        )
    rows, left_out = as_text(frame)
    return Sheet(str(path), rows, titles=tuple(rows.columns), notes=left_out_note(left_out))
