"""Vocabulary: sorted names ↔ ids, with a digest that every checkpoint holds."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from dura.types import BadInput, IntArray

MANY = 1 << 20
"""Above this many names, a name is found by binary search: a dict would take hundreds of megabytes."""
MANY_ASKED = 1 << 12
"""This many names are searched in one go."""
PIECE = 1 << 16
"""How many names become text at a time."""


class Vocabulary:
    """Distinct names in the order of code points. The id of a name is its position. Names are never stripped or case-folded.

    >>> v = Vocabulary(["b", "a", "b"])
    >>> len(v), v.name(0), v.id("b"), "c" in v
    (2, 'a', 1, False)
    """

    def __init__(self, names: Iterable[str] | pl.Series) -> None:
        series = names if isinstance(names, pl.Series) else pl.Series("name", list(names), dtype=pl.String)
        self._names = series.unique().sort()
        if self._names.null_count():
            raise BadInput("a name is missing (null), but every entity and relation needs one")
        if self._names.str.contains("\n", literal=True).any():
            raise BadInput("a name holds a line break, but vocabularies keep one name per line")

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.to_list())

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.digest == other.digest

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._names.to_list())}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text of the vocabulary."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def text(self) -> str:
        """The names, one per line, as in the vocabulary's file."""
        return "".join(f"{name}\n" for name in self)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the vocabulary's file, piece by piece."""
        for at in range(0, len(self), PIECE):
            yield "".join(f"{name}\n" for name in self._names[at : at + PIECE].to_list()).encode()

    def _find(self, name: str) -> int | None:
        """The id of a name, or None."""
        if len(self) <= MANY:
            return self._ids.get(name)
        at = int(self._names.search_sorted(name.encode(errors="replace").decode()))
        return at if at < len(self) and self._names[at] == name else None

    def name(self, i: int) -> str:
        """The name of id `i`."""
        return str(self._names[int(i)])  # ids of arrays are no int

    def names(self, ids: Iterable[int] | IntArray) -> list[str]:
        """The names of many ids."""
        picked: list[str] = self._names.gather(
            np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids)
        ).to_list()
        return picked

    def column(self, ids: IntArray) -> pl.Series:
        """The names of many ids as a column."""
        return self._names.gather(ids)

    def id(self, name: str, kind: str = "name") -> int:
        """The id of `name`. The error for an unknown name suggests similar ones."""
        found = self._find(name)
        if found is not None:
            return found
        near = self.suggest(name)
        hint = f"; did you mean {', '.join(repr(n) for n in near)}?" if near else ""
        raise BadInput(f"the {kind} {name!r} is not in this graph{hint}")

    def strangers(self, names: Collection[str]) -> list[str]:
        """The names that are not in the vocabulary. Many are looked up in one go, which is faster."""
        if len(names) < MANY_ASKED:
            return [name for name in names if name not in self]
        given = pl.Series("name", list(names), dtype=pl.String)
        strange: list[str] = given.filter(~given.is_in(self._names.implode())).to_list()
        return strange

    def ids(self, names: pl.Series) -> IntArray:
        """The ids of a column of names, all of which are in the vocabulary."""
        encoded = names.cast(pl.Enum(self._names)).to_physical()
        return encoded.to_numpy().astype(np.int32)

    @cached_property
    def _folded(self) -> pl.Series:
        return self._names.str.to_lowercase().str.strip_chars()

    def suggest(self, name: str, n: int = 3) -> list[str]:
        """Up to `n` names that look like `name`: first those that differ only in case, then the closest spellings.

        >>> Vocabulary(["Berlin", "Bern", "Paris"]).suggest("berlin")
        ['Berlin', 'Bern']
        """
        folded = name.encode(errors="ignore").decode().lower().strip()  # a shell may pass bytes that are not text
        same = self._names.filter(self._folded == folded).head(n).to_list()
        near = self._near(folded)
        spelling = dict(zip(near["folded"].to_list(), near["name"].to_list(), strict=True))
        close = [spelling[match] for match in difflib.get_close_matches(folded, spelling, n=n, cutoff=0.6)]
        inside = [known for text, known in spelling.items() if folded and folded in text]
        return list(dict.fromkeys([*same, *close, *inside]))[:n]

    def _near(self, folded: str, n: int = 50) -> pl.DataFrame:
        """The names that share most pairs of letters with the text: difflib alone is too slow for many names."""
        pairs = sorted({folded[i : i + 2] for i in range(len(folded) - 1)} or set(folded))
        pairs = pairs[:: 1 + len(pairs) // 16]
        contained = [pl.col("folded").str.contains(pair, literal=True) for pair in pairs]
        shared = pl.sum_horizontal(contained) if contained else pl.lit(0)
        length = pl.max_horizontal(pl.col("folded").str.len_chars(), pl.lit(len(folded)))
        frame = pl.DataFrame({"name": self._names, "folded": self._folded})
        return frame.with_columns(alike=shared / length).filter(pl.col("alike") > 0).top_k(n, by="alike")

    def write(self, path: Path) -> None:
        """Write the names, one per line."""
        path.write_text(self.text(), encoding="utf-8", newline="\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read names written by `write`."""
        return cls(path.read_bytes().decode("utf-8").split("\n")[:-1])
