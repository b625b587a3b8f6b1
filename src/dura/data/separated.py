"""Separated: TSV and CSV files to a Sheet, without a loop over the lines.

A line holds one row. Names are kept as they are: never stripped, never case-folded. Blank lines are skipped. A CR at the end of a
line belongs to the line end. TSV has no quotes. CSV follows RFC 4180: a field may be quoted, and a quoted field may hold
separators, quotes and line breaks. Only lines with a quote go through the csv module.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from dura.data.opening import name_of, read_lines
from dura.data.readers import ReadOptions
from dura.data.sheet import SAMPLE, BadLines, Sheet
from dura.types import BadInput

PIECE = 1 << 28
"""How many bytes become lines at a time: polars keeps the length of a string in 32 bits."""
SPAN = 1000
"""The most lines that a quoted field may have. A quote that is never closed would take in the rest of the file."""
JOINTS = "\x1f\x1e\x1d\x1c\x02\x03\ue000\ue001"
"""Characters that can stand between fields after quotes are resolved. The first one that the text does not hold is used."""
MARK = re.compile(rb"sep=(.)\n")
"""What Excel writes for itself as the first line."""
BEGINNING = 20_000
"""How many bytes are looked at to decide the form of a text."""
NOT_UTF8 = "not UTF-8 (if the file is Latin-1, convert it first: iconv -f latin1 -t utf-8)"
SEPARATORS = {"\\t": "\t", "tab": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}
"""The separators that have a name."""


@dataclass
class Lines(Sheet):
    """Lines of text that are split when columns are taken. `widths` is the number of fields of each line."""

    widths: pl.Series = field(default_factory=lambda: pl.Series([], dtype=pl.UInt32))

    @property
    def width(self) -> int:
        """The number of columns of most lines."""
        return int(self.widths.mode().min()) if len(self.widths) else 0  # type: ignore[arg-type]

    @property
    def widest(self) -> int:
        """The number of columns of the longest line."""
        return int(self.widths.max() or 0)  # type: ignore[arg-type]

    def first(self) -> list[str]:
        """The fields of the first line that has as many as most lines. Lines before it may be titles or comments."""
        usual = (self.widths == self.width).arg_max() if len(self.rows) else None
        return [] if usual is None else list(self.rows["text"][usual].split(self.separator))

    def sample(self, count: int = SAMPLE) -> pl.DataFrame:
        """The columns of lines from all over the file; fields beyond the usual width are left out."""
        return self._split(self.rows["text"].gather_every(max(1, len(self.rows) // count)), max(1, self.width - 1))

    def take(self, columns: Sequence[int]) -> pl.DataFrame:
        """Some columns of all lines; null where a line is too short."""
        fields = self._split(self.rows["text"], max(1, *columns))
        return fields.select(fields.columns[at] for at in columns)

    def _split(self, text: pl.Series, last: int) -> pl.DataFrame:
        return text.str.split_exact(self.separator, last).struct.unnest()

    def keep(self, fits: pl.Series) -> Lines:
        """Some of the lines."""
        assert self.numbers is not None
        return Lines(
            self.origin,
            self.rows.filter(fits),
            numbers=self.numbers.filter(fits),
            bad=self.bad,
            notes=self.notes,
            separator=self.separator,
            widths=self.widths.filter(fits),
        )


@dataclass(frozen=True)
class Form:
    """How the fields of a text are separated, and whether they may be quoted."""

    separator: str
    quoted: bool


def read_tsv(path: Path, options: ReadOptions) -> Sheet:
    """Read lines of fields between tabs, or another separator that the options name."""
    data = read_lines(path, options.most_gb)
    return sheet_of(data, tsv_form(data, options), BadLines(name_of(path)))


def read_csv(path: Path, options: ReadOptions) -> Sheet:
    """Read lines of fields between commas, or another separator that the options name; fields may be quoted.

    Without a named separator, a file whose first line has semicolons or tabs but no commas is read with these.
    """
    data = read_lines(path, options.most_gb)
    return sheet_of(without_mark(data), csv_form(data, options), BadLines(name_of(path)))


def tsv_form(data: bytes, options: ReadOptions) -> Form:
    """The form of a TSV file, by its beginning."""
    separator = one_character(options.separator) if options.separator else "\t"
    first = _first_line(data)
    if options.separator is None and b"\t" not in first and _usual_separator(data) != "\t" and _apart(first):
        separator = _usual_separator(data)
    return Form(separator, separator != "\t" or (first.startswith(b'"') and first.rstrip().endswith(b'"')))


def csv_form(data: bytes, options: ReadOptions) -> Form:
    """The form of a CSV file, by its beginning."""
    separator = one_character(options.separator) if options.separator else ""
    given = MARK.match(data)
    rest = without_mark(data[:BEGINNING])
    return Form(separator or (given[1].decode("latin-1") if given else _usual_separator(rest)), quoted=True)


def without_mark(data: bytes) -> bytes:
    """The text of a CSV file with a blank line instead of the mark that Excel writes for itself."""
    given = MARK.match(data)
    return b"\n" + data[given.end() :] if given else data


def sheet_of(data: bytes, form: Form, bad: BadLines) -> Lines:
    """The sheet of a text."""
    lines, separator = _lines(data, bad), form.separator
    if form.quoted and b'"' in data:
        lines, separator = _unquote(lines, separator, bad)
    return _sheet(lines.filter(pl.col("text") != ""), separator, bad)


def _sheet(lines: pl.DataFrame, separator: str, bad: BadLines) -> Lines:
    widths = lines["text"].str.count_matches(separator, literal=True) + 1
    rows, numbers = lines.select("text"), lines["line"]
    return Lines(str(bad.path), rows, numbers=numbers, bad=bad, separator=separator, widths=widths)


def one_character(given: str) -> str:
    """The separator: one character, or the character that a word such as tab names."""
    separator = SEPARATORS.get(given, given)
    if len(separator) != 1 or separator in '\r\n"':
        raise BadInput(f"the separator {given!r} is not one character such as ',' or ';', or the word tab")
    return separator


def _first_line(data: bytes) -> bytes:
    """The first line that holds anything, or its beginning."""
    return data[:BEGINNING].lstrip(b"\n").partition(b"\n")[0]


def _apart(line: bytes) -> bool:
    """True if a line has at least three fields between commas, semicolons or bars."""
    return any(line.count(mark) >= 2 for mark in (b",", b";", b"|"))


def _usual_separator(data: bytes) -> str:
    """The separator of a CSV file, by its first line."""
    first = _first_line(data)
    others = [mark for mark in (b";", b"\t", b"|") if mark in first]
    return "," if b"," in first or not others else others[0].decode()


def _pieces(data: bytes) -> Iterator[bytes]:
    """The data in pieces of whole lines, each of PIECE bytes or a little more."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def _lines(data: bytes, bad: BadLines) -> pl.DataFrame:
    """The lines with their numbers from 1; lines that are not UTF-8 are bad."""
    parts = []
    for piece in _pieces(data):
        try:
            parts.append(pl.Series([piece.decode()]).str.split("\n").explode())
        except UnicodeDecodeError:
            parts.append(pl.Series([_decoded(line) for line in piece.split(b"\n")], dtype=pl.String))
    text = pl.concat(parts) if parts else pl.Series([], dtype=pl.String)
    lines = pl.DataFrame({"text": text}).with_row_index("line", offset=1)
    wrong = lines["line"].filter(lines["text"].is_null())
    bad.add(wrong, pl.repeat(NOT_UTF8, len(wrong), dtype=pl.String, eager=True))
    return lines.filter(pl.col("text").is_not_null())


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


