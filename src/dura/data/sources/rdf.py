"""RDF: N-Triples, N-Quads, Turtle, TriG and RDF/XML to a sheet, with labels and types.

A statement between two resources is a fact. Literals are not entities: they are skipped and counted, but those that name or
describe a resource become labels and descriptions. Names stay full IRIs. Nothing that a file names is fetched: no import, schema
or entity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import polars as pl

from dura.data.descriptions import MOST_LABEL, MOST_TEXT
from dura.data.opening import STANDARD_INPUT, open_stream, stem
from dura.data.readers import ReadOptions
from dura.data.sheet import BadLines, Sheet
from dura.data.sources.found import FACT_TITLES, Described
from dura.data.sources.guards import Entities, Guarded, Nesting
from dura.data.sources.iris import DESCRIPTIONS, LABELS, TYPE, Texts, about, shorten
from dura.types import BadInput

if TYPE_CHECKING:
    from pyoxigraph import QuadParser

MOST_ERRORS = 10
"""How many errors a line may have before reading stops."""
PIECE = 100_000
"""How many facts are put into columns at a time."""
GENERATED = re.compile(r"[0-9a-f]{25,32}")
"""What the parser names a blank node that has no name in the file. It is random, so we number these nodes instead."""
SHOWN = 3
"""How many properties of literals a note lists."""
BY_LINE = ("N_TRIPLES", "N_QUADS")
MOST_GRAPHS = 1000
GROWTH = 2
"""The names of a file may take this many times the ceiling of the file: prefixes stand for longer text."""


def read_ntriples(path: Path, options: ReadOptions) -> Sheet:
    """Read N-Triples."""
    return _read(path, options, "N_TRIPLES")


def read_nquads(path: Path, options: ReadOptions) -> Sheet:
    """Read N-Quads."""
    return _read(path, options, "N_QUADS")


def read_turtle(path: Path, options: ReadOptions) -> Sheet:
    """Read Turtle."""
    return _read(path, options, "TURTLE")


def read_trig(path: Path, options: ReadOptions) -> Sheet:
    """Read TriG."""
    return _read(path, options, "TRIG")


def read_xml(path: Path, options: ReadOptions) -> Sheet:
    """Read RDF/XML."""
    return _read(path, options, "RDF_XML")


def _read(path: Path, options: ReadOptions, form: str) -> Sheet:
    try:
        import pyoxigraph
    except ImportError:
        raise BadInput("RDF files need pyoxigraph; install it with: pip install 'dura-kge[rdf]'") from None
    base = f"file:///{quote(path.name if path != STANDARD_INPUT else 'input')}"
    # Nodes without a name are other nodes in another file. Lines of N-Triples have no such nodes.
    anonymous = "" if form in BY_LINE else re.sub(r"\W", "_", f"anon-{stem(path)}-")
    statements = _Statements(path, options.most_gb, anonymous=anonymous)
    with open_stream(path, options.most_gb) as stream:
        guard = Entities(path) if form == "RDF_XML" else Nesting(path)
        guarded = cast(BinaryIO, Guarded(stream, guard))
        parser = pyoxigraph.parse(guarded, getattr(pyoxigraph.RdfFormat, form), base_iri=base)
        statements.take(parser, by_line=form in BY_LINE)
        statements.prefixes.update(parser.prefixes)
    return statements.sheet(base)


@dataclass
class _Statements:
    """What the statements of a file say."""

    path: Path
    most_gb: float
    parts: list[pl.DataFrame] = field(default_factory=list)
    literals: Counter[str] = field(default_factory=Counter)
    quoted: int = 0
    graphs: set[str] = field(default_factory=set)
    blanks: dict[str, str] = field(default_factory=dict)
    labels: Texts = field(default_factory=lambda: Texts(LABELS, MOST_LABEL))
    descriptions: Texts = field(default_factory=lambda: Texts(DESCRIPTIONS, MOST_TEXT))
    prefixes: dict[str, str] = field(default_factory=dict)
    anonymous: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        self.bad = BadLines(self.path)
        self._taken: set[str] = set()
        self._columns: tuple[list[str], list[str], list[str], list[int]] = ([], [], [], [])

    def take(self, parser: QuadParser, by_line: bool) -> None:
        """Take in all statements. Bad lines of N-Triples and N-Quads are left out; elsewhere nothing after an error is sure."""
        statements = enumerate(parser, 1)
        line, times = 0, 0
        while True:
            try:
                self._until_error(parser, statements)
                break
            except SyntaxError as error:
                times = times + 1 if error.lineno == line else 1
                line = error.lineno or 0
                self._wrong(
                    error, by_line and times <= MOST_ERRORS
                )  # a long line of something else is no line of facts
        self._keep()

    def _until_error(self, parser: QuadParser, statements: Iterator[tuple[int, Any]]) -> None:
        from pyoxigraph import DefaultGraph, Literal, NamedNode, Triple

        heads, relations, tails, numbers = self._columns
        for number, (head, relation, tail, graph) in statements:
            if number == 1:
                self.prefixes.update(parser.prefixes)  # those of XML hold inside of their element only
            if type(graph) is not DefaultGraph and len(self.graphs) < MOST_GRAPHS:
                self.graphs.add(str(graph))
            if type(tail) is NamedNode:
                tails.append(tail.value)
            elif type(tail) is Literal:
                self._literal(head, relation.value, tail)
                continue
            elif type(tail) is Triple:
                self.quoted += 1
                continue
            else:
                tails.append(self._blank(tail.value))
            heads.append(head.value if type(head) is NamedNode else self._blank(head.value))
            relations.append(relation.value)
            numbers.append(number)
            if len(heads) >= PIECE:
                self._keep()

    def _literal(self, head: Any, relation: str, literal: Any) -> None:
        self.literals[relation] += 1
        for texts in (self.labels, self.descriptions):
            if relation in texts.grades:
                self._count(texts.add(head.value, relation, literal.value, literal.language))

    def _blank(self, name: str) -> str:
        """The name of a blank node: as in the file, or numbered if it has none there."""
        if name not in self.blanks:
            new = f"{self.anonymous}{len(self.blanks) + 1}" if self.anonymous and GENERATED.fullmatch(name) else name
            while new in self._taken:
                new += "x"
            self._taken.add(new)
            self.blanks[name] = f"_:{new}"
        return self.blanks[name]

    def _keep(self) -> None:
        """Put the statements so far into columns."""
        schema = {**dict.fromkeys(FACT_TITLES, pl.String), "line": pl.UInt32}
        part = pl.DataFrame(dict(zip(schema, self._columns, strict=True)), schema=schema)
        for column in self._columns:
            column.clear()
        self.parts.append(part)
        self._count(int(part.estimated_size()))

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > GROWTH * self.most_gb * 1e9:
            raise BadInput(
                f"{self.path} holds more than {GROWTH * self.most_gb:g} GB of names; if this is right, raise the ceiling with "
                f"--most-gb {max(1, round(4 * self.most_gb))}"
            )

    def _wrong(self, error: SyntaxError, by_line: bool) -> None:
        line, message = error.lineno or 1, str(error.msg)
        over_lines = message.startswith("Parser error between line")  # what is open takes in the lines that follow
        reason = message.partition(": ")[2] if message.startswith("Parser error") else message
        if not by_line or over_lines or "UTF-8" in reason:
            raise BadInput(f"{self.path}:{line}: {reason[:300]}") from None
        if not any(known.line == line for known in self.bad.first):
            self.bad.add(pl.Series([line], dtype=pl.UInt32), pl.Series([reason[:300]]))

    # -- after the last statement -------------------------------------------------------------------------------------

    def sheet(self, base: str) -> Described:
        """The facts, and what is known about their entities and relations."""
        rows = pl.concat(self.parts)
        self.parts.clear()
        resources = set(pl.concat([rows["head"], rows["tail"]]).unique().to_list())
        entities = about(resources, self.labels, self.descriptions, self.prefixes)
        relations = about(set(rows["relation"].unique().to_list()), self.labels, self.descriptions, self.prefixes)
        typed = rows.filter(pl.col("relation") == TYPE).group_by("head", maintain_order=True).agg("tail")
        for head, types in typed.iter_rows():
            entities.add(head, None, [entities.labels.get(kind, kind) for kind in types], None)
        notes = self._notes() + _kept_notes(rows, base, len(typed))
        numbers = rows["line"]
        facts = rows.drop("line")
        return Described(
            str(self.path), facts, FACT_TITLES, numbers, self.bad, notes, entities=entities, relations=relations
        )

    def _notes(self) -> list[str]:
        notes = []
        if self.literals:
            most = self.literals.most_common(SHOWN)
            short = shorten([relation for relation, _ in most], self.prefixes)
            shown = ", ".join(f"{short.get(relation, relation)} {count:,}" for relation, count in most)
            notes.append(f"{self.literals.total():,} statements with literals are no facts (most often {shown})")
        if self.blanks:
            notes.append(f"{len(self.blanks):,} blank nodes are entities, named _:id")
        if self.quoted:
            notes.append(f"{self.quoted:,} statements about statements (quoted triples) are left out")
        if self.graphs:
            notes.append("named graphs are ignored: their statements are read as one graph")
        return notes


def _kept_notes(rows: pl.DataFrame, base: str, typed: int) -> list[str]:
    notes = ["names are full IRIs; IRIs are shortened with prefixes for display"]
    if typed:
        notes.append(f"rdf:type statements are facts, and also give the types of {typed:,} entities")
    start = base[: base.rindex("/") + 1]
    if any(rows[title].str.starts_with(start).any() for title in FACT_TITLES):
        notes.append(f"relative IRIs begin with {start}, because the file names no base")
    return notes
