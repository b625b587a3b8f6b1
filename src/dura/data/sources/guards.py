"""Guards: streams of RDF that refuse what would crash the parser or fill the memory.

The parser is safe for files as people write them. But triples inside of triples and elements inside of elements may be nested
without a limit, and an XML entity may stand for any amount of text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dura.types import BadInput

MOST_NESTED = 100
"""How many triples may be inside of each other."""
MOST_OPEN = 5_000
"""How many XML elements may be inside of each other, about."""
MOST_ENTITY = 300
"""The most characters that an XML entity may stand for."""
LOOK = 1 << 16
TRIPLE_MARKS = re.compile(rb'<<\(|<[^<>"\s]*>|\)\s*>>|"|#[^\n]*')
ENTITY = b"<!ENTITY"
SHORT_ENTITY = re.compile(
    rb"<!ENTITY\s+[\w.:-]+\s+(\"[^\"&%%]{0,%d}\"|'[^'&%%]{0,%d}')\s*>" % (MOST_ENTITY, MOST_ENTITY)
)
LONGEST_DECLARATION = 1000
"""The bytes in which the declaration of an entity must end."""


class Guarded:
    """A stream of bytes. Each piece is shown to `check` before it is handed on."""

    def __init__(self, stream: BinaryIO, check: Callable[[bytes], None]) -> None:
        self._stream, self._check, self._rest = stream, check, b""

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        if not self._rest:
            self._rest = self._stream.read(LOOK)
            self._check(self._rest)
        if size < 0:
            size = len(self._rest)
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


class Nesting:
    """Refuses triples that are nested too deeply. Literals cannot stand between their openings, so a quote starts anew."""

    def __init__(self, path: Path) -> None:
        self._path, self._depth = path, 0

    def __call__(self, piece: bytes) -> None:
        """Look at the next piece of the file."""
        if b"<<(" not in piece:
            return
        for found in TRIPLE_MARKS.finditer(piece):
            mark = found[0]
            if mark == b"<<(":
                self._depth += 1
            elif mark[:1] in b'")':
                self._depth = 0
            if self._depth > MOST_NESTED:
                raise BadInput(
                    f"{self._path} has more than {MOST_NESTED} triples inside of each other, which is not read"
                )


class Entities:
    """Refuses XML entities that stand for long texts or for other entities, files or addresses, and very deep XML."""

    def __init__(self, path: Path) -> None:
        self._path, self._open, self._tail = path, 0, b""

    def __call__(self, piece: bytes) -> None:
        """Look at the next piece of the file."""
        self._declarations(self._tail + piece, last=len(piece) < LOOK)
        closed = piece.count(b"</")
        self._open += piece.count(b"<") - 2 * closed - piece.count(b"/>") - piece.count(b"<!") - 2 * piece.count(b"<?")
        self._open = max(0, self._open)
        if self._open > MOST_OPEN:
            raise BadInput(f"{self._path} has thousands of XML elements inside of each other, which is not read")

    def _declarations(self, text: bytes, last: bool) -> None:
        """Look at all entities. One that the end of the piece cuts is looked at with the next piece, before the parser has it."""
        for found in re.finditer(ENTITY, text):
            at = found.start()
            if SHORT_ENTITY.match(text, at):
                continue
            if len(text) - at < LONGEST_DECLARATION and not last:
                self._tail = text[at:]
                return
            raise BadInput(
                f"{self._path} has an XML entity that stands for other entities, an address or more than {MOST_ENTITY} characters, "
                f"which is not read; write the file without it: {text[at : at + 40].decode(errors='replace')!r}"
            )
        self._tail = text[-(len(ENTITY) - 1) :]
