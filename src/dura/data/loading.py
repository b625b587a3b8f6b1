"""Loading: a NAME of the catalog, a FOLDER with train, valid and test, or a FILE of facts to a Graph.

A source with a path separator or a leading dot is a path, and so is a `Path`; any other is first looked up in
the catalog (and in DURA_DATA), so a folder `umls` beside you is read as `./umls`. A FOLDER may lack valid or
test: they are then taken out of train. It may hold entities.tsv with id<TAB>label for human names.
Repeated facts of a split count once. Facts may have a time, or a begin and an end, in a fourth and fifth column; a fact
without any has the extra time of none. What was noticed on the way is kept in `Loaded.notes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from dura.data import catalog, download
from dura.data.files import endings, stem
from dura.data.graph import Graph, distinct, frame
from dura.data.layouts import FACTS_AS_THEY_STAND, LAYOUTS, Layout, times_of
from dura.data.readers import READERS, read_columns, split_files
from dura.data.split import split
from dura.data.table import BadLine, Columns, ReadOptions, Table
from dura.data.vocabulary import Vocabulary
from dura.types import SPLITS, BadInput, IntArray, Split

Notify = Callable[[str], None]
Names = list[pl.Series]
"""The heads, relations and tails of a split, and its times, or begins and ends."""
LABEL = ("entity", "label")


@dataclass(frozen=True)
class Shares:
    """How facts are held out where a split is missing; None = a tenth, at most 10,000 facts."""

    valid: float | None = None
    test: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Loaded:
    """A graph and what was noticed while it was read."""

    graph: Graph
    reading: list[str] = field(default_factory=list)
    """Sentences: a recognised header, skipped lines, the split that was made."""
    repeated: dict[Split, int] = field(default_factory=dict)
    """How many facts of each split were repeated."""
    overlap: int = 0
    """How many test facts are in train or valid too."""
    bad: list[BadLine] = field(default_factory=list)
    """The first bad lines, at most ten a file."""
    skipped: int = 0
    """How many lines were bad."""

    @property
    def notes(self) -> list[str]:
        """All that is worth telling the user, a sentence each."""
        notes = list(self.reading)
        for part, count in self.repeated.items():
            if count:
                notes.append(f"{part}: {_facts(count)} repeated, counted once")
        if self.overlap:
            notes.append(f"test: {_facts(self.overlap)} also in train or valid, so results will look too good")
        return notes


def load(
    source: str | Path,
    *,
    columns: Columns | None = None,
    header: bool | None = None,
    separator: str | None = None,
    skip_bad: bool = False,
    valid_share: float | None = None,
    test_share: float | None = None,
    split_seed: int = 0,
    notify: Notify | None = None,
    progress: bool | None = None,
) -> Graph:
    """Load a graph: a catalog name (downloaded if need be), a folder with train, valid and test, or a file.

    `columns` are head, relation and tail by position ("0,2,1") or header name, and where facts have times one more (time) or
    two (begin, end). `notify` is called with a
    sentence for each thing worth knowing (skipped lines, a recognised header, the split that was made).

    >>> load("nations")
    Graph('nations': 14 entities, 55 relations, 1,592 train + 199 valid + 201 test facts)
    """
    options = ReadOptions(columns, header, separator, skip_bad)
    loaded = load_with_notes(source, options, Shares(valid_share, test_share, split_seed), progress=progress)
    tell(loaded.notes, notify)
    return loaded.graph


def tell(notes: list[str], notify: Notify | None) -> None:
    """Hand the notes on, one by one."""
    if notify is not None:
        for note in notes:
            notify(note)


def load_with_notes(
    source: str | Path,
    options: ReadOptions | None = None,
    shares: Shares | None = None,
    *,
    progress: bool | None = None,
) -> Loaded:
    """As `load`, with the notes, repeated facts and bad lines beside the graph."""
    options, shares = options or ReadOptions(), shares or Shares()
    listing = None if _is_path(source) else catalog.find(str(source))
    if listing is not None:
        return _load_named(listing, options, shares, progress)
    path = Path(source)
    if path.is_dir():
        return _load_files(path.resolve().name, _folder_files(path), options, shares)
    if not path.exists() and not _is_path(source) and endings(path)[0] not in READERS:
        raise BadInput(catalog.unknown(str(source)))
    return _load_files(stem(path), {"train": path}, options, shares)


def _is_path(source: str | Path) -> bool:
    if isinstance(source, Path):
        return True
    return source.startswith(".") or os.sep in source or bool(os.altsep and os.altsep in source)


def _load_named(listing: catalog.Listing, options: ReadOptions, shares: Shares, progress: bool | None) -> Loaded:
    """A graph of the catalog or of DURA_DATA; its bytes and counts must be the published ones."""
    entry = listing.entry
    if listing.path is None:
        folder = download.get(listing.name, progress=progress)
    else:
        catalog.verify(listing)
        folder = listing.path
    layout = LAYOUTS[entry.layout] if entry is not None and options.columns is None else FACTS_AS_THEY_STAND
    loaded = _load_files(listing.name, _folder_files(folder), options, shares, layout)
    if entry is not None and options == ReadOptions():
        _check_counts(loaded.graph, entry, folder)
    return loaded


def _check_counts(graph: Graph, entry: catalog.Entry, folder: Path) -> None:
    """Published counts guard graphs whose files are known by a weak checksum only."""
    sizes = graph.sizes
    timed = entry.timestamps > 0
    found = (sizes.entities, sizes.relations, *[sizes.times] * timed, *(len(graph.facts(split)) for split in SPLITS))
    wanted = (entry.entities, entry.relations, *[entry.timestamps] * timed)
    wanted = (*wanted, *(entry.files[split].facts for split in SPLITS))
    if found != wanted:
        times = "times, " if timed else ""
        raise BadInput(
            f"the files in {folder} are not the published {entry.name}: entities, relations, {times}train, valid "
            f"and test count {found} instead of {wanted}"
        )


def _folder_files(folder: Path) -> dict[str, Path]:
    files = split_files(folder)
    if "train" not in files:
        raise BadInput(
            f"the folder {folder} holds no train file; it needs train and may hold valid and test, with an "
            "ending such as .tsv, .txt or .csv (also with .gz or .zst)"
        )
    return files


def _load_files(
    name: str, files: dict[str, Path], options: ReadOptions, shares: Shares, layout: Layout = FACTS_AS_THEY_STAND
) -> Loaded:
    tables = {part: layout.read(files[part], options) for part in SPLITS if part in files}
    reading = [note for part, table in tables.items() for note in (*table.notes, *_skipped(files[part], table))]
    labels: dict[str, str] = {}
    if "entities" in files:
        table = read_columns(files["entities"], ReadOptions(), LABEL)
        labels = dict(zip(*(column.to_list() for column in table.columns), strict=True))
    loaded = assemble(name, {part: table.columns for part, table in tables.items()}, labels, shares)
    return replace(
        loaded,
        reading=[*reading, *loaded.reading],
        bad=[bad for table in tables.values() for bad in table.bad],
        skipped=sum(table.skipped for table in tables.values()),
    )


def _skipped(path: Path, table: Table) -> list[str]:
    if not table.skipped:
        return []
    lines = "1 bad line" if table.skipped == 1 else f"{table.skipped:,} bad lines"
    return [f"{path.name}: {lines} skipped, first {table.bad[0]}"]


def assemble(name: str, names: Mapping[Split, Names], labels: Mapping[str, str], shares: Shares) -> Loaded:
    """A graph from columns of names; splits that are missing are taken out of train."""
    columns = list(names.values())
    entities = Vocabulary(pl.concat([column for head, _, tail, *_ in columns for column in (head, tail)]))
    relations = Vocabulary(pl.concat([relation for _, relation, *_ in columns]))
    stamps = times_of(name, names)
    facts: dict[Split, IntArray] = {}
    repeated: dict[Split, int] = {}
    for part, (head, relation, tail, *_) in names.items():
        ids = [entities.ids(head), relations.ids(relation), entities.ids(tail)]
        facts[part] = distinct(np.column_stack([*ids, *stamps.ids[part]]))
        repeated[part] = len(head) - len(facts[part])
    reading = [*stamps.notes, *_complete(facts, shares)]
    graph = Graph(
        name,
        entities,
        relations,
        labels={entity: label for entity, label in labels.items() if entity in entities},
        times=stamps.times,
        **facts,
    )
    overlap = len(common(graph.test, np.concatenate([graph.train, graph.valid])))
    return Loaded(graph, reading, repeated, overlap)


def _complete(facts: dict[Split, IntArray], shares: Shares) -> list[str]:
    """Take missing splits out of train, and say so."""
    if "valid" in facts and "test" in facts:
        asked = shares.valid is not None or shares.test is not None
        return ["the shares of valid and test are not used: the graph comes with both"] if asked else []
    parts = split(
        facts["train"],
        valid_share=0 if "valid" in facts else shares.valid,
        test_share=0 if "test" in facts else shares.test,
        seed=shares.seed,
    )
    made = [part for part in SPLITS if part not in facts]
    facts["train"] = parts.train
    for part in made:
        facts[part] = parts.valid if part == "valid" else parts.test
    counts = ", ".join(f"{len(facts[part]):,} {part}" for part in ("train", *made))
    return [f"split made: {counts} (seed {shares.seed}; every entity and relation stays in train)"]


def common(facts: IntArray, others: IntArray) -> IntArray:
    """The facts that are among the others too."""
    mine = frame(facts)
    rows: IntArray = mine.join(frame(others), on=mine.columns, how="semi").to_numpy()
    return rows


def _facts(count: int) -> str:
    return "1 fact" if count == 1 else f"{count:,} facts"
