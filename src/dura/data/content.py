"""Content: what columns without titles seem to hold, judged by a sample of their rows.

A relation column has few distinct values. Heads and tails share names, if the graph is not of two kinds of things. A column of
dates or of decimal numbers holds no names.
"""

from __future__ import annotations

import polars as pl

ENOUGH = 50
"""Content decides nothing if there are fewer rows than this."""
PLAUSIBLE = 0.1
"""A column is no relation column if it has more distinct values than this share of its rows."""
CLEAR = 0.02
"""Another column is the relation column instead if it has at most this share of distinct values."""
FEWER = 3
"""A column has far fewer distinct values than another one if they are at most this part of them: a third."""
SHARED = 0.1
"""Two columns hold the same kind of things if at least this share of the distinct values of one are in the other."""
SAME = 0.5
"""Two columns surely hold the same kind of things if they share at least this share of their values."""
DATE = r"^\s*\+?-?(\d{4,}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ].*)?\s*$"
"""What dates look like. Which date is meant is decided later, and more carefully."""
DECIMAL = r"^\s*[-+]?\d*[.,]\d+([eE][-+]?\d+)?\s*$"


def look_like_dates(column: pl.Series) -> bool:
    """True if nearly all values of a column look like dates with a month."""
    return _mostly(column, DATE)


def no_names(column: pl.Series) -> str | None:
    """What a column holds, if it cannot hold names: dates or decimal numbers."""
    if _mostly(column, DATE):
        return "dates"
    return "decimal numbers" if _mostly(column, DECIMAL) else None


def _mostly(column: pl.Series, pattern: str) -> bool:
    values = column.drop_nulls()
    values = values.filter(values != "")
    return len(values) > 0 and int(values.str.contains(pattern).sum()) >= 0.9 * len(values)


def fact_order(origin: str, sample: pl.DataFrame, *, fixed: bool = False) -> tuple[tuple[int, int, int], list[str]]:
    """The columns of head, relation and tail among three, and a warning if they are not in this order or may not be.

    If the order is `fixed`, there is only the warning.
    """
    count = len(sample)
    if count < ENOUGH:
        return (0, 1, 2), []
    columns = [sample.to_series(at).drop_nulls().unique() for at in range(3)]
    distinct, usual = [len(column) for column in columns], _shared(columns[0], columns[2])
    for at in sorted((0, 2), key=lambda at: distinct[at]):
        one, other = (column for column in range(3) if column != at)
        order, alike = (one, at, other), _shared(columns[one], columns[other])
        counts = f"it has {distinct[at]:,} distinct values in {count:,} rows and column 1 has {distinct[1]:,}"
        why = f"columns {one} and {other} share values" if alike >= SAME and usual < SHARED else counts
        fewer = distinct[at] <= distinct[1] / FEWER and distinct[at] <= PLAUSIBLE * count
        clear = why != counts or (fewer and alike >= SHARED and alike > usual)
        clear = clear or (distinct[1] > PLAUSIBLE * count and distinct[at] <= CLEAR * count)
        if clear and not fixed:
            said = f"column {at} is read as the relation, because {why}"
            return order, [f"{origin}: {said}; if this is wrong: --columns 0,1,2"]
        if clear or (fewer and usual < SHARED and distinct[at] <= distinct[1] / FEWER**2):
            doubt = f"column 1 is read as the relation, but column {at} may be it: {why}"
            return (0, 1, 2), [
                f"{origin}: {doubt}; if column {at} is the relation: --columns {','.join(map(str, order))}"
            ]
    return (0, 1, 2), []


def _shared(one: pl.Series, other: pl.Series) -> float:
    """The share of the smaller column's distinct values that the other one has, too."""
    small, large = sorted((one, other), key=len)
    return int(small.is_in(large.implode()).sum()) / max(1, len(small))


def suggestion(sample: pl.DataFrame) -> tuple[int, int, int] | None:
    """The columns of head, relation and tail among many, or None if nothing speaks for any."""
    count = len(sample)
    names = [
        at for at in range(sample.width) if no_names(sample.to_series(at)) is None and not _counts(sample.to_series(at))
    ]
    distinct = {at: sample.to_series(at).n_unique() for at in names}
    relations = [at for at in names if distinct[at] <= max(2, PLAUSIBLE * count)] or names
    if len(names) < 3 or count < ENOUGH:
        return None
    relation = min(relations, key=lambda at: (distinct[at] < 2, distinct[at]))
    head, tail, *_ = [at for at in names if at != relation]
    return head, relation, tail


def _counts(column: pl.Series) -> bool:
    """True if a column numbers the rows."""
    numbers = column.str.to_integer(strict=False)
    return len(numbers) > 2 and not numbers.null_count() and bool((numbers.diff().drop_nulls() > 0).all())
