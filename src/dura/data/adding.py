"""Adding: a graph with more facts and more entities. Its relations and times stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from dura.data.dates import respelled
from dura.data.facts import FileColumns
from dura.data.graph import Graph, common, distinct
from dura.data.readers import FACT
from dura.data.sheet import BadLine, BadLines
from dura.data.vocabulary import Vocabulary
from dura.types import SPLITS, BadInput, IntArray


@dataclass(frozen=True)
class Added:
    """A graph to which facts were added, and what became of its entities."""

    graph: Graph
    new: IntArray
    """The ids of the entities that the graph did not have, ascending."""
    moved: IntArray
    """The id that each entity of the old graph has now."""
    facts: IntArray
    """The facts that were added to train."""
    repeated: int
    """How many facts were given more than once."""
    known: int
    """How many facts the graph already had, in any split. They are not added again."""
    among_known: int
    """How many of the added facts have no new entity."""
    skipped: int
    """How many bad lines were left out, also those that were found while reading."""
    bad: list[BadLine]
    """The first of them."""


def with_facts(graph: Graph, given: FileColumns, *, skip_bad: bool = False) -> Added:
    """The graph with these facts in train. An unknown relation or time is a bad line.

    All bad lines are reported together as file:line, with those that were found while reading.
    """
    columns, lines = given.columns, given.numbers
    _check_width(graph, given)
    reasons: list[pl.Series] = []
    relations = _ids(columns[1], graph.relation, reasons)
    times = [
        _ids(column, lambda name: _time(graph, name), reasons) for column in _stamps(graph, columns[len(FACT) :])
    ] or _without_times(graph, len(lines))
    fits = np.all([ids >= 0 for ids in (relations, *times)], axis=0)
    bad = BadLines(given.origin, given.skipped, list(given.bad))
    if not fits.all():
        why = pl.select(pl.concat_str(reasons, separator="; ", ignore_nulls=True)).to_series()
        bad.add(lines.filter(~fits), why.filter(~fits))
    bad.stop(skip_bad)
    if not fits.any():
        raise BadInput(f"{given.origin} holds no fact whose relation and time are in this graph")
    head, tail = columns[0].filter(fits), columns[2].filter(fits)
    old = graph.entities.column(np.arange(len(graph.entities)))
    entities = Vocabulary(pl.concat([old, head, tail]))
    moved = entities.ids(old)
    if graph.intervals and len(times) == 1:
        times = [times[0], times[0]]
    every = np.column_stack([entities.ids(head), relations[fits], entities.ids(tail), *(ids[fits] for ids in times)])
    facts = distinct(every.astype(np.int32))
    splits = {split: _renumbered(graph.facts(split), moved) for split in SPLITS}
    known = common(facts, np.concatenate(list(splits.values())))
    fresh = _without(facts, known)
    is_new = np.ones(len(entities), dtype=bool)
    is_new[moved] = False
    grown = Graph(
        graph.name,
        entities,
        graph.relations,
        np.concatenate([splits["train"], fresh]),
        splits["valid"],
        splits["test"],
        times=graph.times,
        reviews=None if graph.reviews is None else graph.reviews.renumbered(moved),
    )
    about = given.entities.only(entities)[0].over(graph.about_entities)
    return Added(
        grown.described(about, graph.about_relations),
        np.flatnonzero(is_new),
        moved,
        fresh,
        repeated=len(every) - len(facts),
        known=len(known),
        among_known=int((~(is_new[fresh[:, 0]] | is_new[fresh[:, 2]])).sum()),
        skipped=bad.total,
        bad=bad.first,
    )


def _check_width(graph: Graph, given: FileColumns) -> None:
    """Refuse facts with times that the graph's facts do not have."""
    stamps = len(given.columns) - len(FACT)
    if stamps and graph.times is None:
        raise BadInput(
            f"the facts of {given.origin} have times, but those of this graph have none; choose head, relation and tail "
            "with --columns"
        )
    if stamps == 2 and not graph.intervals:
        raise BadInput(
            f"the facts of {given.origin} have a begin and an end, but those of this graph have one time; choose it with --time"
        )
    if graph.times is not None and not stamps and not graph.times.no_time:
        first, last = graph.times.span
        raise BadInput(
            f"every fact of this graph has a time, from {first} to {last}, but those of {given.origin} have none; name their "
            "column with --time"
        )


def _stamps(graph: Graph, columns: list[pl.Series]) -> list[pl.Series]:
    """The columns of times. An interval that is open at one end begins at the first or ends at the last time."""
    if len(columns) < 2:
        return columns
    assert graph.times is not None
    untimed = (columns[0] == "") & (columns[1] == "")
    bounds = zip(columns, graph.times.span, strict=True)
    return [column.set((column == "") & ~untimed, bound) for column, bound in bounds]


def _without_times(graph: Graph, count: int) -> list[IntArray]:
    """The columns of times for facts that have none."""
    if graph.times is None:
        return []
    return [np.full(count, graph.times.id(""), dtype=np.int32)] * (graph.train.shape[1] - len(FACT))


def _time(graph: Graph, name: str) -> int:
    assert graph.times is not None
    return graph.times.id(respelled(graph.times, name))


def _ids(names: pl.Series, find: Callable[[str], int], reasons: list[pl.Series]) -> IntArray:
    """The id of each name, or -1 where it is not known. Why it is not comes to the reasons, null for a known name."""
    ids: dict[str, int] = {}
    wrong: dict[str, str] = {}
    for name in names.unique().to_list():
        try:
            ids[name] = find(name)
        except BadInput as error:
            ids[name], wrong[name] = -1, str(error).replace("\n", " ")
    if wrong:
        reasons.append(names.replace_strict(wrong, default=None, return_dtype=pl.String))
    return names.replace_strict(ids, return_dtype=pl.Int32).to_numpy()


def _renumbered(facts: IntArray, moved: IntArray) -> IntArray:
    """The facts with the ids that entities have now."""
    fresh = np.array(facts)
    fresh[:, 0], fresh[:, 2] = moved[facts[:, 0]], moved[facts[:, 2]]
    return fresh


def _without(facts: IntArray, others: IntArray) -> IntArray:
    """The facts that are not among the others, which are some of them."""
    if not len(others):
        return facts
    both = np.concatenate([others, facts])
    _, first = np.unique(both, axis=0, return_index=True)
    kept: IntArray = np.sort(first[first >= len(others)])
    return both[kept]
