"""Lines of fields between separators (TSV, CSV) to columns of names, without a loop over the lines.

One fact a line. Names are taken as they stand: never stripped, never case-folded. Blank lines are passed
over. A line's last CR belongs to its line end. TSV has no quotes; in CSV a field may be quoted but not span
lines (only lines with a quote go through the csv module).

Without `columns` a line must have exactly the wanted columns; with `columns` and a header, as many as the
header; with `columns` and no header, at least the chosen ones, so that files with lines of several widths can
be read. Where facts have times, the columns of times may be empty, or missing at a line's end.

The first line is a header if `header` says so, if columns are chosen by name, or if it is one of the
well-known HEADERS, in any case and order; then the columns are taken by their names.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dura.data.files import read_lines
from dura.data.table import FACT, FACTS, INTERVAL, POINT, BadLines, ReadOptions, Roles, Table
from dura.data.times import bad_dates, turned
from dura.types import BadInput

PIECE = 1 << 28
"""Bytes turned into lines at a time: polars keeps a string's length in 32 bits."""
HEADERS = (
    FACT,
    ("h", "r", "t"),
    ("subject", "predicate", "object"),
    ("subject", "relation", "object"),
    ("s", "p", "o"),
    ("source", "relation", "target"),
)
TIME_HEADERS: dict[Roles, tuple[Roles, ...]] = {
    FACT: ((),),
    POINT: (("time",), ("date",), ("timestamp",), ("year",)),
    INTERVAL: (("begin", "end"), ("start", "end"), ("since", "until")),
}
"""What may follow one of HEADERS."""


def read_separated(path: Path, options: ReadOptions, roles: Roles | None, *, separator: str, quotes: bool) -> Table:
    """Read a file of lines whose fields stand between separators; `quotes` as in CSV, no `roles` for those of a fact."""
    bad = BadLines(path)
    separator = one_character(options.separator or separator)
    rows = _lines(read_lines(path), bad)
    if quotes:
        rows, separator = _unquote(rows, separator, bad)
    rows = rows.with_columns(width=pl.col("text").str.count_matches(separator, literal=True) + 1)
    if len(rows):
        roles = roles or _fact_roles(rows["text"][0].split(separator), options)
        choice = _choose(path, rows, separator, options, roles)
        rows = _fields(rows.slice(1 if choice.header else 0), separator, choice, roles, bad)
        rows = _sensible(rows, bad)
    bad.stop(options.skip_bad)
    if not len(rows):
        raise BadInput(f"{path} holds no facts")
    return Table([rows[role] for role in rows.columns[1:]], rows["line"], bad.first, bad.total, choice.notes)


def one_character(given: str) -> str:
    """The separator that a name such as tab or a character stands for."""
    separator = {"\\t": "\t", "tab": "\t", "comma": ",", "space": " "}.get(given, given)
    if len(separator) != 1 or separator in '\r\n"':
        raise BadInput(f"the separator {given!r} is not one character such as ',' or ';', or the word tab")
    return separator


