"""Exporting: a graph as files that other programs read, and that dura reads back.

A folder gets the files train, valid and test, and entities and relations if they are described. A single file gets all facts.
To add a format: a function (frame, path) and a row in WRITERS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
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

_PART = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|[\u00a1-\ud7ff\uf900-\ufdcf\ufdf0-\uffef])"
_START = r"(https?://[A-Za-z0-9.-]+(:\d+)?(?=[/?#]|$)|(?!https?:)[A-Za-z][A-Za-z0-9+.-]*:(?!//))"
IRI = re.compile(rf"{_START}{_PART}*(/{_PART}*)*(\?({_PART}|[/?])*)?(#({_PART}|[/?])*)?")
"""The names that are written as the IRIs they are. Some odd IRIs are not among them, and are written like other names."""
BLANK = re.compile(r"_:[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
"""Blank nodes, which may be heads and tails."""
BASE = "urn:dura:"
"""What names that are no IRIs begin with in N-Triples, followed by the name with percent signs for special characters."""

Writer = Callable[[pl.DataFrame, Path], None]


def export_graph(graph: Graph, out: str | Path, *, format: str = "") -> list[Path]:  # noqa: A002
    """Write a graph as files. `out` is a file with an ending of WRITERS, which gets all facts, or a new folder.

    In a folder the files have the `format`, parquet if none is given.

    >>> export_graph(load("umls"), "umls.csv")  # doctest: +SKIP
    >>> export_graph(load("umls"), "umls", format="tsv")  # doctest: +SKIP
    """
    path = Path(out)
    ending = path.suffix.removeprefix(".").lower()
    chosen = format.removeprefix(".").lower() or ending or "parquet"
    if chosen not in WRITERS:
        raise BadInput(f"{chosen!r} is not a format to write; known are {', '.join(WRITERS)}")
    single = ending in WRITERS
    if single and ending != chosen:
        raise BadInput(
            f"{path} ends in .{ending}, but the format is to be {chosen}; name a folder, or a file that ends in .{chosen}"
        )
    check_new(path)
    frames = {path: _all_facts(graph)} if single else _frames(graph, path, chosen)
    return _write_all(frames, WRITERS[chosen], path if single else path / "train")


def _write_all(frames: dict[Path, pl.DataFrame], write: Writer, first: Path) -> list[Path]:
    """Write all files, or none: what was written is removed if one fails."""
    made = [folder for folder in (first.parent, *first.parent.parents) if not folder.exists()]
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        for path, frame in frames.items():
            write(frame, path)
    except (BadInput, OSError, pl.exceptions.PolarsError) as error:
        with suppress(OSError):
            for path in frames:
                path.unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()
        if isinstance(error, BadInput):
            raise
        known = error if isinstance(error, OSError) else OSError(str(error))
        raise disk_error(known, first if first in frames else first.parent, "name another place") from error
    return list(frames)


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


def _all_facts(graph: Graph) -> pl.DataFrame:
    return pl.concat([facts_frame(graph, graph.facts(split)) for split in SPLITS])


def _frames(graph: Graph, folder: Path, ending: str) -> dict[Path, pl.DataFrame]:
    """The files of a folder. Splits without facts are left out. N-Triples get facts only, neither labels nor types."""
    splits = (split for split in SPLITS if len(graph.facts(split)))
    frames = {f"{split}.{ending}": facts_frame(graph, graph.facts(split)) for split in splits}
    for kind, names, about in (
        ("entities", graph.entities, graph.about_entities),
        ("relations", graph.relations, graph.about_relations),
    ):
        if about and ending != "nt":
            frames[f"{kind}.{ending}"] = _described(kind, names, about)
    return {folder / name: frame for name, frame in frames.items()}


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
        columns["type"] = [_types(about.types.get(name, ())) for name in every]
    if about.descriptions:
        columns["description"] = [about.descriptions.get(name) for name in every]
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _types(types: tuple[str, ...]) -> str | None:
    """The types in one field. A mark that would separate types when the file is read becomes a comma."""
    return "|".join(re.sub(r"[;|]", ",", kind) for kind in types) or None


# -- formats ----------------------------------------------------------------------------------------------------------


def _tsv(frame: pl.DataFrame, path: Path) -> None:
    """Lines of names between tabs, with a header. TSV has no quotes, so names with a tab or a line break cannot be written."""
    check_tabs(frame)
    frame.write_csv(path, separator="\t", quote_style="never")


def check_tabs(frame: pl.DataFrame) -> None:
    """Refuse texts that TSV cannot hold."""
    for title in (title for title in frame.columns if frame.schema[title] == pl.String):
        wrong = frame[title].filter(frame[title].str.contains(r"[\t\n\r]")).head(1)
        if len(wrong):
            raise BadInput(
                f"the {title} {wrong[0]!r} holds a tab or a line break, which TSV cannot hold; export as csv"
            )


def _ntriples(frame: pl.DataFrame, path: Path) -> None:
    """One line of IRIs per fact. Names that are no IRIs become IRIs; times have no place in N-Triples."""
    if tuple(frame.columns) != FACT:
        raise BadInput("N-Triples cannot hold times; export the graph as csv, tsv, jsonl or parquet")
    entities = _terms(pl.concat([frame["head"], frame["tail"]]), blank=True)
    terms = [frame["head"].replace_strict(*entities)]
    terms += [frame["relation"].replace_strict(*_terms(frame["relation"], blank=False))]
    terms += [frame["tail"].replace_strict(*entities)]
    lines = pl.select(pl.concat_str([*terms, pl.lit(".")], separator=" ")).to_series()
    pl.DataFrame({"line": lines}).write_csv(path, include_header=False, quote_style="never")


def _terms(names: pl.Series, blank: bool) -> tuple[pl.Series, pl.Series]:
    """The distinct names and what they are in N-Triples."""
    distinct = names.unique()
    terms = pl.Series([_term(name, blank) for name in distinct.to_list()], dtype=pl.String)
    if terms.n_unique() < len(terms):
        twice = terms.filter(terms.is_duplicated())[0]
        raise BadInput(f"two names would both be {twice} in N-Triples; export as csv, tsv, jsonl or parquet")
    return distinct, terms


def _term(name: str, blank: bool) -> str:
    if blank and BLANK.fullmatch(name):
        return name
    return f"<{name}>" if IRI.fullmatch(name) else f"<{BASE}{quote(name, safe='')}>"


WRITERS: dict[str, Writer] = {
    "parquet": lambda frame, path: frame.write_parquet(path),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": _tsv,
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "nt": _ntriples,
}
"""Format -> function that writes a frame of text into a file."""
