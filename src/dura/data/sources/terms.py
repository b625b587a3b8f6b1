"""Terms: SPARQL results, as TSV or JSON, to columns of text. It stays known which values are literals.

Both forms are read in parts, so that memory holds a few megabytes of the answer and the text of the rows.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

BYTES = 1 << 22
"""About how many bytes of TSV become one batch."""
ROWS = 20_000
"""How many rows of JSON become one batch."""
MOST_HEAD = 1 << 20
"""The most characters of JSON before the first row."""
IRI = r"^<[^<>]*>$"
BLANK = r"^_:\S+$"
BARE = r"^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|true|false)$"
LITERAL = r'(?s)^"(.*)"(?:@[A-Za-z0-9-]+|\^\^\S+)?$'
SINGLE = r"(?s)^'(.*)'(?:@[A-Za-z0-9-]+|\^\^\S+)?$"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.S)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_VARIABLES = re.compile(r'"vars"\s*:\s*(\[[^\]]*\])')
_BINDINGS = re.compile(r'"bindings"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


class WrongForm(Exception):
    """The text is not a SPARQL result in the form that it should have. It holds the part that is wrong."""


@dataclass(frozen=True)
class Batch:
    """Some rows: per column the texts, and which of them are literals. A missing value is null, and no literal."""

    titles: tuple[str, ...]
    texts: list[pl.Series]
    literals: list[pl.Series]

    def __len__(self) -> int:
        return len(self.texts[0]) if self.texts else 0


def unescape(text: str) -> str:
    r"""The text without the escapes of Turtle.

    >>> unescape(r"caf\u00e9 \"x\"")
    'café "x"'
    """
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if not code:
        return _LETTERS.get(found[3], found[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


# -- TSV ----------------------------------------------------------------------------------------------------------------


def read_tsv(parts: Iterable[bytes]) -> Iterator[Batch]:
    """The rows of a result in TSV. The first line names the variables. Without rows there is one empty batch."""
    titles: tuple[str, ...] = ()
    for lines in _line_blocks(parts):
        if not titles:
            titles = tuple(name.strip().strip('"').lstrip("?$") for name in lines.pop(0).split("\t"))
        yield _tsv_batch(titles, lines)
    if not titles:
        raise WrongForm("nothing")


def _line_blocks(parts: Iterable[bytes]) -> Iterator[list[str]]:
    """Blocks of whole lines."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= BYTES and b"\n" in part:
            whole, _, rest = b"".join(held).rpartition(b"\n")
            held, size = [rest], len(rest)
            yield _lines(whole)
    if last := b"".join(held):
        yield _lines(last.removesuffix(b"\n"))


def _lines(data: bytes) -> list[str]:
    try:
        return [line.removesuffix("\r") for line in data.decode("utf-8").split("\n")]
    except UnicodeDecodeError:
        raise WrongForm("text that is not UTF-8") from None


def _tsv_batch(titles: tuple[str, ...], lines: list[str]) -> Batch:
    whole = pl.Series(lines, dtype=pl.String)
    width = len(titles)
    wrong = whole.filter(whole.str.count_matches("\t", literal=True) != width - 1)
    if wrong.len():
        raise WrongForm(wrong[0])
    split = whole.str.split_exact("\t", width - 1).struct.unnest()
    columns = [_column(cells) for cells in split]
    texts, literals = [text for text, _ in columns], [literal for _, literal in columns]
    every = all((literal | text.is_null()).all() for text, literal in columns)
    if every and any(text.str.contains("^https?://").any() for text in texts):
        # Some servers write IRIs as if they were literals. Another form tells them apart.
        raise WrongForm(lines[0])
    return Batch(titles, texts, literals)


