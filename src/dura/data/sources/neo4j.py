"""Neo4j: files for `neo4j-admin database import`, and files of `apoc.export.csv`.

The header of an admin file says what its columns are: `:START_ID`, `:END_ID` and `:TYPE` of relationships, `:ID` and `:LABEL` of
nodes. The header can be a file of its own: `knows-header.csv` next to `knows-part1.csv`. apoc writes nodes and relationships into
one file. Relationships become facts. Nodes become labels (the property name, title or label), types and descriptions.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from dura.data.opening import STANDARD_INPUT, endings, open_stream, stem
from dura.data.readers import ReadOptions
from dura.data.separated import Lines, read_csv
from dura.data.sheet import BadLines, Sheet, wrong_width
from dura.data.sources.found import FACT_TITLES, About, Described, Found, fact_rows
from dura.data.words import BEGIN, END, TIME
from dura.types import BadInput

FIELD = re.compile(
    r"(?P<name>.*?):(?P<kind>START_ID|END_ID|TYPE|ID|LABEL|IGNORE)(?:\((?P<group>[^)]*)\))?(?:\{.*\})?", re.I | re.S
)
APOC = {"_id": "ID", "_labels": "LABEL", "_start": "START_ID", "_end": "END_ID", "_type": "TYPE"}
SEPARATORS = (",", ";", "\t", "|")
FIRST = 1 << 16
"""The bytes in which a header is expected."""
LABELS, DESCRIPTIONS = ("name", "title", "label"), ("description", "comment", "abstract")
TIMES = TIME | BEGIN | END
"""Properties of relationships that may be times. Others are not used."""
HEADER = re.compile(r"(?P<base>.*?)[-_.]?headers?", re.I)


@dataclass(frozen=True)
class Header:
    """What the columns of a file are: kind -> position, the groups of ids, and the positions of properties."""

    separator: str
    width: int
    kinds: dict[str, int]
    groups: dict[str, str]
    properties: dict[str, int]
    apoc: bool = False

    @property
    def relationships(self) -> bool:
        """Whether rows have a start and an end."""
        return "START_ID" in self.kinds and "END_ID" in self.kinds


@dataclass
class _Graph:
    """What was read so far. Names are pairs of a group and an id until all files are read."""

    facts: list[pl.DataFrame] = field(default_factory=list)
    nodes: list[pl.DataFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unused: set[str] = field(default_factory=set)


def header_of(path: Path) -> Header | None:
    """The header in the first line of a CSV file, or None if it has no such header or cannot be read."""
    try:
        with open_stream(path) as stream:
            first, end, _ = stream.read(FIRST).partition(b"\n")
            line = first.decode("utf-8-sig").rstrip("\r") if end or len(first) < FIRST else ""
    except (BadInput, UnicodeDecodeError):
        return None
    if ":" not in line and "_start" not in line:
        return None
    found = [parse_header(line, separator) for separator in SEPARATORS]
    return max((one for one in found if one is not None), key=lambda one: one.width, default=None)


def parse_header(line: str, separator: str) -> Header | None:
    """The header of a line, or None if the line is none."""
    try:
        fields = next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return None
    apoc = {"_start", "_end", "_type"} <= set(fields)
    kinds: dict[str, int] = {}
    groups: dict[str, str] = {}
    properties: dict[str, int] = {}
    for at, title in enumerate(fields):
        found = None if apoc else FIELD.fullmatch(title)
        kind = APOC.get(title) if apoc else found and found["kind"].upper()
        if kind is None:
            properties.setdefault(title.partition(":")[0], at)
        elif kind != "IGNORE":
            kinds.setdefault(kind, at)
            groups[kind] = (found and found["group"]) or ""
            if kind == "ID" and found and found["name"]:
                properties.setdefault(found["name"], at)
    whole = {"START_ID", "END_ID"} <= set(kinds) or ("ID" in kinds and not {"START_ID", "END_ID"} & set(kinds))
    return Header(separator, len(fields), kinds, groups, properties, apoc) if whole else None


def fits(path: Path) -> bool:
    """Whether a folder holds relationships for Neo4j."""
    return path.is_dir() and any((header := header_of(file)) and header.relationships for file in _files(path))


def read_any_csv(path: Path, options: ReadOptions) -> Sheet:
    """Read a CSV file. One that apoc exported holds nodes and relationships in the same file."""
    if path != STANDARD_INPUT and options.columns is None and not options.separator:
        header = header_of(path)
        if header is not None and header.apoc:
            return read_file(path, options)
    return read_csv(path, options)


def fits_file(path: Path) -> bool:
    """Whether a CSV file holds relationships for Neo4j, or is an export of apoc."""
    return endings(path)[0] == ".csv" and bool((header := header_of(path)) and header.relationships)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if endings(path)[0] == ".csv" and path.is_file()]


def load(path: Path, options: ReadOptions) -> Found:
    """Read all files of a folder."""
    graph = _Graph()
    for file, header, inside in _paired(path, graph.notes):
        _read_file(graph, file, header, inside, options)
    sheet = _sheet(str(path), graph)
    return Found({"train": sheet}, sheet.entities, sheet.relations)


def read_file(path: Path, options: ReadOptions) -> Sheet:
    """Read one file that `fits_file`."""
    header = header_of(path)
    if header is None:
        raise BadInput(f"{path} has no header of Neo4j such as :START_ID,:END_ID,:TYPE")
    graph = _Graph()
    _read_file(graph, path, header, True, options)
    return _sheet(str(path), graph)


def _paired(folder: Path, notes: list[str]) -> Iterator[tuple[Path, Header, bool]]:
    """Each file of rows with its header, and whether that is the file's own first line."""
    headers = {file: header_of(file) for file in _files(folder)}
    bases: dict[str, Header] = {}
    for file, header in headers.items():
        if header is not None and (found := HEADER.fullmatch(stem(file))):
            bases[found["base"]] = header
    unknown = []
    for file, header in headers.items():
        if HEADER.fullmatch(stem(file)) and header is not None:
            continue
        base = max((base for base in bases if stem(file).startswith(base)), key=len, default=None)
        if header is not None:
            yield file, header, True
        elif base is not None:
            yield file, bases[base], False
        else:
            unknown.append(file.name)
    if unknown:
        notes.append(f"not used, because no header belongs to them: {', '.join(unknown[:10])}")


