"""SQL: the rows of a query over SQLite, DuckDB or PostgreSQL.

All three are opened read only, and a query is one statement. Rows come in batches, so that memory holds the text of the rows and
little more. Text is what the database itself prints, except that dates with a time of day are in ISO form (2024-02-29T12:30:00) and
those with a zone are in UTC.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.databases import Rows, one_line, password_of, shown_source
from dura.text import printable
from dura.types import BadInput

if TYPE_CHECKING:
    import duckdb
    import psycopg

Columns = list[tuple[str, str]]
"""Tables and their columns, one pair per column, in order."""
LEAST = 3
"""A table with fewer columns holds no facts."""
SHOWN = 8
"""How many tables a message lists."""
SQLITE_MARK = b"SQLite format 3\0"
CONNECT_SECONDS = 15
STEPS = 100_000
"""How often SQLite looks whether the user wants to stop, in steps of its machine."""
STAMPS = ("TIMESTAMP", "DATETIME")
BYTES = ("BLOB", "BYTEA")
KINDS = {16: "BOOLEAN", 17: "BYTEA", 1114: "TIMESTAMP", 1184: "TIMESTAMP WITH TIME ZONE"}
"""PostgreSQL's numbers of the types whose text is not the usual one."""
READS = re.compile(r"(?is)(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|values|table)\b")
"""How a statement that gives rows begins: after comments and parentheses."""
TABLES = """
SELECT table_schema, table_name, column_name FROM information_schema.columns
WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY table_schema, table_name, ordinal_position
"""
EXTRA = "needs {name}, which is not installed: pip install 'dura-kge[sql]'"


# -- SQLite -------------------------------------------------------------------------------------------------------------


def read_sqlite(source: str, query: str, options: ReadOptions) -> Sheet:
    """Rows of an SQLite file, `sqlite:path`. The file must exist and is opened read only."""
    path = _path(source, "sqlite:")
    with closing(_open_sqlite(path)) as connection:
        try:
            if not query:
                raise _no_query(source, _sqlite_tables(connection))
            cursor = connection.execute(query)
            if cursor.description is None:
                raise BadInput(_reads_only(source))
            rows = Rows(source, [column[0] for column in cursor.description], options.most_gb)
            while batch := cursor.fetchmany(rows.next):
                rows.add(_texts(values, rows, at) for at, values in enumerate(zip(*batch, strict=True)))
        except (sqlite3.Error, sqlite3.Warning) as error:
            if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                raise KeyboardInterrupt from None
            if getattr(error, "sqlite_errorname", "") == "SQLITE_AUTH":
                raise BadInput(_reads_only(source)) from None
            raise BadInput(f"{source}: SQLite says {one_line(str(error))!r}") from None
        return rows.sheet()


def _open_sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    # A signal is noticed only while Python runs. This gives it a chance during a long step.
    connection.set_progress_handler(lambda: 0, STEPS)
    # ATTACH creates a file, although the database itself is read only.
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )
    return connection


def _sqlite_tables(connection: sqlite3.Connection) -> Columns:
    return connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
        "WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid"
    ).fetchall()


def _texts(values: Sequence[Any], rows: Rows, at: int) -> pl.Series:
    """A column of SQLite, whose values may differ in type from row to row."""
    try:
        return pl.Series(values, dtype=pl.String)
    except TypeError:
        pass
    if any(isinstance(value, bytes) for value in values):
        raise BadInput(_no_bytes(rows.shown, rows.titles[at]))
    return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)


# -- DuckDB -------------------------------------------------------------------------------------------------------------


