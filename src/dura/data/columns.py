"""Columns: which columns of a file are facts where the user has only named that of the times."""

from __future__ import annotations

import csv
from pathlib import Path

from dura.data.files import endings, read_lines
from dura.data.readers import split_files
from dura.data.separated import HEADERS, one_character
from dura.data.table import FACT, Columns, ReadOptions
from dura.types import BadInput


def with_time(
    path: Path,
    time: int | Columns,
    columns: Columns | None = None,
    *,
    header: bool | None = None,
    separator: str | None = None,
) -> tuple[int | str, ...]:
    """The columns of head, relation and tail, then that of the time, or those of begin and end.

    Without `columns`, head, relation and tail are where a well-known header names them, else they are the first three columns
    that are not times. A folder's train file speaks for all.
    """
    times = ReadOptions((time,) if isinstance(time, int) else time).chosen or ()
    if len(times) not in (1, 2):
        raise BadInput(f"{len(times)} columns of times are chosen, but a fact has one time, or a begin and an end")
    chosen = ReadOptions(columns).chosen
    if chosen is None:
        chosen = _facts(path, times, header, separator)
    elif len(chosen) != len(FACT):
        raise BadInput(
            f"{len(chosen)} columns are chosen, but beside a time they are three: head, relation and tail, without the time"
        )
    every = (*chosen, *times)
    if len(set(every)) < len(every):
        raise BadInput(f"a column is chosen twice: {', '.join(map(str, every))}")
    return every


def _facts(
    path: Path, times: tuple[int | str, ...], header: bool | None, separator: str | None
) -> tuple[int | str, ...]:
    """Where head, relation and tail are, beside these columns of times."""
    if not path.exists():
        raise BadInput(f"a column of times belongs to a file or folder of your own, but there is no {str(path)!r}")
    file = split_files(path).get("train", path) if path.is_dir() else path
    first = _first(file, separator)
    names = {name.casefold(): name for name in reversed(first)}
    known = next((roles for roles in HEADERS if set(roles) <= set(names)), None)
    if known is not None and header is not False:
        return tuple(names[role] for role in known)
    for column in times:
        if isinstance(column, str) and column not in first:
            raise BadInput(f"{file} has no column {column!r}; its first line has {', '.join(map(repr, first))}")
    taken = {first.index(column) if isinstance(column, str) else column for column in times}
    return tuple(at for at in range(len(FACT) + len(times)) if at not in taken)[: len(FACT)]


def _first(file: Path, separator: str | None) -> list[str]:
    """The fields of the first line that is not blank."""
    comma = endings(file)[0] == ".csv"
    between = one_character(separator or ("," if comma else "\t"))
    line = read_lines(file).lstrip(b"\n").partition(b"\n")[0].decode("utf-8", errors="replace")
    return next(csv.reader([line], delimiter=between), []) if comma else line.split(between)