def _read_file(graph: _Graph, path: Path, header: Header, inside: bool, options: ReadOptions) -> None:
    lines = read_csv(path, replace(options, separator=header.separator))
    assert isinstance(lines, Lines) and lines.numbers is not None
    if inside:
        lines = lines.keep(lines.numbers > int(lines.numbers[0]))
    bad, numbers = lines.bad or BadLines(path), lines.numbers
    assert numbers is not None
    wrong = lines.widths != header.width
    if wrong.any():
        reasons = wrong_width(pl.lit(lines.widths.filter(wrong)), str(header.width))
        bad.add(numbers.filter(wrong), pl.select(reasons).to_series())
        lines = lines.keep(~wrong)
    if len(lines):
        if header.relationships:
            graph.facts.append(_facts(graph, path, lines, header, bad))
        if "ID" in header.kinds:
            graph.nodes.append(_nodes(lines, header))
    bad.stop(options.skip_bad)
    if bad.total:
        graph.notes.append(f"{bad.total:,} bad lines of {path.name} are skipped")


def _facts(graph: _Graph, path: Path, lines: Lines, header: Header, bad: BadLines) -> pl.DataFrame:
    """Start, type and end of each relationship, with their groups and the properties that may be times."""
    kinds, numbers = header.kinds, lines.numbers
    assert numbers is not None
    mixed = "ID" in kinds and not header.apoc  # then the properties are those of nodes
    times = {name: at for name, at in header.properties.items() if name.lower() in TIMES and not mixed}
    graph.unused.update(name for name in header.properties if name not in times and not header.apoc)
    wanted = [kinds["START_ID"], kinds["END_ID"], *([kinds["TYPE"]] if "TYPE" in kinds else []), *times.values()]
    table = _take(lines, wanted)
    if "TYPE" not in kinds:
        base = re.sub(r"[-_.]?(part)?\d*$", "", stem(path)) or stem(path)
        table.insert(2, pl.repeat(base, len(lines), dtype=pl.String, eager=True))
        graph.notes.append(f"{path.name} has no column :TYPE, so its facts have the relation {base!r}")
    schema = dict(zip(("head", "tail", "relation", *times), table, strict=True))
    frame = pl.DataFrame({**schema, "line": numbers}).with_columns(
        head_group=pl.lit(header.groups["START_ID"]), tail_group=pl.lit(header.groups["END_ID"])
    )
    if header.apoc:
        ours = (frame["head"] != "") | (frame["tail"] != "") | (frame["relation"] != "")
        rest = {name: at for name, at in header.properties.items() if name not in times}
        graph.unused.update(
            name
            for name, column in zip(rest, _take(lines, list(rest.values())), strict=True)
            if (column.filter(ours) != "").any()
        )
        frame = frame.filter(ours).drop(name for name in times if not (frame[name].filter(ours) != "").any())
    empty = pl.any_horizontal(pl.col(title) == "" for title in FACT_TITLES)
    gaps = frame.filter(empty)["line"]
    bad.add(gaps, pl.repeat("the start, the end or the type of a relationship is empty", len(gaps), eager=True))
    return frame.filter(~empty)


