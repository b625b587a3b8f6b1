"""Loading: from a source to a Graph. A source is a NAME of the catalog, a FOLDER with train, valid and test, or a FILE of facts.

A `Path` is a path, and so is text with a path separator or a leading dot. Other text is looked up in the catalog and in
DURA_DATA first: write `./umls` for a folder `umls` in the current folder. A FOLDER may be a stored graph (see `stored`). Otherwise
it may lack valid or test; they are then taken out of train. Its files entities and relations may give labels, types and
descriptions to names (see `describing`). Facts that are repeated in a split count once. Facts may have a time in a fourth column,
or a begin and an end in a fourth and fifth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dura.config import GraphSettings
from dura.config.sections import Splitting, Unit
from dura.data import catalog, download
from dura.data.assembly import Loaded, Notify, Shares, following, of_parts, of_sheets, tell
from dura.data.facts import FileColumns, read_columns
from dura.data.graph import Graph
from dura.data.layouts import LAYOUTS
from dura.data.opening import MOST_GB, STANDARD_INPUT, endings, stem
from dura.data.readers import MANIFEST, READERS, ColumnChoice, ReadOptions, split_files
from dura.data.sources import Loader, folder_kind
from dura.data.sources.databases import graph_name, is_database, read_database, without_secrets
from dura.types import SPLITS, BadInput, Split


def load_graph(settings: GraphSettings, notify: Callable[[str], None] | None = None) -> Graph:
    """The graph that the settings name, read and split as they say."""
    return load_dated(settings, None, notify)[0]


def load_dated(
    settings: GraphSettings, time: int | ColumnChoice | None, notify: Callable[[str], None] | None = None
) -> tuple[Graph, GraphSettings]:
    """The graph that the settings name, with the columns of times that `time` names, and the settings with all its columns."""
    loaded = load_with_notes(settings.source, *as_said(settings, time))
    tell(loaded.notes, notify)
    graph = reviewed(loaded.graph, settings.reviews, notify)
    return graph, replace(settings, source=without_secrets(settings.source), columns=loaded.columns or ())


def reviewed(graph: Graph, source: str, notify: Callable[[str], None] | None = None) -> Graph:
    """The graph after what people decided about its facts; without a source of decisions, nothing was decided."""
    if not source:
        return graph if graph.reviews is None else replace(graph, reviews=None)
    from dura.data.reviews import with_reviews

    graph, notes = with_reviews(graph, source)
    for note in notes if notify is not None else ():
        notify(note)  # type: ignore[misc]
    return graph


def as_said(settings: GraphSettings, time: int | ColumnChoice | None = None) -> tuple[ReadOptions, Shares]:
    """How to read and how to split, as the settings say."""
    options = ReadOptions(
        columns=settings.columns or None,
        header={"auto": None, "yes": True, "no": False}[settings.header],
        separator=settings.separator or None,
        skip_bad=settings.skip_bad,
        time=time,
        time_format=settings.time_format or None,
        time_unit=settings.time_unit,
        time_zone=settings.time_zone,
        query=settings.query or None,
        most_gb=settings.most_gb,
        format=settings.format,
        entities=settings.entities or None,
        relations=settings.relations or None,
    )
    shares = Shares(
        valid=None if settings.valid_share == "auto" else settings.valid_share,
        test=None if settings.test_share == "auto" else settings.test_share,
        seed=settings.split_seed,
        how=settings.split,
    )
    return options, shares


def anchored(settings: GraphSettings) -> GraphSettings:
    """The settings with absolute paths, so that they name the same files from every folder. Names of graphs stay names."""
    source = settings.source
    scheme, colon, rest = source.partition(":")
    if is_database(source):
        if scheme.lower() in ("sqlite", "duckdb") and rest and not rest.startswith("//"):
            source = f"{scheme}{colon}{Path(rest).absolute()}"
    elif source and Path(source) != STANDARD_INPUT and (_is_path(source) or catalog.find(source) is None):
        source = str(Path(source).absolute())
    files = (str(Path(file).absolute()) if file else "" for file in (settings.entities, settings.relations))
    query = settings.query
    if query.startswith("@"):
        query = f"@{Path(query[1:]).expanduser().absolute()}"
    entities, relations = files
    return replace(settings, source=source, entities=entities, relations=relations, query=query)


def load(
    source: str | Path,
    *,
    columns: ColumnChoice | None = None,
    time: int | ColumnChoice | None = None,
    header: bool | None = None,
    separator: str | None = None,
    skip_bad: bool = False,
    valid_share: float | None = None,
    test_share: float | None = None,
    split_seed: int = 0,
    split: Splitting = "random",
    time_format: str | None = None,
    time_unit: Unit = "auto",
    time_zone: str = "UTC",
    query: str | None = None,
    most_gb: float = MOST_GB,
    format: str = "",  # noqa: A002
    entities: str | Path | None = None,
    relations: str | Path | None = None,
    notify: Notify | None = None,
    progress: bool | None = None,
) -> Graph:
    """Load a graph: a catalog name (downloaded if necessary), a folder with train, valid and test, a stored graph, or a file.

    `columns` are head, relation and tail by position ("0,2,1") or header name, and one more (time) or two more (begin, end) if
    facts have times. `time` names the columns of times alone; head, relation and tail are then `columns`, or where a well-known
    header names them, or the first three other columns. `entities` and `relations` are files with labels, types and descriptions;
    in a folder they are the files of these names. `notify` is called with a sentence for each thing that the user should
    know (skipped lines, a recognised header, the split that was made).

    >>> load("nations")
    Graph('nations': 14 entities, 55 relations, 1,592 train + 199 valid + 201 test facts)
    """
    times = (time, time_format, time_unit, time_zone)
    options = ReadOptions(columns, header, separator, skip_bad, *times, query, most_gb, format, entities, relations)
    shares = Shares(valid_share, test_share, split_seed, split)
    loaded = load_with_notes(source, options, shares, progress=progress)
    tell(loaded.notes, notify)
    return loaded.graph


def load_with_notes(
    source: str | Path,
    options: ReadOptions | None = None,
    shares: Shares | None = None,
    *,
    progress: bool | None = None,
) -> Loaded:
    """As `load`, but returns notes, repeated facts and bad lines together with the graph."""
    options, shares = options or ReadOptions(), shares or Shares()
    if isinstance(source, str) and is_database(source):
        sheet = read_database(source, options)
        return _described(of_sheets(graph_name(source), {"train": sheet}, options, shares), {}, options)
    listing = None if _is_path(source) else catalog.find(str(source))
    if listing is not None:
        return _load_named(listing, options, shares, progress)
    path = Path(source)
    if options.query is not None:
        raise BadInput(f"a query asks a database such as sqlite:facts.db, but {source} is none; leave the query out")
    if (path / MANIFEST).is_file():
        return _load_stored(path, options, shares)
    if path == STANDARD_INPUT:
        return _load_files("facts", {"train": path}, options, shares)
    if path.is_dir() and (foreign := folder_kind(path)) is not None:
        return _load_foreign(path, foreign, options, shares)
    if path.is_dir():
        return _load_files(path.resolve().name, _folder_files(path), options, shares)
    if not path.exists() and not _is_path(source) and endings(path)[0] not in READERS:
        raise BadInput(catalog.unknown(str(source)))
    return _load_files(stem(path), {"train": path}, options, shares)


def _load_foreign(folder: Path, load: Loader, options: ReadOptions, shares: Shares) -> Loaded:
    """A folder that another program wrote."""
    found = load(folder, options)
    loaded = of_sheets(folder.resolve().name, found.sheets, options, shares)
    graph = loaded.graph
    entities, _ = found.entities.finished().over(graph.about_entities).only(graph.entities)
    relations, _ = found.relations.finished().over(graph.about_relations).only(graph.relations)
    loaded = replace(loaded, graph=graph.described(entities, relations), reading=[*found.notes, *loaded.reading])
    return _described(loaded, {}, options)


def _load_stored(folder: Path, options: ReadOptions, shares: Shares) -> Loaded:
    """A stored graph. Its facts are split and have no columns to choose."""
    from dura.data.stored import read_stored

    if options.columns is not None or options.time is not None:
        raise BadInput(
            f"{folder} is a stored graph, which has no columns to choose; leave the columns and the time out"
        )
    given = shares.valid is not None or shares.test is not None
    notes = ["the shares of valid and test are not used: a stored graph comes with both"] if given else []
    return _described(Loaded(read_stored(folder), notes), {}, options)


def _is_path(source: str | Path) -> bool:
    if isinstance(source, Path):
        return True
    return source.startswith(".") or os.sep in source or bool(os.altsep and os.altsep in source)


def _load_named(listing: catalog.Listing, options: ReadOptions, shares: Shares, progress: bool | None) -> Loaded:
    """A graph of the catalog or of DURA_DATA. The files and counts of a catalog graph must be the published ones."""
    entry = listing.entry
    if entry is not None and options.time is not None and options.columns is None:
        raise BadInput(
            f"a column of times can be named for your own file or folder, but {listing.name!r} is a known graph; "
            "choose its head, relation and tail too"
        )
    if listing.path is not None and (listing.path / MANIFEST).is_file():
        return _load_stored(listing.path, options, shares)
    if listing.path is None:
        folder = download.get(listing.name, progress=progress)
    else:
        catalog.verify(listing)
        folder = listing.path
    files = _folder_files(folder)
    if entry is None or not entry.layout or options.columns is not None:
        loaded = _load_files(listing.name, files, options, shares)
    else:
        loaded = _load_files(listing.name, files, options, shares, LAYOUTS[entry.layout].read)
    if entry is not None and options == ReadOptions():
        catalog.check_counts(entry, loaded.graph, folder)
    # Which columns a published graph has is no news.
    return loaded if entry is None else replace(loaded, reading=[], warnings=[])


def _folder_files(folder: Path) -> dict[str, Path]:
    files = split_files(folder)
    if "train" not in files and (folder / "facts.safetensors").exists() and (folder / "entities.txt").exists():
        raise BadInput(
            f"{folder} looks like a stored graph, but its graph.json is missing or not a file; make it again with dura data pack"
        )
    if "train" not in files:
        inside = sorted(folder.iterdir())
        readable = [path for path in inside if path.is_file() and endings(path)[0] in READERS]
        others = [path for path in readable if path not in files.values()]
        if len(others) == 1:
            return {**files, "train": others[0]}
        there = ", ".join(path.name for path in inside[:10]) or "nothing"
        raise BadInput(
            f"the folder {folder} holds no train file but {there}; it needs a file train and may hold valid and test, such as "
            "train.csv, train.parquet or train.nt.gz; or name one file"
        )
    return files


def _load_files(
    name: str,
    files: dict[str, Path],
    options: ReadOptions,
    shares: Shares,
    read: Callable[..., FileColumns] = read_columns,
) -> Loaded:
    """The graph of these files. Train decides on the columns of all splits."""
    train = read(files["train"], options)
    parts: dict[Split, FileColumns] = {"train": train}
    later = following(train, options)
    parts |= {part: read(files[part], later, None, train.plan) for part in SPLITS[1:] if part in files}
    return _described(of_parts(name, parts, options, shares), files, options)


def _described(loaded: Loaded, files: Mapping[str, Path], options: ReadOptions) -> Loaded:
    """The graph with labels, types and descriptions from its own files or those that the options name, if there are any."""
    if options.entities is None and options.relations is None and not files.keys() & {"entities", "relations"}:
        return loaded
    from dura.data.describing import with_files

    graph, notes, warnings = with_files(loaded.graph, files, options)
    return replace(loaded, graph=graph, reading=[*loaded.reading, *notes], warnings=[*loaded.warnings, *warnings])
