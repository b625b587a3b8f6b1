"""Pieces: a file as a sequence of sheets, so that a file of any length is read with the memory of one piece.

TSV, CSV and JSON Lines are cut at line ends, Parquet by rows. Other formats are one piece: they can only be read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import polars as pl

from dura.data.opening import STANDARD_INPUT, endings, inner, name_of, open_stream, plain_lines
from dura.data.readers import ReadOptions, read_sheet
from dura.data.separated import SPAN, Form, csv_form, sheet_of, tsv_form, without_mark
from dura.data.sheet import BadLines, Sheet
from dura.types import BadInput

PIECE = 1 << 18
"""About how many bytes of text are in a piece."""
ROWS = 1 << 16
"""How many rows of a Parquet file are in a piece."""
LONGEST = 1 << 24
"""The most bytes of a line."""
TABS, COMMAS, OBJECTS = (".tsv", ".txt", ".tab"), (".csv",), (".jsonl", ".ndjson")
EVERY = 1 << 30
"""All bad lines of a piece are kept: whoever reads pieces reports each of them."""
Parse = Callable[[bytes, BadLines], Sheet]


def sheets(path: Path, options: ReadOptions) -> Iterator[Sheet]:
    """The sheets of a file, or of standard input. Their line numbers are those of the whole file."""
    ending = f".{options.format}" if options.format else endings(inner(path))[0]
    if path == STANDARD_INPUT and not options.format:
        ending = ".tsv"
    if ending == ".parquet" and path != STANDARD_INPUT and not endings(path)[1]:
        return _rows(path, options)
    if ending in COMMAS and path != STANDARD_INPUT:
        from dura.data.sources.neo4j import header_of

        if header_of(path) is not None:
            return iter([read_sheet(path, options)])
    if ending in (*TABS, *COMMAS, *OBJECTS):
        return _texts(path, ending, options)
    return iter([read_sheet(path, options)])


def _texts(path: Path, ending: str, options: ReadOptions) -> Iterator[Sheet]:
    parse: Parse | None = None
    with open_stream(path, options.most_gb) as stream:
        for before, data in _cut(stream, path, quotes=ending in COMMAS):
            if parse is None:
                parse = _parser(path, ending, data, options)
                data = without_mark(data) if ending in COMMAS else data
            bad = BadLines(name_of(path), most=EVERY)
            sheet = parse(data, bad)
            assert sheet.numbers is not None
            sheet.numbers = sheet.numbers.cast(pl.Int64) + before
            bad.first = [replace(line, line=line.line + before) for line in bad.first]
            sheet.bad = bad
            yield sheet


def _parser(path: Path, ending: str, data: bytes, options: ReadOptions) -> Parse:
    """How all pieces are read, by the first one. Standard input may hold JSON Lines instead of fields between tabs."""
    if ending in OBJECTS or (path == STANDARD_INPUT and data.lstrip()[:1] in (b"{", b"[")):
        from dura.data.sources import jsonl

        return jsonl.pieces_of(path)
    form: Form = csv_form(data, options) if ending in COMMAS else tsv_form(data, options)
    return lambda data, bad: sheet_of(data, form, bad)


def _cut(stream: BinaryIO, path: Path, quotes: bool) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines with LF line ends, each with the number of lines before it."""
    before, rest = 0, b""
    for block in chain(iter(lambda: stream.read(PIECE), b""), [b""]):
        data = rest + block
        cut = (_cut_at(data) if quotes else data.rfind(b"\n") + 1) if block else len(data)
        if not cut and len(data) > LONGEST:
            raise BadInput(f"line {before + 1} of {name_of(path)} has more than {LONGEST >> 20} MB; is it text?")
        piece, rest = data[:cut], data[cut:]
        if piece:
            plain = plain_lines(piece, path)
            yield before, plain
            before += plain.count(b"\n")


def _cut_at(data: bytes) -> int:
    """The end of the last line that does not end inside of quotes, or 0 if there is none. A stray quote counts for a while only."""
    last = cut = data.rfind(b"\n") + 1
    odd = data.count(b'"', 0, cut) % 2
    for _ in range(SPAN):
        if not odd or not cut:
            return cut
        start = data.rfind(b"\n", 0, cut - 1) + 1
        odd ^= data.count(b'"', start, cut) % 2
        cut = start
    return last


def _rows(path: Path, options: ReadOptions) -> Iterator[Sheet]:
    """The sheets of a Parquet file."""
    from dura.data.sources.columnar import parquet_part

    at = 0
    while sheet := parquet_part(path, options, at, ROWS):
        assert sheet.numbers is not None
        sheet.numbers = sheet.numbers.cast(pl.Int64) + at
        yield sheet
        at += ROWS