def _nodes(lines: Lines, header: Header) -> pl.DataFrame:
    """Id, group, label, types and description of each node."""
    lower = {name.lower(): at for name, at in reversed(header.properties.items())}
    label = next((lower[name] for name in LABELS if name in lower), None)
    text = next((lower[name] for name in DESCRIPTIONS if name in lower), None)
    places = {"id": header.kinds["ID"], "label": label, "types": header.kinds.get("LABEL"), "text": text}
    known = {title: at for title, at in places.items() if at is not None}
    frame = pl.DataFrame(dict(zip(known, _take(lines, list(known.values())), strict=True)))
    missing = [pl.lit("").alias(title) for title in places if title not in known]
    return frame.with_columns(*missing, group=pl.lit(header.groups["ID"])).filter(pl.col("id") != "")


def _take(lines: Lines, positions: list[int]) -> list[pl.Series]:
    """Columns of lines. A position may be wanted twice."""
    if not positions:
        return []
    order = sorted(set(positions))
    taken = dict(zip(order, lines.take(order).get_columns(), strict=True))
    return [taken[at].fill_null("") for at in positions]


# -- after the last file ----------------------------------------------------------------------------------------------


def _sheet(origin: str, graph: _Graph) -> Described:
    if not graph.facts:
        raise BadInput(f"{origin} holds no relationships")
    facts = pl.concat(graph.facts, how="diagonal")
    nodes = pl.concat(graph.nodes, how="diagonal") if graph.nodes else None
    if _clash(facts, nodes):
        graph.notes.append("ids of several groups are the same, so names are written as group/id")
        facts = facts.with_columns(head=_with_group("head_group", "head"), tail=_with_group("tail_group", "tail"))
        nodes = None if nodes is None else nodes.with_columns(id=_with_group("group", "id"))
    if graph.unused:
        graph.notes.append(f"properties of relationships are not used: {', '.join(sorted(graph.unused)[:10])}")
    rows = fact_rows(facts["head"], facts["relation"], facts["tail"])
    others = facts.drop(*FACT_TITLES, "line", "head_group", "tail_group")
    rows = rows.hstack(others)
    # Line numbers of several files say nothing, so the rows count from 1 then.
    numbers = facts["line"] if len(graph.facts) == 1 else None
    about = About() if nodes is None else _about(nodes)
    return Described(origin, rows, tuple(rows.columns), numbers, notes=graph.notes, entities=about)


def _with_group(group: str, name: str) -> pl.Expr:
    return pl.when(pl.col(group) == "").then(pl.col(name)).otherwise(pl.format("{}/{}", group, name))


def _clash(facts: pl.DataFrame, nodes: pl.DataFrame | None) -> bool:
    """Whether two groups have the same id."""
    parts = [facts.select(group="head_group", id="head"), facts.select(group="tail_group", id="tail")]
    if nodes is not None:
        parts.append(nodes.select("group", "id"))
    pairs = pl.concat(parts).unique()
    return pairs["id"].n_unique() < len(pairs)


def _about(nodes: pl.DataFrame) -> About:
    about = About()
    for name, label, types, text in nodes.select("id", "label", "types", "text").iter_rows():
        about.add(name, label if label != name else None, re.split(r"[;:]", types), text)
    return about