def _pieces(data: bytes) -> Iterator[bytes]:
    """The data in whole lines, PIECE bytes or a little more at a time."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def _lines(data: bytes, bad: BadLines) -> pl.DataFrame:
    """The lines that are not blank, with their numbers from 1; lines that are not UTF-8 are bad."""
    parts = []
    for piece in _pieces(data):
        try:
            parts.append(pl.Series([piece.decode()]).str.split("\n").explode())
        except UnicodeDecodeError:
            parts.append(pl.Series([_decoded(line) for line in piece.split(b"\n")], dtype=pl.String))
    text = pl.concat(parts) if parts else pl.Series([], dtype=pl.String)
    rows = pl.DataFrame({"text": text}).with_row_index("line", offset=1)
    wrong = rows["line"].filter(rows["text"].is_null())
    bad.add(wrong, pl.repeat("not UTF-8", len(wrong), dtype=pl.String, eager=True))
    return rows.filter(pl.col("text") != "")


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _unquote(rows: pl.DataFrame, separator: str, bad: BadLines) -> tuple[pl.DataFrame, str]:
    """Lines without CSV quotes, and their separator: a line break, as no field of one line can hold it."""
    quoted = rows["text"].str.contains('"', literal=True)
    if not quoted.any():
        return rows, separator
    fields = pl.Series(_parse(rows["text"].filter(quoted).to_list(), separator), dtype=pl.String)
    plain = rows.filter(~quoted).with_columns(pl.col("text").str.replace_all(separator, "\n", literal=True))
    parsed = rows.filter(quoted).with_columns(text=fields)
    wrong = parsed["line"].filter(parsed["text"].is_null())
    bad.add(wrong, pl.repeat("a quote is not closed, or text follows it", len(wrong), dtype=pl.String, eager=True))
    return pl.concat([plain, parsed.filter(pl.col("text").is_not_null())]).sort("line"), "\n"


def _parse(lines: list[str], separator: str) -> list[str | None]:
    """Each CSV line's fields joined by line breaks, None for a bad one.

    All lines at once first: a row that took in the next line shows in the count.
    """
    try:
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        rows = []
    if len(rows) == len(lines):
        return ["\n".join(row) for row in rows]
    return [_parse_one(line, separator) for line in lines]


def _parse_one(line: str, separator: str) -> str | None:
    try:
        return "\n".join(next(csv.reader([line], delimiter=separator, strict=True)))
    except csv.Error:
        return None


@dataclass(frozen=True)
class _Choice:
    """Which columns stand for the roles, and how many a good line has, at least and at most."""

    positions: tuple[int, ...]
    header: bool
    least: int
    most: int | None
    notes: list[str]


def _fact_roles(first: list[str], options: ReadOptions) -> Roles:
    """What the columns of facts are: as many as are chosen, else what the header names, else head, relation and tail."""
    chosen = options.chosen
    if chosen is not None:
        return next((roles for roles in FACTS if len(roles) == len(chosen)), FACT)
    if options.header is False:
        return FACT
    return next((roles for roles in FACTS if _well_known(first, roles) is not None), FACT)


def _named(roles: Roles) -> int:
    """How many of the roles every line must have: what follows head, relation and tail is optional."""
    return len(FACT) if roles[: len(FACT)] == FACT else len(roles)


def _choose(path: Path, rows: pl.DataFrame, separator: str, options: ReadOptions, roles: Roles) -> _Choice:
    """Decide on header and columns from the options, the first line and the usual width."""
    first = rows["text"][0].split(separator)
    chosen = options.chosen
    by_name = chosen is not None and any(isinstance(column, str) for column in chosen)
    if by_name and options.header is False:
        raise BadInput(f"columns of {path} are chosen by name, but header=False says that it has no names")
    if chosen is not None and len(chosen) != len(roles):
        timed = ", 4 with a time, 5 with its begin and end" if roles == FACT else ""
        raise BadInput(f"{len(roles)} columns are needed ({', '.join(roles)}){timed}, but {len(chosen)} are chosen")
    if chosen is None and not _named(roles) <= (width := _usual(rows)) <= len(roles):
        raise BadInput(_wrong_width(path, width, separator, roles))
    widest = int(rows["width"].max())  # type: ignore[arg-type]
    positions = tuple(_position(path, column, first, widest) for column in chosen or range(len(roles)))
    known = _well_known([first[at] for at in positions if at < len(first)], roles)
    header = by_name or known is not None if options.header is None else options.header
    notes = []
    if known is not None and header and not by_name:
        notes = [f"{path.name}: header recognised ({', '.join(first)})"] if options.header is None else []
        positions = known if chosen is None else positions
    full = len(first) if header else 1 + max(positions)
    least = full if len(roles) == _named(roles) else 1 + max(positions[: _named(roles)])
    return _Choice(positions, header, least, full if header or chosen is None else None, notes)


def _usual(rows: pl.DataFrame) -> int:
    """The most frequent number of columns."""
    return int(rows["width"].mode().min())  # type: ignore[arg-type]


def _well_known(first: list[str], roles: Roles) -> tuple[int, ...] | None:
    """Where the roles stand if the first line is one of HEADERS in any order."""
    names = [name.casefold() for name in first]
    for header in ((*names, *times) for names in HEADERS for times in TIME_HEADERS.get(roles, ())):
        if len(header) == len(roles) and sorted(header) == sorted(names):
            return tuple(names.index(name) for name in header)
    return None


def _position(path: Path, column: int | str, first: list[str], widest: int) -> int:
    if isinstance(column, int):
        if not 0 <= column < widest:
            raise BadInput(f"{path} has no column {column}: its {widest} columns are numbered from 0")
        return column
    if column not in first:
        raise BadInput(f"{path} has no column {column!r}; its header has {', '.join(map(repr, first))}")
    return first.index(column)


def _wrong_width(path: Path, width: int, separator: str, roles: Roles) -> str:
    need = f"{len(roles)} are needed ({', '.join(roles)})"
    if width > len(roles):
        choice = ",".join(str(i) for i in range(len(roles)))
        timed = " (columns=0,1,2,3 where the last is a time)" if roles == FACT else ""
        return f"the lines of {path} have {width} columns, but {need}; choose them, for example columns={choice}{timed}"
    between = {"\t": "tabs", "\n": "separators"}.get(separator, repr(separator))
    columns = "1 column" if width == 1 else f"{width} columns"
    return f"the lines of {path} have {columns} between {between}, but {need}; is the separator another one?"


def _fields(rows: pl.DataFrame, separator: str, choice: _Choice, roles: Roles, bad: BadLines) -> pl.DataFrame:
    """The chosen columns of the good lines; lines of a wrong width and empty names are bad."""
    fits = rows["width"] >= choice.least
    if choice.most is not None:
        fits &= rows["width"] <= choice.most
    wanted = f"at least {choice.least}" if choice.most is None else f"{choice.least} to {choice.most}"
    wanted = str(choice.least) if choice.least == choice.most else wanted
    wrong = rows.filter(~fits)
    bad.add(wrong["line"], wrong.select(pl.format("{} columns instead of " + wanted, "width")).to_series())
    rows = rows.filter(fits)
    fields = rows["text"].str.split_exact(separator, max(1, *choice.positions)).struct.unnest()
    picked = [fields.to_series(at).alias(role) for at, role in zip(choice.positions, roles, strict=True)]
    table = pl.DataFrame([rows["line"], *picked]).with_columns(pl.col(roles[_named(roles) :]).fill_null(""))
    empty = [pl.when(pl.col(role) == "").then(pl.lit(f"the {role} is empty")) for role in roles[: _named(roles)]]
    return _without(table, pl.coalesce(empty), bad)


def _sensible(table: pl.DataFrame, bad: BadLines) -> pl.DataFrame:
    """The lines whose times can be: dates of the calendar, and no end before its begin."""
    for role in (role for role in ("time", "begin", "end") if role in table.columns):
        wrong = pl.col(role).is_in(bad_dates(table[role]))
        table = _without(table, pl.when(wrong).then(pl.format(f"the {role} {{}} is no date", role)), bad)
    if "begin" in table.columns:
        early = pl.format("the end {} is before the begin {}", "end", "begin")
        table = _without(table, pl.when(turned(table["begin"], table["end"])).then(early), bad)
    return table


def _without(table: pl.DataFrame, reason: pl.Expr, bad: BadLines) -> pl.DataFrame:
    """The lines without a reason to be bad."""
    table = table.with_columns(reason.alias("reason"))
    wrong = table.filter(pl.col("reason").is_not_null())
    bad.add(wrong["line"], wrong["reason"])
    return table.filter(pl.col("reason").is_null()).drop("reason")
