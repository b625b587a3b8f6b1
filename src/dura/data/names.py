"""Names: a vocabulary in a file. Its names stay in the file until one is needed.

A graph of millions of entities is trained without any name: only their number and their digest are needed. The file is mapped into
memory, so the processes of a machine share it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from dura.data.vocabulary import Vocabulary
from dura.records import Damage, read_names
from dura.records.reading import MEAN_NAME, MIB, open_file
from dura.types import IntArray

V = TypeVar("V", bound=Vocabulary)

LAZY = 1 << 17
"""Files with more names than this are mapped; smaller ones are read at once."""
BLOCK = 16 * MIB
"""How many bytes of names are looked at in one go."""


class StoredNames(Vocabulary):
    """The names of a file, one per line, sorted by code points; see `Vocabulary`. They are checked when one is first needed.

    A name is found by binary search in the file. Only the places of the line ends are kept in memory.
    """

    def __init__(self, root: Path, name: str, count: int, manifest: str) -> None:
        self._path, self._count = root / name, count
        with open_file(root, name, MIB + count * MEAN_NAME) as (file, size):
            self._bytes = np.asarray(np.memmap(file, np.uint8, mode="r")) if size else np.zeros(0, np.uint8)
        lines = sum(int(np.count_nonzero(block == ord("\n"))) for block in self._blocks())
        if lines != count or not size or self._bytes[-1] != ord("\n"):
            raise Damage(f"{self._path} is damaged: it has {lines:,} whole lines, but {manifest} says {count:,}")

    def _blocks(self) -> Iterator[IntArray]:
        return (self._bytes[at : at + BLOCK] for at in range(0, len(self._bytes), BLOCK))

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _starts(self) -> IntArray:
        """Where each line begins, and where the file ends."""
        ends = [np.flatnonzero(block == ord("\n")) + at * BLOCK for at, block in enumerate(self._blocks())]
        starts: IntArray = np.concatenate([[-1], *ends]) + 1
        for _ in self._series(starts):
            pass
        return starts

    def _series(self, starts: IntArray) -> Iterator[pl.Series]:
        """All names, block by block. They must be distinct, sorted text, or else ids would mean other names."""
        at, last = 0, ""
        while at < self._count:
            end = max(at + 1, int(np.searchsorted(starts, starts[at] + BLOCK, side="right")) - 1)
            try:
                text = self._bytes[starts[at] : starts[end] - 1].tobytes().decode()
            except UnicodeDecodeError as error:
                raise Damage(f"{self._path} cannot be read: it is not UTF-8 text ({error.reason})") from None
            names = pl.Series("name", [text], dtype=pl.String).str.split("\n").explode()
            if (at and names[0] <= last) or not (names[1:] > names[:-1]).all():
                raise Damage(f"{self._path} is damaged: its names are not distinct and sorted")
            at, last = end, names[-1]
            yield names

    @cached_property
    def _names(self) -> pl.Series:  # type: ignore[override]
        """All names in memory: only for suggestions and for whole columns of names."""
        return pl.concat(self._series(self._starts))

    def __iter__(self) -> Iterator[str]:
        for names in self._series(self._starts):
            yield from names.to_list()

    def _line(self, i: int) -> bytes:
        return self._bytes[self._starts[i] : self._starts[i + 1] - 1].tobytes()

    def _find(self, name: str) -> int | None:
        wanted = name.encode(errors="surrogatepass")
        at = bisect_left(range(self._count), wanted, key=self._line)
        return at if at < self._count and self._line(at) == wanted else None

    def name(self, i: int) -> str:
        """The name of id `i`."""
        return self._line(range(self._count)[i]).decode()

    def names(self, ids: Iterable[int] | IntArray) -> list[str]:
        """The names of many ids."""
        return [self.name(int(i)) for i in ids]

    def text(self) -> str:
        """The names, one per line, as in the file."""
        return self._bytes.tobytes().decode()

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file, piece by piece."""
        return (block.tobytes() for block in self._blocks())


def read_vocabulary(kind: type[V], root: Path, name: str, count: int, manifest: str) -> V | StoredNames:
    """The names of a file, which must be distinct and in order. Many names stay in the file until one is needed."""
    if kind is Vocabulary and count > LAZY:
        return StoredNames(root, name, count, manifest)
    names = read_names(root, name, count, manifest)
    vocabulary = kind(names)
    if list(vocabulary) != names:
        raise Damage(f"{root / name} is damaged: its names are not distinct and sorted")
    return vocabulary
