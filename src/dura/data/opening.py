"""Opening: the bytes of a file, unpacked if it is compressed, as a stream with a ceiling.

Only regular files are read, or standard input if its name `-` is given: a pipe or a device could wait or go on for ever. A small
compressed file can hold any number of bytes, so a stream stops at a ceiling that the user can raise.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from dura.types import BadInput

MOST_GB = 4.0
"""How many gigabytes a file may hold when it is unpacked, unless the user allows more."""
STANDARD_INPUT = Path("-")
MAGIC = {
    b"\x1f\x8b": ".gz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"PK\x03\x04": ".zip",
}
"""How compressed files begin. A zip file of spreadsheets or documents begins like any zip file."""
LONGEST = max(map(len, MAGIC))
MEMORY = 1 << 29
"""How many bytes the decompressor of .xz may use. The highest level that programs offer needs 65 MB."""
PIECE = 1 << 20
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SMALL = 1 << 12
"""How many bytes of a .zst file are unpacked at a time: each four of them can become 128 kB."""


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


def inner(path: Path) -> Path:
    """The file whose ending names the format: the only file in a zip file, otherwise the file itself."""
    if endings(path)[1] != ".zip" or endings(path)[0]:
        return path
    with _plain(path) as file, _unzipped(path, file) as (_, name):
        return path.with_name(Path(name).name)


def read_bytes(path: Path, most_gb: float = MOST_GB) -> bytes:
    """The content of a file, unpacked."""
    with open_stream(path, most_gb) as stream:
        pieces = list(iter(lambda: stream.read(PIECE), b""))
    return b"".join(pieces)


def read_lines(path: Path, most_gb: float = MOST_GB) -> bytes:
    """The content of a text file without a UTF-8 mark and with LF line ends. Old files have CR alone at the end of every line."""
    return plain_lines(read_bytes(path, most_gb), path)


def plain_lines(data: bytes, path: Path) -> bytes:
    """Text without a UTF-8 mark and with LF line ends."""
    if data.startswith(UTF16_MARKS):
        raise BadInput(f"{name_of(path)} is UTF-16, but only UTF-8 is read; save it as UTF-8")
    data = data.removeprefix(UTF8_MARK)
    if b"\n" not in data and data.count(b"\r") > 1:
        data = data.replace(b"\r", b"\n")
    return data.replace(b"\r\n", b"\n").removesuffix(b"\r") if b"\r" in data else data


@contextmanager
def open_stream(path: Path, most_gb: float = MOST_GB) -> Iterator[BinaryIO]:
    """The content of a file, unpacked, as a stream that raises BadInput for damage and above the ceiling."""
    with _plain(path) as file:
        compression = "" if path == STANDARD_INPUT else endings(path)[1]
        start = _start(file)
        if not start:
            raise BadInput(f"{name_of(path)} is empty")
        found = next((ending for magic, ending in MAGIC.items() if start.startswith(magic)), "")
        if path == STANDARD_INPUT:
            compression = found
        elif found != compression:
            content = f"{found.removeprefix('.')}-compressed" if found else "not compressed that way"
            right = f"{path.with_suffix('') if compression else path}{found}"
            raise BadInput(f"{path} is {content}, although its name says otherwise; name it {Path(right).name}")
        with COMPRESSIONS[compression](path, file) if compression else _as_is(file) as unpacked:
            yield cast(BinaryIO, _Bounded(unpacked, path, most_gb))


def name_of(path: Path) -> str:
    """How messages call a file."""
    return "standard input" if path == STANDARD_INPUT else str(path)


@contextmanager
def _plain(path: Path) -> Iterator[BinaryIO]:
    """The file as it is, opened for reading. Anything but a regular file is refused."""
    if path == STANDARD_INPUT:
        yield cast(BinaryIO, sys.stdin.buffer)
        return
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise BadInput(f"{path} is a folder, but a file is needed here")
        if not stat.S_ISREG(kind):
            raise BadInput(f"{path} is not a regular file; to read what another program writes, name standard input: -")
        file = path.open("rb")
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with file:
        yield file


def _start(file: BinaryIO) -> bytes:
    """The first bytes, which stay to be read."""
    if isinstance(file, io.BufferedReader):
        return file.peek(LONGEST)[:LONGEST]
    start = file.read(LONGEST)
    file.seek(0)
    return start


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Bounded(io.RawIOBase):
    """A stream that counts its bytes. Damage and too many bytes are a BadInput."""

    def __init__(self, source: _Source, path: Path, most_gb: float) -> None:
        self._source, self._path, self._gb, self._left = source, path, most_gb, int(most_gb * 1e9)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(PIECE), b""))
        try:
            data = self._source.read(size)
        except EOFError:
            raise BadInput(f"the compressed file {name_of(self._path)} is cut short; get it again") from None
        except (*DAMAGE, ValueError) as error:
            raise BadInput(f"the compressed file {name_of(self._path)} is damaged ({error}); get it again") from None
        except OSError as error:
            if error.errno is None:  # bz2 has no class of its own for damage
                raise BadInput(
                    f"the compressed file {name_of(self._path)} is damaged ({error}); get it again"
                ) from None
            raise BadInput(f"{name_of(self._path)} cannot be read: {error.strerror or error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise BadInput(
                f"{name_of(self._path)} holds more than {self._gb:g} GB; if this is right, raise the ceiling with --most-gb "
                f"{max(1, round(4 * self._gb))}"
            )
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _as_is(file: BinaryIO) -> Iterator[_Source]:
    yield file


@contextmanager
def _gunzipped(_: Path, file: BinaryIO) -> Iterator[_Source]:
    with gzip.GzipFile(fileobj=file) as stream:
        yield cast(_Source, stream)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Unpacked:
    """The content of concatenated .bz2 or .xz streams."""

    def __init__(self, file: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._file, self._make, self._part, self._rest = file, make, make(), b""

    def read(self, size: int = -1, /) -> bytes:
        while True:
            if self._part.eof:
                rest = (self._part.unused_data or self._file.read(PIECE)).lstrip(b"\0")  # .xz may be padded
                if not rest:
                    return b""
                self._part, self._rest = self._make(), rest
            elif not self._rest and getattr(self._part, "needs_input", True):
                self._rest = self._file.read(PIECE)
                if not self._rest:
                    raise EOFError
            data, self._rest = self._part.decompress(self._rest, size), b""
            if data:
                return data


@contextmanager
def _unbzipped(_: Path, file: BinaryIO) -> Iterator[_Source]:
    yield _Unpacked(file, bz2.BZ2Decompressor)


@contextmanager
def _unxzipped(_: Path, file: BinaryIO) -> Iterator[_Source]:
    yield _Unpacked(file, lambda: lzma.LZMADecompressor(memlimit=MEMORY))


class _Unzstd:
    """The content of concatenated .zst frames. The library's own stream does not notice that a file is cut short."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        self._file, self._error = file, zstandard.ZstdError
        self._make: Callable[[], Any] = lambda: zstandard.ZstdDecompressor().decompressobj()
        self._frame, self._rest, self._ready = self._make(), b"", b""

    def read(self, size: int = -1, /) -> bytes:
        while not self._ready:
            self._rest = self._rest or self._file.read(PIECE)
            if self._frame.eof:
                if not self._rest:
                    return b""
                self._frame = self._make()
            elif not self._rest:
                raise EOFError
            piece, self._rest = self._rest[:SMALL], self._rest[SMALL:]
            try:
                self._ready = self._frame.decompress(piece)
            except self._error as error:
                raise ValueError(str(error)) from None
            if self._frame.eof:
                self._rest = self._frame.unused_data + self._rest
        data, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return data