def read_duckdb(source: str, query: str, options: ReadOptions) -> Sheet:
    """Rows of a DuckDB file, `duckdb:path`. Queries cannot read other files, the network or variables of the program."""
    path = _path(source, "duckdb:")
    with path.open("rb") as file:
        if file.read(len(SQLITE_MARK)) == SQLITE_MARK:
            raise BadInput(f"{path} is a file of SQLite; write sqlite:{path}")
    try:
        import duckdb
    except ImportError:
        raise BadInput(f"{source} {EXTRA.format(name='duckdb')}") from None
    try:
        with closing(_open_duckdb(path)) as connection:
            if not query:
                raise _no_query(source, _schemas(connection.execute(TABLES).fetchall(), "main"))
            _check_statement(source, connection, query)
            found = connection.execute(f"DESCRIBE\n{query}").fetchall()
            titles, types = [row[0] for row in found], [row[1] for row in found]
            _check_types(source, titles, types)
            names = [f"c{at}" for at in range(len(titles))]
            casts = ", ".join(f"{name}::VARCHAR" for name in names)
            connection.execute(f"CREATE TEMP VIEW asked({', '.join(names)}) AS\n{query}")

            def read() -> Sheet:
                cursor = connection.execute(f"SELECT {casts} FROM asked")
                return _collect(source, titles, types, options, cursor.fetchmany)

            return _until_interrupted(read, connection.interrupt)
    except duckdb.Error as error:
        raise BadInput(f"{source}: DuckDB says {one_line(str(error))!r}") from None
    except RuntimeError as error:  # this is how DuckDB reports Ctrl-C
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise


def _until_interrupted(read: Callable[[], Sheet], stop: Callable[[], None]) -> Sheet:
    """Read in another thread, so that Ctrl-C reaches this one: DuckDB does not look for it while it computes rows."""
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            while True:
                with suppress(TimeoutError):
                    return reading.result(timeout=0.1)
        except KeyboardInterrupt:
            stop()
            raise


