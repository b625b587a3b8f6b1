"""Frames: data frames, arrays, graphs and rows in memory to sheets.

Objects are known by what they can do, not by their class, so that no other library is imported here. Frames have titles. Rows and
arrays have none; their columns are in the order head, relation, tail. Graphs and factories of triples know which part is which.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dura.data.sheet import Sheet
from dura.data.sources.cells import as_text, left_out_note, text
from dura.data.sources.found import FACT_TITLES, About, Described, fact_rows
from dura.text import shown
from dura.types import BadInput

RELATIONS = ("relation", "label", "type", "predicate", "key")
"""The attributes of an edge that can be its relation, the best first. A multigraph's keys come last."""
NODE_LABELS, NODE_TYPES, NODE_TEXTS = ("label", "name", "title"), ("type", "types", "category"), ("description",)
FEWEST, MOST = 3, 5


def sheet_of(given: Any, origin: str) -> Sheet:
    """The sheet of an object. `origin` says in messages what it is, such as train."""
    if isinstance(given, pl.LazyFrame):
        given = given.collect()
    if isinstance(given, pl.DataFrame):
        return _frame(given, origin)
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        return _pandas(given, origin)
    if hasattr(given, "__arrow_c_stream__"):
        return _frame(_arrow(given, origin), origin)
    if hasattr(given, "mapped_triples"):
        return _factory(given, origin)
    if hasattr(given, "edges") and hasattr(given, "is_multigraph"):
        return _network(given, origin)
    if isinstance(given, np.ndarray):
        return _array(given, origin)
    if hasattr(given, "columns") and hasattr(given, "__getitem__"):
        titles = [str(title) for title in given.columns]
        return _titled([list(given[title]) for title in given.columns], titles, origin)
    return _rows(given, origin)


# -- frames -----------------------------------------------------------------------------------------------------------


def _frame(frame: pl.DataFrame, origin: str) -> Sheet:
    rows, left_out = as_text(_without_objects(frame, origin))
    return Sheet(origin, rows, tuple(rows.columns), notes=left_out_note(left_out))


def _without_objects(frame: pl.DataFrame, origin: str) -> pl.DataFrame:
    """Columns of Python objects become text, if their values are names."""
    objects = [column for column in frame.get_columns() if column.dtype == pl.Object]
    return frame.with_columns(_column(column.to_list(), column.name, origin) for column in objects)


def _arrow(given: Any, origin: str) -> pl.DataFrame:
    try:
        found = pl.from_arrow(given)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"the facts of {origin} cannot be read as an Arrow table: {str(error)[:200]}") from None
    if not isinstance(found, pl.DataFrame):
        raise BadInput(f"the facts of {origin} are one column; a table with head, relation and tail is needed")
    return found


def _pandas(frame: Any, origin: str) -> Sheet:
    titles = [str(title) for title in frame.columns]
    if len(set(titles)) < len(titles):
        raise BadInput(f"two columns of {origin} have the same title; titles must differ")
    columns = [_pandas_column(frame.iloc[:, at], title, origin) for at, title in enumerate(titles)]
    rows = pl.DataFrame(columns)
    return Sheet(origin, rows, tuple(titles))


def _pandas_column(column: Any, title: str, origin: str) -> pl.Series:
    values = (
        column.to_numpy() if isinstance(column.dtype, np.dtype) else np.asarray(column.astype(object), dtype=object)
    )
    if values.dtype.kind in "iufbM":
        return text(pl.Series(title, values, nan_to_null=True))
    return _column(values.tolist(), title, origin)


# -- arrays and rows --------------------------------------------------------------------------------------------------


def _array(array: Any, origin: str) -> Sheet:
    if array.dtype.names:
        rows = pl.DataFrame([_array_column(array[title], title, origin) for title in array.dtype.names])
        return Sheet(origin, rows, tuple(rows.columns))
    width = array.shape[1] if array.ndim == 2 else 0
    if not FEWEST <= width <= MOST:
        raise BadInput(
            f"the array of {origin} has the shape {array.shape}; a row is head, relation, tail, so [n, 3] is needed"
        )
    return Sheet(origin, pl.DataFrame([_array_column(array[:, at], str(at), origin) for at in range(width)]))


def _array_column(values: Any, title: str, origin: str) -> pl.Series:
    if values.dtype.kind in "iufbM":
        return text(pl.Series(title, np.ascontiguousarray(values), nan_to_null=True))
    return _column(values.tolist(), title, origin)


def _rows(given: Any, origin: str) -> Sheet:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise BadInput(
            f"the facts of {origin} are {shown(given)}, but rows of (head, relation, tail) or a data frame are needed"
        )
    rows = list(given)
    if rows and all(isinstance(row, Mapping) for row in rows):
        titles = list(dict.fromkeys(str(title) for row in rows for title in row))
        return _titled([[row.get(title) for row in rows] for title in titles], titles, origin)
    for at, row in enumerate(rows):
        proper = (
            isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) and len(row) == len(rows[0])
        )
        if not proper or not FEWEST <= len(row) <= MOST:
            raise BadInput(f"fact {at} of {origin} is {shown(row)}, but a fact is (head, relation, tail)")
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return Sheet(origin, pl.DataFrame([_column(column, str(at), origin) for at, column in enumerate(columns)]))


