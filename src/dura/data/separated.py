"""Separated: TSV and CSV files to columns of names, without a loop over the lines.

A line holds one fact. Names are kept as they are: never stripped, never case-folded. Blank lines are skipped. A CR at the
end of a line belongs to the line end. TSV has no quotes. In CSV a field may be quoted, but it cannot span lines; only lines
with a quote go through the csv module.

How many columns must a line have? Without `columns`: exactly the wanted ones. With `columns` and a header: as many as the
header. With `columns` and no header: at least the chosen ones, so files with lines of several widths can be read. If facts
have times, the columns of times may be empty, or missing at the end of a line.

The first line is a header if `header` says so, if columns are chosen by name, or if it is one of the well-known HEADERS, in
any case and order. In that last case the header also says which column is which.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from dura.data.columns import with_time
from dura.data.readers import (
    FACT,
    FACTS,
    HEADERS,
    INTERVAL,
    POINT,
    FileColumns,
    ReadOptions,
    Roles,
    read_lines,
)
from dura.data.sheet import BadLines
from dura.data.times import bad_dates, turned
from dura.types import BadInput

PIECE = 1 << 28
"""How many bytes become lines at a time: polars keeps the length of a string in 32 bits."""
TIME_HEADERS: dict[Roles, tuple[Roles, ...]] = {
    FACT: ((),),
    POINT: (("time",), ("date",), ("timestamp",), ("year",)),
    INTERVAL: (("begin", "end"), ("start", "end"), ("since", "until")),
}
"""The well-known names of times in a header, by the roles of the columns."""


def read_tsv(path: Path, options: ReadOptions, roles: Roles | None) -> FileColumns:
    """Read lines of fields between tabs, or another separator that the options name."""
    bad = BadLines(path)
    return _columns(_lines(read_lines(path), bad), _one_character(options.separator or "\t"), options, roles, bad)


def read_csv(path: Path, options: ReadOptions, roles: Roles | None) -> FileColumns:
    """Read lines of fields between commas, or another separator that the options name; fields may be quoted."""
    bad = BadLines(path)
    lines, separator = _unquote(_lines(read_lines(path), bad), _one_character(options.separator or ","), bad)
    return _columns(lines, separator, options, roles, bad)


def _columns(
    lines: pl.DataFrame, separator: str, options: ReadOptions, roles: Roles | None, bad: BadLines
) -> FileColumns:
    """The wanted columns of lines without quotes."""
    lines = lines.with_columns(width=pl.col("text").str.count_matches(separator, literal=True) + 1)
    if len(lines):
        first = lines["text"][0].split(separator)
        if options.time is not None:
            options = replace(options, columns=with_time(bad.path, first, options), time=None)
        roles = roles or _fact_roles(first, options)
        plan = _plan(lines, separator, options, roles, bad.path)
        lines = _fields(lines.slice(1 if plan.header else 0), separator, plan, roles, bad)
        lines = _sensible(lines, bad)
    bad.stop(options.skip_bad)
    if not len(lines):
        raise BadInput(f"{bad.path} holds no facts")
    columns = [lines[role] for role in lines.columns[1:]]
    return FileColumns(columns, lines["line"], bad.first, bad.total, plan.notes, options.chosen)


def _one_character(given: str) -> str:
    """The separator: one character, or the character that a word such as tab names."""
    separator = {"\\t": "\t", "tab": "\t", "comma": ",", "space": " "}.get(given, given)
    if len(separator) != 1 or separator in '\r\n"':
        raise BadInput(f"the separator {given!r} is not one character such as ',' or ';', or the word tab")
    return separator


def _pieces(data: bytes) -> Iterator[bytes]:
    """The data in pieces of whole lines, each of PIECE bytes or a little more."""
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
    lines = pl.DataFrame({"text": text}).with_row_index("line", offset=1)
    wrong = lines["line"].filter(lines["text"].is_null())
    bad.add(wrong, pl.repeat("not UTF-8", len(wrong), dtype=pl.String, eager=True))
    return lines.filter(pl.col("text") != "")


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _unquote(lines: pl.DataFrame, separator: str, bad: BadLines) -> tuple[pl.DataFrame, str]:
    """Lines without CSV quotes, and their separator: a line break, because a field of one line cannot hold one."""
    quoted = lines["text"].str.contains('"', literal=True)
    if not quoted.any():
        return lines, separator
    fields = pl.Series(_parse(lines["text"].filter(quoted).to_list(), separator), dtype=pl.String)
    plain = lines.filter(~quoted).with_columns(pl.col("text").str.replace_all(separator, "\n", literal=True))
    parsed = lines.filter(quoted).with_columns(text=fields)
    wrong = parsed["line"].filter(parsed["text"].is_null())
    bad.add(wrong, pl.repeat("a quote is not closed, or text follows it", len(wrong), dtype=pl.String, eager=True))
    return pl.concat([plain, parsed.filter(pl.col("text").is_not_null())]).sort("line"), "\n"


def _parse(lines: list[str], separator: str) -> list[str | None]:
    """The fields of each CSV line joined by line breaks, None for a bad line.

    All lines are parsed at once first. If a record took in the next line, the count shows it, and lines are parsed one by one.
    """
    try:
        records = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        records = []
    if len(records) == len(lines):
        return ["\n".join(fields) for fields in records]
    return [_parse_one(line, separator) for line in lines]


def _parse_one(line: str, separator: str) -> str | None:
    try:
        return "\n".join(next(csv.reader([line], delimiter=separator, strict=True)))
    except csv.Error:
        return None


@dataclass(frozen=True)
class _Plan:
    """Which columns have the roles, whether the first line is a header, and how many columns a good line has."""

    positions: tuple[int, ...]
    header: bool
    least: int
    most: int | None
    notes: list[str]


def _fact_roles(first: list[str], options: ReadOptions) -> Roles:
    """The roles of a fact's columns: by the number of chosen columns, else by the header, else head, relation and tail."""
    chosen = options.chosen
    if chosen is not None:
        return next((roles for roles in FACTS if len(roles) == len(chosen)), FACT)
    if options.header is False:
        return FACT
    return next((roles for roles in FACTS if _well_known(first, roles) is not None), FACT)


