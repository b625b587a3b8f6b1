"""Claims: how many bytes a Parquet or Arrow file asks for, found without unpacking it.

Such files are compressed inside. Readers reserve what the file claims, so a small file can ask for any amount of memory. The
claims stand at known places: in the headers of Parquet's pages (Thrift) and before each buffer of Arrow (flatbuffers). Only these
are read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

CELL = 16
"""The bytes that a text takes in memory, next to its letters."""
MOST_DESCRIPTION = 1 << 26
"""The most bytes of a file's description of itself. A million columns have more."""
HEADER = 1 << 16
"""The bytes in which the header of a page is expected."""
DEPTH = 16
BATCH, DICTIONARY = 3, 2


def parquet_claim(file: BinaryIO) -> int:
    """The bytes that a Parquet file asks for: its pages, unpacked, and the cells of its rows."""
    end = file.seek(0, io.SEEK_END)
    if end < 12:
        raise ValueError("it is too short")
    file.seek(end - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != b"PAR1" or length > end - 8:
        raise ValueError("it has no end")
    if length > MOST_DESCRIPTION:
        raise ValueError(f"its description of itself has {length:,} bytes")
    file.seek(end - 8 - length)
    groups = _Thrift(file.read(length)).table()[4]
    total = 0
    for group in groups:
        for column in group[1]:
            total += _pages(file, column[3], end)
    return total


def _pages(file: BinaryIO, column: dict[int, Any], end: int) -> int:
    """What the pages of one column of one row group ask for."""
    at = int(min(column[9], column.get(11) or column[9]))
    values, last, total, cells = int(column[5]), at + int(column[7]), 0, 0
    if not 0 <= at <= last <= end:
        raise ValueError("a column lies outside of the file")
    while at < last:
        file.seek(at)
        thrift = _Thrift(file.read(HEADER))
        page = thrift.table()
        total += max(0, int(page[2]))
        cells += int(next((page[kind][1] for kind in (5, 8) if kind in page), 0))
        at += thrift.at + max(0, int(page[3]))
    return total + CELL * max(values, cells)


class _Thrift:
    """Thrift's compact form: tables are dicts of field numbers."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def table(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while kind := self._byte():
            field = field + (kind >> 4) if kind >> 4 else self._signed()
            found[field] = self._value(kind & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEPTH:
            raise ValueError("its description of itself is nested too deeply")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._number())
        if kind in (9, 10):
            return self._list(depth)
        if kind == 12:
            return self.table(depth + 1)
        raise ValueError(f"its description of itself has a part of the unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._number() if head >> 4 == 15 else head >> 4
        if head & 15 in (1, 2):
            self._skip(count)
            return []
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("its description of itself is cut short")

    def _number(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number in its description of itself is too large")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._number()
        return value >> 1 ^ -(value & 1)


def arrow_claim(file: BinaryIO) -> int:
    """The bytes that an Arrow file or stream asks for: its buffers, unpacked."""
    end = file.seek(0, io.SEEK_END)
    file.seek(0)
    if file.read(6) != b"ARROW1":
        return sum(_message(file, at, end) for at in _stream(file, end))
    if end < 24:
        raise ValueError("it is too short")
    file.seek(end - 10)
    length, magic = struct.unpack("<i6s", file.read(10))
    if magic != b"ARROW1" or not 0 < length <= min(end - 10, MOST_DESCRIPTION):
        raise ValueError("it has no end")
    file.seek(end - 10 - length)
    footer = _Table.root(file.read(length))
    blocks = [*footer.structs(2, "<qiiq"), *footer.structs(3, "<qiiq")]
    return sum(_message(file, block[0], end) for block in blocks)


def _stream(file: BinaryIO, end: int) -> Iterator[int]:
    """Where the messages of a stream begin."""
    at = 0
    while at + 8 <= end:
        file.seek(at)
        mark, length = struct.unpack("<Ii", file.read(8))
        start, length = (8, length) if mark == 0xFFFFFFFF else (4, mark)
        if not length:
            return
        yield at
        file.seek(at + start)
        described = file.read(max(0, min(length, MOST_DESCRIPTION, end - at - start)))
        at += start + length + max(0, _Table.root(described).number(3, "<q"))


def _message(file: BinaryIO, at: int, end: int) -> int:
    """What one batch asks for."""
    if not 0 <= at <= end - 8:
        raise ValueError("a batch lies outside of the file")
    file.seek(at)
    mark, length = struct.unpack("<Ii", file.read(8))
    start, length = (8, length) if mark == 0xFFFFFFFF else (4, mark)
    if not 0 < length <= min(MOST_DESCRIPTION, end - at - start):
        raise ValueError("a batch has no description")
    file.seek(at + start)
    message = _Table.root(file.read(length))
    kind = message.number(1, "<B")
    if kind not in (BATCH, DICTIONARY):
        return 0
    batch = message.table(2) if kind == BATCH else message.table(2).table(1)
    rows, fields = batch.number(0, "<q"), len(batch.structs(1, "<qq"))
    return max(0, rows) * CELL * fields + _buffers(file, batch, at + start + length, end)


def _buffers(file: BinaryIO, batch: _Table, body: int, end: int) -> int:
    """What the buffers of a batch ask for. A compressed buffer begins with its size when it is unpacked."""
    total, compressed = 0, batch.has(3)
    for offset, length in batch.structs(2, "<qq"):
        total += max(0, length)
        if compressed and length >= 8 and 0 <= body + offset <= end - 8:
            file.seek(body + offset)
            total += max(0, struct.unpack("<q", file.read(8))[0])
    return total


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.slots = at - self._read("<i", at)
        if not 0 <= self.slots < len(data):
            raise ValueError("its description of itself is cut short")

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, int(struct.unpack_from("<I", _long(data, 4))[0]))

    def _read(self, form: str, at: int) -> int:
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise ValueError("its description of itself is cut short")
        return int(struct.unpack_from(form, self.data, at)[0])

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        offset = self._read("<H", self.slots + slot) if slot < self._read("<H", self.slots) else 0
        return self.at + offset if offset else 0

    def has(self, field: int) -> bool:
        return bool(self._place(field))

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return self._read(form, place) if place else 0

    def table(self, field: int) -> _Table:
        place = self._place(field)
        return _Table(self.data, place + self._read("<I", place))

    def structs(self, field: int, form: str) -> list[tuple[Any, ...]]:
        place = self._place(field)
        if not place:
            return []
        start = place + self._read("<I", place)
        size, count = struct.calcsize(form), self._read("<I", start)
        return list(struct.iter_unpack(form, _long(self.data[start + 4 : start + 4 + size * count], size * count)))


def _long(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ValueError("its description of itself is cut short")
    return data