def _column(cells: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The texts of cells, and which of them are literals. An empty cell is a missing value."""
    cell, filled = pl.col("cell"), pl.col("cell") != ""
    name = cell.str.contains(IRI)
    blank = cell.str.contains(BLANK)
    found = pl.DataFrame({"cell": cells}).select(
        pl.when(name)
        .then(cell.str.slice(1).str.head(-1))
        .when(blank | cell.str.contains(BARE))
        .then(cell)
        .when(filled)
        .then(pl.coalesce(cell.str.extract(LITERAL), cell.str.extract(SINGLE)))
        .alias("text"),
        (filled & ~name & ~blank).alias("literal"),
    )
    texts = found["text"]
    wrong = cells.filter(texts.is_null() & (cells != ""))
    if wrong.len():
        raise WrongForm(wrong[0])
    marked = texts.filter(texts.str.contains("\\", literal=True)).unique()
    if marked.len():
        texts = texts.replace(marked, pl.Series([unescape(text) for text in marked], dtype=pl.String))
    return texts, found["literal"]


# -- JSON ---------------------------------------------------------------------------------------------------------------


def read_json(parts: Iterable[bytes]) -> Iterator[Batch]:
    """The rows of a result in JSON, one object after the other. Without rows there is one empty batch."""
    pieces = _decoded(parts)
    titles, held = _head(pieces)
    yield _json_batch(titles, [])
    rows: list[dict[str, Any]] = []
    at = 0
    decoder = json.JSONDecoder()
    while True:
        found = _BETWEEN.match(held, at)
        at = found.end() if found else at
        if held[at : at + 1] == "]":
            break
        try:
            row, at = decoder.raw_decode(held, at)
        except RecursionError:
            raise WrongForm(held[at : at + 100]) from None
        except json.JSONDecodeError:  # this row has not come yet
            more = _at_least(len(held) - at, pieces)
            if not more:
                raise WrongForm(held[at : at + 100]) from None
            held, at = held[at:] + more, 0
            continue
        rows.append(row)
        if len(rows) == ROWS:
            yield _json_batch(titles, rows)
            rows = []
    for _ in pieces:  # the rest, so that a body that breaks off is noticed
        pass
    yield _json_batch(titles, rows)


def _decoded(parts: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        for part in parts:
            if text := decoder.decode(part):
                yield text
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise WrongForm("text that is not UTF-8") from None


def _at_least(count: int, pieces: Iterator[str]) -> str:
    """The next pieces with this many characters. A row is parsed again from its begin, so its text should double each time."""
    more: list[str] = []
    size = 0
    for piece in pieces:
        more.append(piece)
        size += len(piece)
        if size >= count:
            break
    return "".join(more)


def _head(pieces: Iterator[str]) -> tuple[tuple[str, ...], str]:
    """The names of the variables, and the text after the bracket that opens the rows."""
    held = ""
    for piece in pieces:
        held += piece
        if (begin := _BINDINGS.search(held)) and (names := _VARIABLES.search(held)):
            try:
                return tuple(str(name) for name in json.loads(names[1])), held[begin.end() :]
            except json.JSONDecodeError:
                break
        if len(held) > MOST_HEAD:
            break
    raise WrongForm(held[:100] or "nothing")


def _json_batch(titles: tuple[str, ...], rows: list[dict[str, Any]]) -> Batch:
    texts: list[pl.Series] = []
    literals: list[pl.Series] = []
    try:
        for title in titles:
            terms = [_term(row.get(title)) for row in rows]
            texts.append(pl.Series([text for text, _ in terms], dtype=pl.String))
            literals.append(pl.Series([literal for _, literal in terms], dtype=pl.Boolean))
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError):
        raise WrongForm(str(rows[0])) from None
    return Batch(titles, texts, literals)


def _term(term: dict[str, str] | None) -> tuple[str | None, bool]:
    if term is None:
        return None, False
    kind, value = term["type"], term["value"]
    if kind == "bnode":
        return f"_:{value.removeprefix('_:')}", False
    if kind not in ("uri", "literal", "typed-literal"):
        raise KeyError(kind)
    return value, kind != "uri"
