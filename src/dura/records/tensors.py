"""Tensors: the header of a safetensors file, read and checked against the size of the file; arrays of ids in such files.

The header is JSON. It gives the type, shape and place of each tensor. These are checked before any tensor is used: the types must
be known, and the places must follow each other without gaps or overlaps and end where the file ends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from dura.records.reading import MIB, MOST_JSON, Damage
from dura.records.schema import WHOLE, check
from dura.text import parse_json, shown
from dura.types import BadInput, IntArray

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Bytes of a number by the name of its type."""
MOST_DIMENSIONS = 8
MAPPED = 16 * MIB
"""Arrays of at least this many bytes are mapped into memory instead of read, so that the processes of a machine share them."""
_INTEGERS = {"I32": "<i4", "I64": "<i8"}
_TENSOR = {"dtype": str, "shape": [WHOLE], "data_offsets": [WHOLE]}


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: its type, its shape, and where its bytes begin and end in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(file: BufferedReader, size: int, path: Path) -> dict[str, Stored]:
    """The tensors of an open safetensors file of this size, by name. A bad header is Damage."""
    try:
        file.seek(0)
        return _header(file, size)
    except (ValueError, BadInput) as error:
        raise Damage(f"{path} is damaged: {error}") from None


def _header(file: BufferedReader, size: int) -> dict[str, Stored]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, MOST_JSON):
        raise ValueError("it is shorter than its header, or its header is too long")
    header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    start = 8 + length
    stored = {name: _stored(name, found, start) for name, found in header.items() if name != "__metadata__"}
    end = start
    for name, tensor in sorted(stored.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != end:
            raise ValueError(f"its tensor {shown(name)} does not begin where the one before it ends")
        end = tensor.end
    if end != size:
        raise ValueError(f"its tensors end at byte {end:,}, but the file has {size:,} bytes")
    return stored


def _stored(name: str, found: Any, start: int) -> Stored:
    check(found, _TENSOR, shown(name)[1:-1])
    dtype, shape, places = found["dtype"], tuple(found["shape"]), found["data_offsets"]
    if dtype not in SIZES or len(shape) > MOST_DIMENSIONS or len(places) != 2:
        raise ValueError(f"its tensor {shown(name)} has an unknown type, too many dimensions, or not two data_offsets")
    if places[1] - places[0] != math.prod(shape) * SIZES[dtype]:
        raise ValueError(f"its tensor {shown(name)} has more or fewer bytes than its shape needs")
    return Stored(dtype, shape, start + places[0], start + places[1])


@dataclass(frozen=True)
class Pieces:
    """An array to be written: its type, its shape, and its bytes piece by piece."""

    dtype: str
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @classmethod
    def of(cls, array: IntArray) -> Pieces:
        """The pieces of an array of integers, without a copy of the whole."""
        dtype = "I64" if array.dtype.itemsize == 8 else "I32"
        rows = max(1, MAPPED // (8 * math.prod(array.shape[1:], start=1)))
        blocks = (np.ascontiguousarray(array[a : a + rows], _INTEGERS[dtype]) for a in range(0, len(array), rows))
        return cls(dtype, array.shape, (block.data.cast("B") for block in blocks if block.size))


def serialized(tensors: Mapping[str, Pieces]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, in the order in which the safetensors library writes tensors of one type.

    >>> [bytes(piece)[:11] for piece in serialized({"a": Pieces.of(np.array([[7, 8]], dtype=np.int32))})][2:]
    [b'\\x07\\x00\\x00\\x00\\x08\\x00\\x00\\x00']
    """
    header, begin, names = dict[str, Any](), 0, sorted(tensors, key=lambda name: (-SIZES[tensors[name].dtype], name))
    for name in names:
        tensor = tensors[name]
        end = begin + math.prod(tensor.shape) * SIZES[tensor.dtype]
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in names:
        yield from tensors[name].pieces


def read_integers(file: BufferedReader, stored: Stored) -> IntArray:
    """An array of integers of an open safetensors file: in memory if it is small, else mapped, each page read when needed.

    A mapped array can be written to, because torch warns about arrays that cannot. The file never changes.
    """
    dtype = np.dtype(_INTEGERS[stored.dtype])
    if stored.end - stored.begin < MAPPED or stored.begin % dtype.itemsize:
        file.seek(stored.begin)
        read: IntArray = np.frombuffer(file.read(stored.end - stored.begin), dtype).reshape(stored.shape)
        return read.astype(dtype.newbyteorder("="))
    return np.asarray(np.memmap(file, dtype, mode="c", offset=stored.begin, shape=stored.shape))
