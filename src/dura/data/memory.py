"""Memory: a graph from facts that are already in memory: rows, arrays or data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dura.config.sections import Splitting
from dura.data.descriptions import of_mappings
from dura.data.graph import Graph
from dura.data.loading import Names, Notify, Shares, assemble, tell
from dura.data.readers import FACT, FACTS, Roles
from dura.data.times import bad_dates, turned
from dura.types import BadInput, Split


def from_facts(
    train: Any,
    valid: Any = None,
    test: Any = None,
    *,
    name: str = "facts",
    labels: Mapping[str, str] | None = None,
    entity_types: Mapping[str, str | Iterable[str]] | None = None,
    relation_labels: Mapping[str, str] | None = None,
    valid_share: float | None = None,
    test_share: float | None = None,
    split_seed: int = 0,
    split: Splitting = "random",
    notify: Notify | None = None,
) -> Graph:
    """A graph from rows of (head, relation, tail), an array [n, 3], or a polars or pandas frame.

    If a frame has columns named head, relation and tail, these are used; otherwise it must have three columns. Names are text;
    whole numbers become text. Missing splits are taken out of train, as for a file;
    `split` says how. A fourth column is the time of a fact; a
    fourth and a fifth are its begin and end. (In a frame they are named time, or begin and end.) A time is text, a number or a
    date, or None if a fact has no time. `labels` and `relation_labels` say what people call entities and relations; `entity_types`
    gives each entity a type, or several.

    >>> from_facts([("ann", "knows", "bob"), ("bob", "knows", "ann")])
    Graph('facts': 2 entities, 1 relations, 2 train + 0 valid + 0 test facts)
    """
    given: dict[Split, Any] = {"train": train, "valid": valid, "test": test}
    names = {part: _names(rows, part) for part, rows in given.items() if rows is not None}
    loaded = assemble(name, names, {}, Shares(valid_share, test_share, split_seed, split))
    tell(loaded.notes, notify)
    graph = loaded.graph
    entities, _ = of_mappings(labels, entity_types).only(graph.entities)
    relations, _ = of_mappings(relation_labels).only(graph.relations)
    return graph.described(entities, relations)


def _names(rows: Any, part: Split) -> Names:
    """The columns of names of one split: three, and one or two more if facts have times."""
    if hasattr(rows, "columns"):
        titles = list(rows.columns)
        named = [roles for roles in FACTS if set(roles) <= set(titles)]
        columns = [rows[title] for title in (named[-1] if named else titles)]
    elif isinstance(rows, np.ndarray):
        columns = list(rows.T) if rows.ndim == 2 else []
    else:
        columns = _columns(list(rows), part)
    if not len(FACT) <= len(columns) <= len(FACTS[-1]):
        raise BadInput(
            f"the facts of {part} need three columns ({', '.join(FACT)}), not {len(columns)}; "
            "with times four (time) or five (begin, end)"
        )
    roles: Roles = FACTS[len(columns) - len(FACT)]
    texts = [_texts(column, role, part) for column, role in zip(columns[:3], FACT, strict=True)]
    stamps = [_times(column, role, part) for column, role in zip(columns[3:], roles[3:], strict=True)]
    if len(stamps) > 1 and (wrong := turned(*stamps).arg_true()).len():
        at = wrong[0]
        raise BadInput(f"fact {at} of {part} ends at {stamps[1][at]!r}, before it begins at {stamps[0][at]!r}")
    return [*texts, *stamps]


def _columns(rows: list[Any], part: Split) -> list[Any]:
    for at, row in enumerate(rows):
        proper = isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) and len(row) == len(rows[0])
        if not proper or not len(FACT) <= len(row) <= len(FACTS[-1]):
            raise BadInput(f"fact {at} of {part} is {row!r}, but a fact is (head, relation, tail)")
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]


def _texts(column: Any, role: str, part: Split) -> pl.Series:
    series = column if isinstance(column, pl.Series) else _series(column)
    if series.dtype.is_integer() or series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype != pl.String or series.null_count() or (series == "").any():
        raise BadInput(f"every {role} of {part} must be a name: text that is not empty, or a whole number")
    return series


def _times(column: Any, role: str, part: Split) -> pl.Series:
    """A column of times as text; "" is no time."""
    values = column.to_list() if isinstance(column, pl.Series) else list(column)
    # NaN and NaT mean a missing value in frames; they are not equal to themselves.
    texts = ["" if value is None or value != value else str(value) for value in values]
    stamps = pl.Series(role, [text.removesuffix(" 00:00:00") for text in texts], dtype=pl.String)
    if wrong := bad_dates(stamps):
        raise BadInput(f"the {role} {min(wrong)!r} of {part} is not a date of the calendar")
    return stamps


def _series(column: Any) -> pl.Series:
    """Text or whole numbers, as the first value is; a single null, which is not a name, if other values do not fit."""
    values = column.tolist() if hasattr(column, "tolist") else column
    kind = pl.Int64 if values and isinstance(values[0], int) else pl.String
    try:
        return pl.Series(values, dtype=kind)
    except (TypeError, OverflowError):
        return pl.Series([None], dtype=pl.String)
