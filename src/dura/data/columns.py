"""Columns: where head, relation and tail are in a file if the user named only the column of the time."""

from __future__ import annotations

from pathlib import Path

from dura.data.readers import FACT, HEADERS, ReadOptions, one_by_one
from dura.types import BadInput


def with_time(path: Path, first: list[str], options: ReadOptions) -> tuple[int | str, ...]:
    """All columns of a fact: head, relation and tail, then the time or begin and end that `options.time` names.

    Head, relation and tail are `options.columns` if these are given. Otherwise they are where the `first` line has well-known
    names for them, or else the first three columns that are not times.

    >>> with_time(Path("visits.csv"), ["day", "from", "link", "to"], ReadOptions(time="day"))
    (1, 2, 3, 'day')
    """
    assert options.time is not None
    times = (options.time,) if isinstance(options.time, int) else one_by_one(options.time)
    if len(times) not in (1, 2):
        raise BadInput(f"{len(times)} columns of times are chosen, but a fact has one time, or a begin and an end")
    chosen = options.chosen
    if chosen is None:
        chosen = _others(path, first, times, options.header)
    elif len(chosen) != len(FACT):
        raise BadInput(
            f"{len(chosen)} columns are chosen, but next to a time there must be three: head, relation and tail, "
            "without the time"
        )
    every = (*chosen, *times)
    if len(set(every)) < len(every):
        raise BadInput(f"a column is chosen twice: {', '.join(map(str, every))}")
    return every


def _others(path: Path, first: list[str], times: tuple[int | str, ...], header: bool | None) -> tuple[int | str, ...]:
    """Where head, relation and tail are, given the columns of times."""
    names = {name.casefold(): name for name in reversed(first)}
    known = next((roles for roles in HEADERS if set(roles) <= set(names)), None)
    if known is not None and header is not False:
        return tuple(names[role] for role in known)
    for column in times:
        if isinstance(column, str) and column not in first:
            raise BadInput(f"{path} has no column {column!r}; its first line has {', '.join(map(repr, first))}")
    taken = {first.index(column) if isinstance(column, str) else column for column in times}
    return tuple(at for at in range(len(FACT) + len(times)) if at not in taken)[: len(FACT)]