# -- quotes -----------------------------------------------------------------------------------------------------------


def _unquote(lines: pl.DataFrame, separator: str, bad: BadLines) -> tuple[pl.DataFrame, str]:
    """Lines whose fields are joined by a character that the text does not hold, and that character.

    A record that takes in more lines has the number of its first line.
    """
    joint = next((mark for mark in JOINTS if not lines["text"].str.contains(mark, literal=True).any()), None)
    if joint is None:
        raise BadInput(f"{bad.path} holds every control character that could separate its fields; is it text?")
    quoted = lines["text"].str.contains('"', literal=True)
    records, taken, wrong = _records(lines, quoted.arg_true().to_list(), separator, joint)
    bad.add(
        pl.Series(sorted(wrong), dtype=lines["line"].dtype),
        pl.repeat("a quote is not closed, or text follows it", len(wrong), dtype=pl.String, eager=True),
    )
    plain = lines.filter(~quoted & ~pl.col("line").is_in(list(taken)) if taken else ~quoted)
    plain = plain.with_columns(pl.col("text").str.replace_all(separator, joint, literal=True))
    parsed = pl.DataFrame({"line": list(records), "text": list(records.values())}, schema=lines.schema)
    return pl.concat([plain, parsed]).sort("line"), joint


def _records(
    lines: pl.DataFrame, quoted: list[int], separator: str, joint: str
) -> tuple[dict[int, str], set[int], list[int]]:
    """The records that begin in lines with a quote, by line number; further lines that they take in; bad line numbers."""
    text, numbers = lines["text"], lines["line"]
    alone = _parse_each(text.gather(quoted).to_list(), separator)
    if None not in alone:
        return (
            {int(numbers[at]): joint.join(f) for at, f in zip(quoted, alone, strict=True) if f is not None},
            set(),
            [],
        )
    records: dict[int, str] = {}
    taken: set[int] = set()
    wrong: list[int] = []
    for at, fields in zip(quoted, alone, strict=True):
        number = int(numbers[at])
        if number in taken:
            continue
        if fields is None and (more := _further(text, at, separator)) is not None:
            fields, end = more
            taken.update(numbers[at + 1 : end].to_list())
        if fields is None:
            wrong.append(number)
        else:
            records[number] = joint.join(fields)
    return records, taken, wrong


def _further(text: pl.Series, at: int, separator: str) -> tuple[list[str], int] | None:
    """The record that begins in line `at` and ends in a later one, and where the next record begins.

    Quotes inside of a quoted field are doubled, so the field ends where the number of quotes becomes even.
    """
    lines, quotes = text[at : at + SPAN].to_list(), 0
    for end, line in enumerate(lines, 1):
        quotes += line.count('"')
        if quotes % 2 == 0:
            fields = _parse([f"{line}\n" for line in lines[:end]], separator)
            return None if fields is None else (fields, at + end)
    return None


def _parse_each(lines: list[str], separator: str) -> list[list[str] | None]:
    """The fields of each line, None for a line that is not a whole record.

    All lines are parsed at once first. If a record took in the next line, the count shows it, and lines are parsed one by one.
    """
    try:
        records = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        records = []
    if len(records) == len(lines):
        return list(records)
    return [_parse([line], separator) for line in lines]


def _parse(lines: list[str], separator: str) -> list[str] | None:
    """The fields of one CSV record, or None if these lines are not one record."""
    try:
        records = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        return None
    return records[0] if len(records) == 1 else None
