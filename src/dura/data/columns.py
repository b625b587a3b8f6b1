"""Columns: where head, relation and tail are in a file if the user named only the column of the time."""

from __future__ import annotations

from collections.abc import Sequence

from dura.data.readers import FACT, ReadOptions, one_by_one
from dura.data.words import named
from dura.types import BadInput


def with_time(origin: str, first: Sequence[str], options: ReadOptions) -> tuple[int | str, ...]:
    """All columns of a fact: head, relation and tail, then the time or begin and end that `options.time` names.

    Head, relation and tail are `options.columns` if these are given. Otherwise they are where the `first` line has well-known
    names for them, or else the first three columns that are not times.

    >>> with_time("visits.csv", ["day", "a", "b", "c"], ReadOptions(time="day"))
    (1, 2, 3, 'day')
    """
    assert options.time is not None
    times = (options.time,) if isinstance(options.time, int) else one_by_one(options.time)
    if len(times) not in (1, 2):
        raise BadInput(f"{len(times)} columns of times are chosen, but a fact has one time, or a begin and an end")
    chosen = options.chosen
    if chosen is None:
        chosen = _others(origin, first, times, options.header)
    elif len(chosen) != len(FACT):
        raise BadInput(
            f"{len(chosen)} columns are chosen, but next to a time there must be three: head, relation and tail, "
            "without the time"
        )
    every = (*chosen, *times)
    if len(set(every)) < len(every):
        raise BadInput(f"a column is chosen twice: {', '.join(map(str, every))}")
    return every


def _others(
    origin: str, first: Sequence[str], times: tuple[int | str, ...], header: bool | None
) -> tuple[int | str, ...]:
    """Where head, relation and tail are, given the columns of times."""
    for column in times:
        if isinstance(column, str) and column not in first:
            raise BadInput(f"{origin} has no column {column!r}; its first line has {', '.join(map(repr, first))}")
    whole = named(first)
    for column in times:
        if isinstance(column, str) and whole is not None and first.index(column) in whole.positions[: len(FACT)]:
            raise BadInput(
                f"{origin}: by its title, the column {column!r} is no time but a part of the fact; choose --columns too"
            )
    taken = {list(first).index(column) if isinstance(column, str) else column for column in times}
    known = named(["" if at in taken else title for at, title in enumerate(first)])
    if known is not None and header is not False:
        return tuple(first[at] for at in known.positions[: len(FACT)])
    return tuple(at for at in range(len(FACT) + len(times)) if at not in taken)[: len(FACT)]
