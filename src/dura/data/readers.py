"""Readers: files of facts to columns of names. Every bad line is reported as file:line.

READERS is the table of formats: file ending -> the function that reads such files. A reader takes a path, the user's
ReadOptions and the roles of the wanted columns, and returns FileColumns. It collects bad lines in BadLines and gets the
bytes of a file, plain or compressed, from `read_bytes` or `read_lines`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

import polars as pl

from dura.config.sections import Unit
from dura.data.sheet import BadLine
from dura.types import BadInput

FACT = ("head", "relation", "tail")
POINT = (*FACT, "time")
INTERVAL = (*FACT, "begin", "end")
FACTS = (FACT, POINT, INTERVAL)
"""The possible columns of a fact: without a time, with one, or with the begin and the end of the time in which it holds."""
HEADERS = (
    FACT,
    ("h", "r", "t"),
    ("subject", "predicate", "object"),
    ("subject", "relation", "object"),
    ("s", "p", "o"),
    ("source", "relation", "target"),
)
"""The well-known names of head, relation and tail in a header."""
Roles = tuple[str, ...]
"""What the wanted columns hold, in order. Columns after head, relation and tail may be empty or missing in a line."""
ColumnChoice = Sequence[int | str] | str
"""Columns that a user chooses, by position or by name; as text they are separated by commas."""
MOST_GB = 4.0
"""How many gigabytes a file may hold when it is unpacked, unless the user allows more."""
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file.

    `columns` are chosen by position (0, 1, 2) or by header name: head, relation and tail, then the time, or begin and end.
    `time` chooses the column of the time, or those of begin and end, alone; `columns` then chooses head, relation and tail
    only, or is None. If `header` is None, the first line is a header only if it holds well-known names or if columns are
    chosen by name. `time_format`, `time_unit` and `time_zone` say how times are written, cut and placed. `query` asks a database.
    A file that holds more than `most_gb` gigabytes when it is unpacked is refused.
    """

    columns: ColumnChoice | None = None
    header: bool | None = None
    separator: str | None = None
    skip_bad: bool = False
    time: int | ColumnChoice | None = None
    time_format: str | None = None
    time_unit: Unit = "auto"
    time_zone: str = "UTC"
    query: str | None = None
    most_gb: float = MOST_GB

    @property
    def chosen(self) -> tuple[int | str, ...] | None:
        """The chosen columns one by one.

        >>> ReadOptions(columns="0, 2,name").chosen
        (0, 2, 'name')
        """
        return None if self.columns is None else one_by_one(self.columns)


def one_by_one(choice: ColumnChoice) -> tuple[int | str, ...]:
    """The columns of a choice; text is split at its commas, and decimal numbers in it are positions."""
    if not isinstance(choice, str):
        return tuple(choice)
    parts = [part.strip() for part in choice.split(",")]
    return tuple(int(part) if part.isdecimal() else part for part in parts)


@dataclass(frozen=True)
class FileColumns:
    """Columns of names from a file, the number of the line that each name is from, and what was noticed while reading.

    `bad` holds the first bad lines (at most ten), `skipped` is the number of all bad lines. `chosen` are the columns that
    were used, if the options choose any.
    """

    columns: list[pl.Series]
    numbers: pl.Series
    bad: list[BadLine]
    skipped: int
    notes: list[str]
    chosen: tuple[int | str, ...] | None = None

    def __len__(self) -> int:
        return len(self.numbers)


Reader = Callable[[Path, ReadOptions, Roles | None], FileColumns]
READERS = {
    ".tsv": "separated.read_tsv",
    ".txt": "separated.read_tsv",
    ".tab": "separated.read_tsv",
    ".csv": "separated.read_csv",
}
"""Ending -> module and function of its Reader, imported when a file needs it. An ending may be followed by .gz or .zst."""
MANIFEST = "graph.json"
"""The file that makes a folder a stored graph."""
FILE_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "entities": "entities",
}
"""File names in a graph's folder, without endings, and what the files hold. The lines of entities are id<TAB>label."""


def read_columns(path: Path, options: ReadOptions | None = None, roles: Roles | None = None) -> FileColumns:
    """Read the columns with these `roles` from a file whose ending is in READERS, plain or compressed.

    Without roles, the columns are those of a fact: head, relation and tail; and time, or begin and end, if the options
    choose them or the header names them.
    """
    options = options or ReadOptions()
    ending, _ = endings(path)
    if ending in READERS:
        return _reader(ending)(path, options, roles)
    if options.separator is not None:
        return _reader(".tsv")(path, options, roles)
    if path.is_dir() or not path.exists():
        read_bytes(path)  # says what is wrong
    known = ", ".join(READERS)
    raise BadInput(f"{path} has an unknown ending; known are {known} (also with .gz or .zst), or give a separator")


def _reader(ending: str) -> Reader:
    module, function = READERS[ending].split(".")
    return cast(Reader, getattr(import_module(f"dura.data.{module}"), function))


def split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that hold train, valid, test and entities and whose ending is in READERS.

    Two files for one of them are an error.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = FILE_NAMES.get(stem(path))
        if name is None or endings(path)[0] not in READERS or not path.is_file():
            continue
        if name in found:
            raise BadInput(f"{folder} has two files for {name}, {found[name].name} and {path.name}; keep one")
        found[name] = path
    return found


def endings(path: Path) -> tuple[str, str]:
    """The ending that names the format and the ending that names the compression, both in lower case.

    >>> endings(Path("facts.v2.TSV.gz"))
    ('.tsv', '.gz')
    """
    compression = path.suffix.lower()
    if compression not in COMPRESSIONS:
        return compression, ""
    return path.with_suffix("").suffix.lower(), compression


def stem(path: Path) -> str:
    """The file's name without the endings of format and compression.

    >>> stem(Path("data/facts.v2.tsv.gz"))
    'facts.v2'
    """
    return (path.with_suffix("") if endings(path)[1] else path).with_suffix("").name


def read_lines(path: Path) -> bytes:
    """The file's content without a UTF-8 mark and with LF line ends (a CR before LF or at the very end is dropped)."""
    data = read_bytes(path)
    if data.startswith(UTF16_MARKS):
        raise BadInput(f"{path} is UTF-16, but only UTF-8 is read; save it as UTF-8")
    return data.removeprefix(UTF8_MARK).replace(b"\r\n", b"\n").removesuffix(b"\r")


def read_bytes(path: Path) -> bytes:
    """The file's content, decompressed if its name ends in .gz or .zst."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder, but a file is needed here")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    if not data:
        raise BadInput(f"{path} is empty")
    compression = endings(path)[1]
    found = next((ending for magic, ending in MAGIC.items() if data.startswith(magic)), "")
    if found != compression:
        content = f"{found.removeprefix('.')}-compressed" if found else "not compressed that way"
        right = f"{path.with_suffix('') if compression else path}{found}"
        raise BadInput(f"{path} is {content}, although its name says otherwise; name it {Path(right).name}")
    if not compression:
        return data
    try:
        return COMPRESSIONS[compression](data)
    except ValueError as error:
        raise BadInput(f"the compressed file {path} {error}; get it again") from None


def _gunzip(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError:
        raise ValueError("is cut short") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"is damaged ({error})") from None


def _unzstd(data: bytes) -> bytes:
    import zstandard

    parts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise ValueError(f"is damaged ({error})") from None
        if not frame.eof:
            raise ValueError("is cut short")
        data = frame.unused_data
    return b"".join(parts)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {".gz": _gunzip, ".zst": _unzstd}
"""Ending -> function that decompresses; what is wrong with the data is a ValueError."""