def _titled(columns: list[list[Any]], titles: list[str], origin: str) -> Sheet:
    rows = pl.DataFrame([_column(column, title, origin) for column, title in zip(columns, titles, strict=True)])
    return Sheet(origin, rows, tuple(titles))


def _column(values: list[Any], title: str, origin: str) -> pl.Series:
    """A column of Python values as text."""
    if not all(type(value) is str for value in values):
        values = [_cell(value, title, at, origin) for at, value in enumerate(values)]
    try:
        return pl.Series(title, values, dtype=pl.String)
    except (UnicodeEncodeError, TypeError):
        raise BadInput(f"column {title!r} of {origin} holds text that is not UTF-8 (a lone surrogate)") from None


def _cell(value: Any, title: str, at: int, origin: str) -> str | None:
    if isinstance(value, str):
        return str(value)
    # NaN, NaT and NA mean a gap in frames; none of them is equal to itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value is not value or _unequal(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else str(value)
    if isinstance(value, dt.datetime):
        midnight = value.tzinfo is None and value.time() == dt.time()
        return value.date().isoformat() if midnight else value.isoformat()
    if isinstance(value, dt.date | np.datetime64):
        return str(value)
    raise BadInput(
        f"row {at} of {origin} has {shown(value)} in column {title!r}, which is neither text nor a number nor a date"
    )


def _unequal(value: Any) -> bool:
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


# -- graphs and factories ---------------------------------------------------------------------------------------------


def _factory(factory: Any, origin: str) -> Sheet:
    """A TriplesFactory of PyKEEN: numbers, with names if it has any."""
    numbers = np.asarray(factory.mapped_triples).reshape(-1, len(FACT_TITLES))
    columns = []
    for at, kind in enumerate(("entity", "relation", "entity")):
        column = pl.Series(np.ascontiguousarray(numbers[:, at]))
        labels = getattr(factory, f"{kind}_id_to_label", None)
        if labels:
            table = pl.DataFrame({"id": list(labels), "label": [str(label) for label in labels.values()]})
            column = pl.DataFrame({"id": column}).join(table, on="id", how="left", maintain_order="left")["label"]
        columns.append(column.cast(pl.String))
    return Sheet(origin, fact_rows(*columns), FACT_TITLES)


def _network(graph: Any, origin: str) -> Described:
    """A graph of networkx. Its edges are facts, its nodes' attributes describe them."""
    multi = graph.is_multigraph()
    edges = (
        list(graph.edges(keys=True, data=True))
        if multi
        else [(h, t, None, more) for h, t, more in graph.edges(data=True)]
    )
    title = next((name for name in RELATIONS if edges and all(more.get(name) is not None for *_, more in edges)), None)
    keyed = title is None and multi and all(isinstance(key, str) for _, _, key, _ in edges)
    if title is None and not keyed and edges:
        head, tail, *_ = next(
            edge for edge in edges if not any(edge[3].get(name) is not None for name in RELATIONS[:1])
        )
        raise BadInput(
            f"the edge {shown(head)} to {shown(tail)} of {origin} has no relation; give every edge one of the attributes "
            f"{', '.join(RELATIONS[:4])}, or give a MultiDiGraph's edges a key that is text"
        )
    relations = [key if title is None else more[title] for _, _, key, more in edges]
    rows = fact_rows(
        _column([head for head, *_ in edges], "head", origin),
        _column(relations, "relation", origin),
        _column([edge[1] for edge in edges], "tail", origin),
    )
    notes = [f"the relation of an edge is its {'key' if title is None else f'attribute {title!r}'}"]
    if not graph.is_directed():
        notes.append("the graph has no directions: each edge is one fact, in the order in which its ends are stored")
    return Described(origin, rows, FACT_TITLES, notes=notes, entities=_about_nodes(graph, origin))


def _about_nodes(graph: Any, origin: str) -> About:
    about = About()
    for node, more in graph.nodes(data=True):
        if more:
            name = _cell(node, "node", 0, origin) or ""
            label, text = (
                next((value for key in keys if isinstance(value := more.get(key), str)), None)
                for keys in (NODE_LABELS, NODE_TEXTS)
            )
            types = next((more[key] for key in NODE_TYPES if more.get(key)), ())
            kinds = (
                [types]
                if isinstance(types, str)
                else [kind for kind in types if isinstance(kind, str)]
                if isinstance(types, Iterable)
                else []
            )
            about.add(name, label if label != name else None, kinds, text)
    return about
