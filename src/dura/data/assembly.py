"""Assembly: from columns of names to a Graph, with everything that the user should know.

All sources end here: files, folders, databases and data frames. The columns of all splits get one rule for dates and one
vocabulary, missing splits are taken out of train, and descriptions are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np
import polars as pl

from dura.config.sections import Splitting
from dura.data import split as splitting
from dura.data.descriptions import Descriptions
from dura.data.facts import FileColumns, dated, facts_of
from dura.data.graph import Graph, common, distinct
from dura.data.readers import FACT, ReadOptions
from dura.data.readoff import told
from dura.data.sheet import BadLine, Sheet
from dura.data.times import Times, times_of
from dura.data.vocabulary import Vocabulary
from dura.types import SPLITS, IntArray, Split

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Shares:
    """How many facts are held out for a split that is missing, and which. None is a tenth, at most 10,000 facts."""

    valid: float | None = None
    test: float | None = None
    seed: int = 0
    how: Splitting = "random"


@dataclass(frozen=True)
class Loaded:
    """A graph and what was noticed while it was read."""

    graph: Graph
    reading: list[str] = field(default_factory=list)
    """Sentences about a recognised header, skipped lines, the split that was made."""
    repeated: dict[Split, int] = field(default_factory=dict)
    """How many facts of each split were repeated."""
    overlap: int = 0
    """How many test facts are also in train or valid."""
    bad: list[BadLine] = field(default_factory=list)
    """The first bad lines, at most ten per file."""
    skipped: int = 0
    """How many lines were bad."""
    columns: tuple[int | str, ...] | None = None
    """All columns that were used, if columns or a time were chosen."""
    warnings: list[str] = field(default_factory=list)
    """Sentences about what looks wrong, each with the option that changes it."""

    @property
    def notes(self) -> list[str]:
        """Everything that the user should know, as sentences."""
        notes = [*self.reading, *(f"warning: {warning}" for warning in self.warnings)]
        for part, count in self.repeated.items():
            if count:
                notes.append(f"{part}: {_facts(count)} repeated, counted once")
        if self.overlap:
            notes.append(f"test: {_facts(self.overlap)} also in train or valid, so results will look too good")
        return notes


def tell(notes: list[str], notify: Notify | None) -> None:
    """Call `notify` with each note."""
    if notify is not None:
        for note in notes:
            notify(note)


def of_sheets(name: str, sheets: Mapping[Split, Sheet], options: ReadOptions, shares: Shares) -> Loaded:
    """The graph of one sheet per split. Train decides on the columns of all splits."""
    train = facts_of(sheets["train"], options)
    later = following(train, options)
    others = {part: facts_of(sheets[part], later, None, train.plan) for part in SPLITS[1:] if part in sheets}
    return of_parts(name, {"train": train, **others}, options, shares)


def following(train: FileColumns, options: ReadOptions) -> ReadOptions:
    """The options for valid and test: the columns that the user chose for train, those of times included."""
    return options if options.time is None or train.chosen is None else options.with_columns(train.chosen)


def of_parts(name: str, parts: Mapping[Split, FileColumns], options: ReadOptions, shares: Shares) -> Loaded:
    """The graph of the columns of each split."""
    chosen = following(parts["train"], options).chosen
    parts, noted, doubts = dated(parts, options)
    reading = [note for one in parts.values() for note in (*one.notes, *_skipped(one))] + noted
    warnings = [warning for one in parts.values() for warning in one.warnings] + doubts
    loaded = _assemble(name, {part: one.columns for part, one in parts.items()}, shares)
    entities = reduce(Descriptions.over, (one.entities for one in parts.values()))
    relations = reduce(Descriptions.over, (one.relations for one in parts.values()))
    if entities or relations:
        graph = loaded.graph
        loaded = replace(
            loaded, graph=graph.described(entities.only(graph.entities)[0], relations.only(graph.relations)[0])
        )
    return replace(
        loaded,
        reading=[*reading, *loaded.reading],
        bad=[bad for one in parts.values() for bad in one.bad],
        skipped=sum(one.skipped for one in parts.values()),
        columns=chosen,
        warnings=[*warnings, *loaded.warnings],
    )


def _skipped(read: FileColumns) -> list[str]:
    if not read.skipped:
        return []
    lines = "1 bad line" if read.skipped == 1 else f"{read.skipped:,} bad lines"
    return [f"{Path(read.origin).name}: {lines} skipped, first {read.bad[0]}"]


def _assemble(name: str, names: Mapping[Split, list[pl.Series]], shares: Shares) -> Loaded:
    """A graph from columns of names. Missing splits are taken out of train."""
    columns = list(names.values())
    entities = Vocabulary(pl.concat([column for head, _, tail, *_ in columns for column in (head, tail)]))
    relations = Vocabulary(pl.concat([relation for _, relation, *_ in columns]))
    stamps = times_of(name, names) if any(len(given) > len(FACT) for given in columns) else None
    facts: dict[Split, IntArray] = {}
    repeated: dict[Split, int] = {}
    for part, (head, relation, tail, *_) in names.items():
        ids = [entities.ids(head), relations.ids(relation), entities.ids(tail)]
        facts[part] = distinct(np.column_stack(ids if stamps is None else [*ids, *stamps.ids[part]]))
        repeated[part] = len(head) - len(facts[part])
    reading = _complete(facts, shares, None if stamps is None else stamps.times)
    graph = Graph(
        name,
        entities,
        relations,
        times=None if stamps is None else stamps.times,
        train=facts["train"],
        valid=facts["valid"],
        test=facts["test"],
    )
    overlap = len(common(graph.test, np.concatenate([graph.train, graph.valid])))
    return Loaded(graph, reading, repeated, overlap)


def _complete(facts: dict[Split, IntArray], shares: Shares, times: Times | None) -> list[str]:
    """Take missing splits out of train, and say so."""
    if "valid" in facts and "test" in facts:
        given = bool(shares.valid or shares.test)
        unused = ["the shares of valid and test are"] * given + ["the way to split is"] * (shares.how != "random")
        return [f"{what} not used: the graph comes with both" for what in unused]
    parts = splitting.split(
        facts["train"],
        valid_share=0 if "valid" in facts else shares.valid,
        test_share=0 if "test" in facts else shares.test,
        seed=shares.seed,
        how=shares.how,
        undated=None if times is None else len(times.positions),
    )
    made = [part for part in SPLITS if part not in facts]
    facts["train"] = parts.train
    for part in made:
        facts[part] = parts.valid if part == "valid" else parts.test
    nothing_wanted = shares.valid == shares.test == 0
    return [] if nothing_wanted else told(facts, made, shares.how, shares.seed, times)


def _facts(count: int) -> str:
    return "1 fact" if count == 1 else f"{count:,} facts"