@contextmanager
def _unzstandard(_: Path, file: BinaryIO) -> Iterator[_Source]:
    yield _Unzstd(file)


@contextmanager
def _unzipped_only(path: Path, file: BinaryIO) -> Iterator[_Source]:
    with _unzipped(path, file) as (stream, _):
        yield stream


@contextmanager
def _unzipped(path: Path, file: BinaryIO) -> Iterator[tuple[_Source, str]]:
    """The only file in a zip file, and its name."""
    try:
        archive = zipfile.ZipFile(file if file.seekable() else io.BytesIO(file.read()))
    except (*DAMAGE, OSError, ValueError, NotImplementedError) as error:
        raise BadInput(f"the zip file {name_of(path)} is damaged ({error}); get it again") from None
    files = [
        one for one in archive.infolist() if not one.filename.endswith("/") and not one.filename.startswith("__MACOSX/")
    ]
    if len(files) != 1:
        names = ", ".join(one.filename for one in files[:10]) or "none"
        raise BadInput(
            f"{name_of(path)} holds {len(files)} files ({names}), but a zip file of facts must hold one; unpack it first"
        )
    try:
        stream = archive.open(files[0])
    except (*DAMAGE, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise BadInput(f"{files[0].filename} in {name_of(path)} cannot be unpacked: {error}") from None
    with archive, stream:
        yield cast(_Source, stream), files[0].filename


DAMAGE = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
COMPRESSIONS = {
    ".gz": _gunzipped,
    ".zst": _unzstandard,
    ".bz2": _unbzipped,
    ".xz": _unxzipped,
    ".zip": _unzipped_only,
}
"""Ending -> function that unpacks."""
