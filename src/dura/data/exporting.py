"""Exporting: a graph as files that other programs read, and that dura reads back.

A folder gets the files train, valid and test, and entities and relations if they are described. A single file gets all facts.
To add a format: a function (frame, path) and a row in WRITERS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import polars as pl

from dura.data.assembly import Loaded, Shares
from dura.data.descriptions import Descriptions
from dura.data.graph import Graph
from dura.data.loading import load_with_notes
from dura.data.readers import FACT, FACTS, ReadOptions
from dura.data.vocabulary import Vocabulary
from dura.records import disk_error
from dura.types import SPLITS, BadInput, IntArray

IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
"""What N-Triples allows between < and >."""
BASE = "urn:dura:"
"""What names that are no IRIs begin with in N-Triples, followed by the name with percent signs for special characters."""


def export_graph(graph: Graph, out: str | Path, *, format: str = "") -> list[Path]:  # noqa: A002
    """Write a graph as files. `out` is a file with an ending of WRITERS, which gets all facts, or a new folder.

    In a folder the files have the `format`, parquet if none is given.

    >>> export_graph(load("umls"), "umls.csv")  # doctest: +SKIP
    >>> export_graph(load("umls"), "umls", format="tsv")  # doctest: +SKIP
    """
    path = Path(out)
    ending = format.removeprefix(".") or path.suffix.removeprefix(".").lower()
    single = bool(path.suffix) and path.suffix.removeprefix(".").lower() in WRITERS
    if ending not in WRITERS and (format or path.suffix):
        raise BadInput(f"{ending!r} is not a format to write; known are {', '.join(WRITERS)}")
    check_new(path)
    write = WRITERS[ending or "parquet"]
    try:
        if single:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(pl.concat([facts_frame(graph, graph.facts(split)) for split in SPLITS]), path)
            return [path]
        path.mkdir(parents=True, exist_ok=True)
        return [_write(write, frame, path / f"{name}.{ending or 'parquet'}") for name, frame in _frames(graph).items()]
    except OSError as error:
        raise disk_error(error, path, "name another place") from error


def import_graph(
    source: str | Path, out: Path, options: ReadOptions, shares: Shares, *, split: bool
) -> tuple[Loaded, list[Path]]:
    """Read a graph from any source and write it into a new folder. Without `split`, no facts are held out."""
    check_new(out)
    loaded = load_with_notes(source, options, import_options(shares, split))
    return loaded, export_graph(loaded.graph, out, format="parquet")


def import_options(shares: Shares, split: bool) -> Shares:
    """Shares that hold nothing out, unless a split is wanted."""
    return shares if split else replace(shares, valid=0.0, test=0.0)


def check_new(path: Path) -> None:
    """Refuse a file that is there, and a folder with files in it."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} is there already; name a new file or folder")


def _write(write: Callable[[pl.DataFrame, Path], None], frame: pl.DataFrame, path: Path) -> Path:
    write(frame, path)
    return path


def _frames(graph: Graph) -> dict[str, pl.DataFrame]:
    """The files of a folder. Splits without facts are left out."""
    splits = (split for split in SPLITS if len(graph.facts(split)))
    frames: dict[str, pl.DataFrame] = {split: facts_frame(graph, graph.facts(split)) for split in splits}
    for kind, names, about in (
        ("entities", graph.entities, graph.about_entities),
        ("relations", graph.relations, graph.about_relations),
    ):
        if about:
            frames[kind] = _described(kind, names, about)
    return {name: frame for name, frame in frames.items() if frame.width}


def facts_frame(graph: Graph, facts: IntArray) -> pl.DataFrame:
    """Facts as columns of names: head, relation, tail, and time or begin and end."""
    columns = [
        graph.entities.column(facts[:, 0]),
        graph.relations.column(facts[:, 1]),
        graph.entities.column(facts[:, 2]),
    ]
    if graph.times is not None:
        columns += [graph.times.column(ids) for ids in facts[:, len(FACT) :].T]
    roles = FACTS[len(columns) - len(FACT)]
    return pl.DataFrame(dict(zip(roles, columns, strict=True)))


def _described(kind: str, names: Vocabulary, about: Descriptions) -> pl.DataFrame:
    """Names with label, type and description, as far as there are any."""
    every = list(names)
    columns: dict[str, list[str | None]] = {"entity" if kind == "entities" else "relation": list(every)}
    if about.labels:
        columns["label"] = [about.labels.get(name) for name in every]
    if about.types:
        columns["type"] = ["|".join(about.types.get(name, ())) or None for name in every]
    if about.descriptions:
        columns["description"] = [about.descriptions.get(name) for name in every]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


# -- formats ----------------------------------------------------------------------------------------------------------


def _tsv(frame: pl.DataFrame, path: Path) -> None:
    """Lines of names between tabs, with a header. TSV has no quotes, so names with a tab or a line break cannot be written."""
    for title in frame.columns:
        wrong = frame[title].filter(frame[title].str.contains(r"[\t\n\r]")).head(1)
        if len(wrong):
            raise BadInput(
                f"the {title} {wrong[0]!r} holds a tab or a line break, which TSV cannot hold; export as csv"
            )
    frame.write_csv(path, separator="\t", quote_style="never")


def _ntriples(frame: pl.DataFrame, path: Path) -> None:
    """One line of IRIs per fact. Names that are no IRIs become IRIs; times have no place in N-Triples."""
    if tuple(frame.columns) != FACT:
        if tuple(frame.columns[: len(FACT)]) == FACT:
            raise BadInput("N-Triples cannot hold times; export the graph as csv, tsv, jsonl or parquet")
        return  # labels and types are written into other formats
    terms = [frame[role].replace_strict(*_terms(frame[role])) for role in FACT]
    lines = pl.select(pl.concat_str([*terms, pl.lit(".")], separator=" ")).to_series()
    pl.DataFrame({"line": lines}).write_csv(path, include_header=False, quote_style="never")


def _terms(names: pl.Series) -> tuple[pl.Series, pl.Series]:
    distinct = names.unique()
    return distinct, pl.Series([_term(name) for name in distinct.to_list()], dtype=pl.String)


def _term(name: str) -> str:
    if name.startswith("_:"):
        return name
    return f"<{name}>" if IRI.fullmatch(name) else f"<{BASE}{quote(name, safe='')}>"


WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    "parquet": lambda frame, path: frame.write_parquet(path),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": _tsv,
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "nt": _ntriples,
}
"""Format -> function that writes a frame of text into a file."""