def _named(roles: Roles) -> int:
    """How many of the roles every line must have: those after head, relation and tail are optional."""
    return len(FACT) if roles[: len(FACT)] == FACT else len(roles)


def _plan(lines: pl.DataFrame, separator: str, options: ReadOptions, roles: Roles, path: Path) -> _Plan:
    """Decide on header and columns by the options, the first line and the usual width."""
    first = lines["text"][0].split(separator)
    chosen = options.chosen
    by_name = chosen is not None and any(isinstance(column, str) for column in chosen)
    if by_name and options.header is False:
        raise BadInput(f"columns of {path} are chosen by name, but header=False says that it has no header")
    if chosen is not None and len(chosen) != len(roles):
        timed = ", 4 with a time, 5 with its begin and end" if roles == FACT else ""
        raise BadInput(f"{len(roles)} columns are needed ({', '.join(roles)}){timed}, but {len(chosen)} are chosen")
    if chosen is None and not _named(roles) <= (width := _usual(lines)) <= len(roles):
        raise BadInput(_wrong_width(path, width, separator, roles))
    widest = int(lines["width"].max())  # type: ignore[arg-type]
    positions = tuple(_position(path, column, first, widest) for column in chosen or range(len(roles)))
    known = _well_known([first[at] for at in positions if at < len(first)], roles)
    header = by_name or known is not None if options.header is None else options.header
    notes = []
    if known is not None and header and not by_name:
        notes = [f"{path.name}: header recognised ({', '.join(first)})"] if options.header is None else []
        positions = known if chosen is None else positions
    full = len(first) if header else 1 + max(positions)
    least = full if len(roles) == _named(roles) else 1 + max(positions[: _named(roles)])
    return _Plan(positions, header, least, full if header or chosen is None else None, notes)


def _usual(lines: pl.DataFrame) -> int:
    """The most frequent number of columns."""
    return int(lines["width"].mode().min())  # type: ignore[arg-type]


def _well_known(first: list[str], roles: Roles) -> tuple[int, ...] | None:
    """The positions of the roles if the first line is one of HEADERS in any order, else None."""
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
        timed = " (columns=0,1,2,3 if the last is a time)" if roles == FACT else ""
        return f"the lines of {path} have {width} columns, but {need}; choose them, for example columns={choice}{timed}"
    between = {"\t": "tabs", "\n": "separators"}.get(separator, repr(separator))
    columns = "1 column" if width == 1 else f"{width} columns"
    return f"the lines of {path} have {columns} between {between}, but {need}; does it have another separator?"


def _fields(lines: pl.DataFrame, separator: str, plan: _Plan, roles: Roles, bad: BadLines) -> pl.DataFrame:
    """The wanted columns of the good lines. Lines of a wrong width or with an empty name are bad."""
    fits = lines["width"] >= plan.least
    if plan.most is not None:
        fits &= lines["width"] <= plan.most
    wanted = f"at least {plan.least}" if plan.most is None else f"{plan.least} to {plan.most}"
    wanted = str(plan.least) if plan.least == plan.most else wanted
    wrong = lines.filter(~fits)
    bad.add(wrong["line"], wrong.select(pl.format("{} columns instead of " + wanted, "width")).to_series())
    lines = lines.filter(fits)
    fields = lines["text"].str.split_exact(separator, max(1, *plan.positions)).struct.unnest()
    picked = [fields.to_series(at).alias(role) for at, role in zip(plan.positions, roles, strict=True)]
    chosen = pl.DataFrame([lines["line"], *picked]).with_columns(pl.col(roles[_named(roles) :]).fill_null(""))
    empty = [pl.when(pl.col(role) == "").then(pl.lit(f"the {role} is empty")) for role in roles[: _named(roles)]]
    return _without(chosen, pl.coalesce(empty), bad)


def _sensible(lines: pl.DataFrame, bad: BadLines) -> pl.DataFrame:
    """The lines with possible times: dates that are in the calendar, and no end before its begin."""
    for role in (role for role in ("time", "begin", "end") if role in lines.columns):
        wrong = pl.col(role).is_in(bad_dates(lines[role]))
        lines = _without(
            lines, pl.when(wrong).then(pl.format(f"the {role} {{}} is not a date of the calendar", role)), bad
        )
    if "begin" in lines.columns:
        early = pl.format("the end {} is before the begin {}", "end", "begin")
        lines = _without(lines, pl.when(turned(lines["begin"], lines["end"])).then(early), bad)
    return lines


def _without(lines: pl.DataFrame, reason: pl.Expr, bad: BadLines) -> pl.DataFrame:
    """The lines that are not bad; `reason` is null for a good line."""
    lines = lines.with_columns(reason.alias("reason"))
    wrong = lines.filter(pl.col("reason").is_not_null())
    bad.add(wrong["line"], wrong["reason"])
    return lines.filter(pl.col("reason").is_null()).drop("reason")
