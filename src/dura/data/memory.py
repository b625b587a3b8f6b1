"""Memory: a graph from facts that are already in memory: rows, arrays, data frames or graphs of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from dura.config.sections import Splitting, Unit
from dura.data.assembly import Notify, Shares, of_parts, tell
from dura.data.content import fact_order
from dura.data.descriptions import of_mappings
from dura.data.facts import FileColumns, facts_of
from dura.data.graph import Graph
from dura.data.readers import ColumnChoice, ReadOptions
from dura.data.recognition import Plan
from dura.data.sheet import Sheet
from dura.data.sources.frames import sheet_of
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
    columns: ColumnChoice | None = None,
    time: int | ColumnChoice | None = None,
    time_format: str | None = None,
    time_unit: Unit = "auto",
    time_zone: str = "UTC",
    skip_bad: bool = False,
    notify: Notify | None = None,
) -> Graph:
    """A graph from rows of (head, relation, tail), an array [n, 3], a data frame (polars, pandas, Arrow) or a networkx graph.

    The columns of a frame are recognised by their titles, such as head, relation, tail and time or from, type and to; `columns`
    chooses them. Rows and arrays have their columns in order: a fourth is the time of a fact, a fourth and a fifth are its begin
    and end. Names are text; whole numbers become text. A time is text, a number or a date, or None if a fact has no time. Missing
    splits are taken out of train, as for a file; `split` says how. `labels` and `relation_labels` say what people call entities and
    relations; `entity_types` gives each entity a type, or several.

    >>> from_facts([("ann", "knows", "bob"), ("bob", "knows", "ann")])
    Graph('facts': 2 entities, 1 relations, 2 train + 0 valid + 0 test facts)
    """
    if train is None:
        raise BadInput("there are no facts to train on: train is None")
    given: dict[Split, Any] = {"train": train, "valid": valid, "test": test}
    options = ReadOptions(
        columns,
        skip_bad=skip_bad,
        time=time,
        time_format=time_format,
        time_unit=time_unit,
        time_zone=time_zone,
    )
    parts: dict[Split, FileColumns] = {}
    for part, facts in given.items():
        if facts is not None:
            parts[part] = _columns(sheet_of(facts, part), options, parts["train"].plan if parts else None)
    loaded = of_parts(name, parts, options, Shares(valid_share, test_share, split_seed, split))
    tell(loaded.notes, notify)
    graph = loaded.graph
    entities, _ = of_mappings(labels, entity_types).over(graph.about_entities).only(graph.entities)
    relations, _ = of_mappings(relation_labels).over(graph.about_relations).only(graph.relations)
    return graph.described(entities, relations)


def _columns(sheet: Sheet, options: ReadOptions, train: Plan | None) -> FileColumns:
    """The columns of facts. Rows without titles are in the order of a fact, so nothing is guessed about them."""
    if train is not None and not len(sheet):
        nothing = [pl.Series([], dtype=pl.String) for _ in train.roles]
        return FileColumns(sheet.origin, nothing, pl.Series([], dtype=pl.UInt32), [], 0, [], train)
    if sheet.titles is None and options.columns is None:
        options = options.with_columns(tuple(range(sheet.width)))
        read = facts_of(sheet, replace(options, header=False), like=train, doubt=False)
        return (
            read
            if train is not None
            else replace(read, warnings=fact_order(sheet.origin, sheet.sample(), fixed=True)[1])
        )
    return facts_of(sheet, options, like=train)