def _open_duckdb(path: Path) -> duckdb.DuckDBPyConnection:
    import duckdb

    # Read only protects the database alone. A query could still read and write other files if it had access to them.
    settings: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false"}
    connection = duckdb.connect(str(path), read_only=True, config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would go to stdout
    connection.execute("SET lock_configuration = true")
    return connection


def _check_statement(source: str, connection: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise BadInput(_reads_only(source))


# -- PostgreSQL ---------------------------------------------------------------------------------------------------------


def read_postgresql(source: str, query: str, options: ReadOptions) -> Sheet:
    """Rows of a PostgreSQL database, `postgresql://user@host:port/database`, in a transaction that may only read.

    The rest is as for other clients: PGPASSWORD, ~/.pgpass, PGSERVICE.
    """
    try:
        import psycopg
    except ImportError:
        raise BadInput(f"{shown_source(source)} {EXTRA.format(name='psycopg')}") from None
    shown = shown_source(source)
    with _open_postgresql(source, shown) as connection:
        try:
            if not query:
                raise _no_query(shown, _schemas(connection.execute(TABLES).fetchall(), "public"))
            with connection.cursor("dura") as cursor:
                cursor.execute(query)
                described = cursor.description or []
                titles = [column.name for column in described]
                types = [KINDS.get(column.type_code, "") for column in described]
                _check_types(shown, titles, types)
                return _collect(shown, titles, types, options, cursor.fetchmany)
        except psycopg.Error as error:
            if isinstance(error, psycopg.errors.SyntaxError) and not READS.match(query):
                raise BadInput(_reads_only(shown)) from None
            raise BadInput(f"{shown}: PostgreSQL says {_message(error)!r}") from None


@contextmanager
def _open_postgresql(source: str, shown: str) -> Iterator[psycopg.Connection[Any]]:
    import psycopg
    from psycopg.adapt import AdaptersMap
    from psycopg.types.string import TextLoader

    # Every value stays the text that the server sends. So no date is too early or too late.
    plain = AdaptersMap(psycopg.adapters)
    for kind in psycopg.adapters.types:
        plain.register_loader(kind.oid, TextLoader)
        plain.register_loader(kind.array_oid, TextLoader)
    if re.search("[@/?#]", password_of(source)):  # PostgreSQL would take a part of the password for the host
        raise BadInput(
            f"the password in {shown} holds @, /, ? or #; write them as %40, %2F, %3F, %23, or leave it out and set PGPASSWORD"
        )
    try:
        given = psycopg.conninfo.conninfo_to_dict(source)
    except psycopg.Error:  # its message may show the password
        raise BadInput(
            f"{shown} is not an address of PostgreSQL; it should look like postgresql://user@host:5432/database"
        ) from None
    more: dict[str, Any] = {"fallback_application_name": "dura", "client_encoding": "UTF8"}
    if "connect_timeout" not in given:
        more["connect_timeout"] = CONNECT_SECONDS
    try:
        connection = psycopg.connect(source, context=plain, **more)
    except psycopg.Error as error:
        reason = one_line(str(error)).replace(str(given.get("password") or "\0"), "…")
        raise BadInput(f"{shown} cannot be opened: {reason}") from None
    connection.read_only = True
    with closing(connection):
        for setting in ("datestyle = 'ISO'", "timezone = 'UTC'", "bytea_output = 'hex'"):
            connection.execute(f"SET {setting}")
        yield connection


def _message(error: psycopg.Error) -> str:
    """What PostgreSQL says, with its hint."""
    primary, hint = error.diag.message_primary, error.diag.message_hint
    return one_line(f"{primary} ({hint})" if primary and hint else primary or str(error))


# -- what they share ----------------------------------------------------------------------------------------------------


def _path(source: str, scheme: str) -> Path:
    """The path of a database in a file. It must be there: to open it would create an empty one."""
    text = source[len(scheme) :]
    if not text or text == ":memory:":
        files = "; a query cannot name files: give the file itself as the source" if scheme == "duckdb:" else ""
        raise BadInput(f"{source} names no file; write {scheme}path/to/file.db{files}")
    if text.startswith("//"):
        raise BadInput(f"{source} is not how a file is named; write {scheme}path/to/file.db, without slashes before it")
    path = Path(text).expanduser()
    if not path.is_file():
        raise BadInput(f"there is no file {path}, which {source} names")
    return path


def _collect(
    shown: str, titles: list[str], types: list[str], options: ReadOptions, fetch: Callable[[int], list[Any]]
) -> Sheet:
    """Rows of text, batch by batch."""
    rows = Rows(shown, titles, options.most_gb)
    while batch := fetch(rows.next):
        columns = [pl.Series(values, dtype=pl.String) for values in zip(*batch, strict=True)]
        rows.add(_usual(column, kind) for column, kind in zip(columns, types, strict=True))
    return rows.sheet()


def _usual(column: pl.Series, kind: str) -> pl.Series:
    """The same form of dates and of truth from every database: 2024-02-29T12:30:00, 2024-02-29T12:30:00+00:00, true."""
    if kind.startswith(STAMPS):
        return column.str.replace(r"^(\S+) (\d)", "${1}T${2}").str.replace(r"([+-]\d\d)$", "${1}:00")
    if kind == "BOOLEAN":
        return column.replace({"t": "true", "f": "false"})
    return column


def _check_types(shown: str, titles: list[str], types: list[str]) -> None:
    for title, kind in zip(titles, types, strict=True):
        if kind in BYTES:
            raise BadInput(_no_bytes(shown, title))


def _no_bytes(shown: str, title: str) -> str:
    name = printable(title, lines=False)
    return f"the column {name!r} of the query over {shown} holds bytes, not text; leave it out, or turn it into text in the query"


def _reads_only(shown: str) -> str:
    example = "SELECT head, relation, tail FROM facts"
    return f"{shown} is only read, so the query must be one statement that gives rows, such as {example}"


def _schemas(rows: list[Any], usual: str) -> Columns:
    return [(table if schema == usual else f"{schema}.{table}", column) for schema, table, column in rows]


def _no_query(shown: str, columns: Columns) -> BadInput:
    """The error that shows what a query could be, and the tables that could hold facts."""
    tables: dict[str, list[str]] = {}
    for table, column in columns:
        tables.setdefault(table, []).append(column)
    wide = {table: titles for table, titles in tables.items() if len(titles) >= LEAST}
    table, titles = next(iter(wide.items()), ("facts", ["head", "relation", "tail"]))
    example = f"SELECT {', '.join(map(_quoted, titles[:LEAST]))} FROM {'.'.join(map(_quoted, table.split('.')))}"
    listed = ", ".join(f"{name} ({', '.join(titles)})" for name, titles in list(wide.items())[:SHOWN])
    more = f" and {len(wide) - SHOWN:,} more" if len(wide) > SHOWN else ""
    found = f"tables with three or more columns: {listed}{more}" if wide else "no table has three or more columns"
    message = f"{shown} needs a query whose rows are facts, such as --query '{example}' (in Python query=); {found}"
    return BadInput(printable(message, lines=False))


def _quoted(name: str) -> str:
    """A name as SQL writes it: in quotes only where it must be."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
