"""Databases: the rows of a query become a Sheet. Passwords never appear in what is shown or stored.

`sql` reads SQLite, DuckDB and PostgreSQL, and `sparql` reads SPARQL endpoints. Both collect their rows in Rows, which stops above
the user's ceiling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import cast

import polars as pl

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.text import printable
from dura.types import BadInput

ENGINES = {
    "sqlite:": "sql.read_sqlite",
    "duckdb:": "sql.read_duckdb",
    "postgresql:": "sql.read_postgresql",
    "postgres:": "sql.read_postgresql",
    "sparql:": "sparql.read_sparql",
    "https:": "sparql.read_sparql",
    "http:": "sparql.read_sparql",
}
"""How a source begins -> module and function that reads it, imported when a source needs it."""
MOST_QUERY = 1 << 20
"""The most bytes of a file with a query."""
MOST_MESSAGE = 300
"""The most characters that are shown of a database's message."""
_USER = re.compile(r"(?<=://)([^:@/?#]*):(.*)@", re.S)
_SECRET = re.compile(r"(?i)(?<=[?&])(\w*password|passwd|pwd|token|access_token|api_?key|key|secret)=[^&#]*&?")


def is_database(source: str) -> bool:
    """True if a source names a database or an address, and not a file, a folder or a graph.

    >>> is_database("sqlite:facts.db"), is_database("facts.db")
    (True, False)
    """
    return _scheme(source) in ENGINES


def _scheme(source: str) -> str:
    before, colon, _ = source.partition(":")
    return before.lower() + colon


def read_database(source: str, options: ReadOptions) -> Sheet:
    """The rows of the query in `options`, as text. The names of the query's columns are the titles.

    Nothing is written to the database. Without a query, the error names the tables that could hold facts.
    """
    module, function = ENGINES[_scheme(source)].split(".")
    read = cast(Callable[..., Sheet], getattr(import_module(f"dura.data.sources.{module}"), function))
    return read(source, _query(options.query), options)


def without_secrets(source: str) -> str:
    """The source without a password, for messages, notes and settings. Other sources stay as they are.

    >>> without_secrets("postgresql://ann:secret@host/facts?sslmode=require&password=x")
    'postgresql://ann@host/facts?sslmode=require'
    """
    if not is_database(source):
        return source
    return _SECRET.sub("", _USER.sub(r"\1@", source)).rstrip("?&")


def graph_name(source: str) -> str:
    """A name for the graph of a database: its file without the ending, its database or its host.

    >>> graph_name("sqlite:data/facts.db"), graph_name("postgresql://ann@host:5432/people?sslmode=require")
    ('facts', 'people')
    >>> graph_name("sparql:https://example.org/query")
    'example.org'
    """
    scheme, rest = _scheme(source), without_secrets(source).partition(":")[2]
    if scheme in ("sqlite:", "duckdb:"):
        return Path(rest).stem or "facts"
    host, _, path = rest.rpartition("://")[2].removeprefix("//").partition("?")[0].partition("/")
    found = path if scheme.startswith("postgres") else host.rpartition("@")[2].partition(":")[0]
    return printable(found, lines=False) or "facts"


def password_of(source: str) -> str:
    """The password between the user and the host of an address, as it is written there; "" if there is none.

    >>> password_of("postgresql://ann:secret@host/facts")
    'secret'
    """
    found = _USER.search(source)
    return found[2] if found else ""


def shown_source(source: str) -> str:
    """The source for a message: without a password, on one line."""
    return printable(without_secrets(source), lines=False)


def _query(given: str | None) -> str:
    """The text of the query. `@path` is read from a file."""
    text = (given or "").strip()
    if not text.startswith("@"):
        return text
    path = Path(text[1:]).expanduser()
    if not path.is_file():
        raise BadInput(f"the query is to be read from {path}, but there is no such file")
    try:
        if path.stat().st_size > MOST_QUERY:
            raise BadInput(f"{path} is to hold a query, but it has more than {MOST_QUERY:,} bytes")
        text = path.read_text("utf-8-sig").strip()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text, so it is not a query") from None
    if not text:
        raise BadInput(f"{path} is empty, but it should hold a query")
    return text


def one_line(message: str) -> str:
    """The first line of a database's message, cut if it is long.

    >>> one_line("no such table: facts\\nLINE 1: SELECT")
    'no such table: facts'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = printable(lines[0], lines=False) if lines else "no message"
    return first if len(first) <= MOST_MESSAGE else f"{first[:MOST_MESSAGE]}…"


class Rows:
    """Rows of a query, collected batch by batch up to a ceiling. Batches are small at first, because rows may be long."""

    FIRST, MOST, BYTES = 100, 50_000, 1 << 24

    def __init__(self, shown: str, titles: Iterable[str], most_gb: float) -> None:
        self.shown = shown
        self.titles = tuple(titles)
        self.most_gb = most_gb
        self.parts: list[pl.DataFrame] = []
        self.count = 0
        self.size = 0

    @property
    def next(self) -> int:
        """How many rows the next batch should have: about 16 MB, judged by the rows so far."""
        if not self.count:
            return self.FIRST
        return min(self.MOST, max(1, self.BYTES * self.count // max(1, self.size)))

    def add(self, columns: Iterable[pl.Series]) -> None:
        """Add a batch of rows, one Series of text per title."""
        part = pl.DataFrame([column.alias(str(at)) for at, column in enumerate(columns)])
        self.parts.append(part)
        self.count += len(part)
        self.size += int(part.estimated_size())
        if self.size > self.most_gb * 1e9:
            raise too_much(self.shown, self.most_gb)

    def sheet(self, notes: Iterable[str] = ()) -> Sheet:
        """All rows. No rows at all are an error: nobody asks for an empty graph."""
        if not self.count:
            raise BadInput(f"the query finds no rows in {self.shown}")
        return Sheet(self.shown, pl.concat(self.parts), self.titles, notes=list(notes))


def too_much(shown: str, most_gb: float) -> BadInput:
    """The error for rows above the ceiling."""
    return BadInput(
        f"the rows from {shown} take more than {most_gb:g} GB; ask for fewer rows, or allow more with --most-gb "
        "(in Python most_gb=)"
    )
