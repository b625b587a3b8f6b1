"""SQLite, DuckDB and PostgreSQL: one set of laws for the three, with real files and a real server."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.databases import read_database
from dura.types import BadInput
from servers import PostgreSQL, postgresql

duckdb = pytest.importorskip("duckdb", reason="needs duckdb (pip install 'dura-kge[sql]')")
ENGINES = ("sqlite", "duckdb", "postgresql")
NAMES = ["O'Brien", 'say "hi"', "Zoë → 北京", "a\tb\nc", " spaces ", "%s %(x)s ?", "\\N", ""]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the facts of NAMES and a table of two columns."""
    if engine == "postgresql":
        import psycopg

        server: PostgreSQL = request.getfixturevalue("server")
        monkeypatch.setenv("PGPASSWORD", server.PASSWORD)
        source, mark = server.source, "%s"
        connection: Any = psycopg.connect(source)
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    else:
        name = "a b?#%.db" if engine == "sqlite" else "a b#%.db"  # DuckDB takes a ? for the begin of parameters
        source, mark = f"{engine}:{tmp_path / name}", "?"
        path = source.partition(":")[2]
        connection = sqlite3.connect(path) if engine == "sqlite" else duckdb.connect(path)
    connection.execute('CREATE TABLE "The ""Facts""" (head text, "Relation" text, tail text, age integer)')
    connection.execute("CREATE TABLE pair (a text, b text)")
    for at, name in enumerate(NAMES):
        row = (name, "knows", None if at == 0 else NAMES[at - 1], at or None)
        connection.execute(f'INSERT INTO "The ""Facts""" VALUES ({mark}, {mark}, {mark}, {mark})', row)
    connection.commit()
    connection.close()
    return source


def ask(source: str, query: str | None = None, **options: Any) -> Sheet:
    return read_database(source, ReadOptions(query=query, **options))


def refused(source: str, query: str | None = None, **options: Any) -> str:
    """The message of the error, which is one sentence on one line."""
    with pytest.raises(BadInput) as error:
        ask(source, query, **options)
    message = str(error.value)
    assert "\n" not in message
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return message


# -- what is read -------------------------------------------------------------------------------------------------------


def test_rows_are_text_and_null_is_missing(source: str) -> None:
    sheet = ask(source, 'SELECT * FROM "The ""Facts""" ORDER BY coalesce(age, 0)')
    assert sheet.titles == ("head", "Relation", "tail", "age")
    assert sheet.rows.to_series(0).to_list() == NAMES
    assert sheet.rows.to_series(2).to_list() == [None, *NAMES[:-1]]
    assert sheet.rows.to_series(3).to_list() == [None, *map(str, range(1, len(NAMES)))]
    assert set(sheet.rows.dtypes) == {sheet.rows.dtypes[0]}
    assert sheet.origin == source


def test_a_semicolon_and_comments_do_no_harm(source: str) -> None:
    query = "-- which ones?\nSELECT 'a;b' AS x, 2 AS y, 3 AS z /* all */ ; -- done"
    sheet = ask(source, query)
    assert (sheet.titles, sheet.rows.rows()) == (("x", "y", "z"), [("a;b", "2", "3")])


def test_columns_of_the_same_name_stay_apart(source: str) -> None:
    assert ask(source, "SELECT 'p' AS a, 'q' AS a, 'r' AS a").rows.rows() == [("p", "q", "r")]


@pytest.mark.parametrize("engine", ENGINES[1:], indirect=True)
def test_dates_have_their_iso_form(source: str) -> None:
    sheet = ask(
        source,
        "SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00', TIMESTAMP '0044-03-15 00:00:00.5', "
        "TIMESTAMPTZ '2024-02-29 12:30:00+05:30', TRUE, FALSE, CAST(NULL AS timestamp), 12345678901234567890",
    )
    assert sheet.rows.row(0) == (
        "2024-02-29",
        "2024-02-29T12:30:00",
        "0044-03-15T00:00:00.5",
        "2024-02-29T07:00:00+00:00",
        "true",
        "false",
        None,
        "12345678901234567890",
    )


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_dates_that_python_does_not_know(source: str) -> None:
    sheet = ask(source, "SELECT DATE '0044-03-15 BC', DATE '12024-01-01', DATE 'infinity', TIMESTAMP 'infinity'")
    assert sheet.rows.row(0) == ("0044-03-15 BC", "12024-01-01", "infinity", "infinity")


def test_types_that_differ_from_row_to_row(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE f (a)")
    connection.executemany("INSERT INTO f VALUES (?)", [(1,), ("one",), (None,), (2.5,), (10**15,)])
    connection.commit()
    connection.close()
    assert ask(f"sqlite:{path}", "SELECT a FROM f").rows.to_series().to_list() == ["1", "one", None, "2.5", str(10**15)]


def test_many_rows_come_in_batches_in_order(engine: str, source: str) -> None:
    numbers = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 120000) SELECT i, i, 'x' FROM n",
        "duckdb": "SELECT range, range, 'x' FROM range(120001)",
        "postgresql": "SELECT i, i, 'x' FROM generate_series(0, 120000) i",
    }
    sheet = ask(source, numbers[engine])
    assert sheet.rows.to_series(1).to_list() == [str(number) for number in range(120_001)]


# -- what is refused ----------------------------------------------------------------------------------------------------


def test_without_a_query_tables_are_listed(source: str) -> None:
    message = refused(source)
    assert 'such as --query \'SELECT head, "Relation", tail FROM "The ""Facts"""\'' in message
    assert message.endswith('tables with three or more columns: The "Facts" (head, Relation, tail, age)')
    assert "pair" not in message
    example = message.partition("--query '")[2].partition("' (in")[0]
    assert len(ask(source, example)) == len(NAMES)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT head FORM facts WHERE", "syntax error"),
        ("SELECT * FROM nothing_here", "nothing_here"),
        ("SELECT nobody FROM pair", "nobody"),
    ],
)
def test_a_wrong_query_shows_what_the_database_says(source: str, query: str, said: str) -> None:
    message = refused(source, query)
    assert said in message
    assert " says '" in message or ' says "' in message


WRITES = (
    "DELETE FROM pair",
    "INSERT INTO pair VALUES ('a', 'b')",
    "DROP TABLE pair",
    "CREATE TABLE more (a text)",
    "SELECT 1; DELETE FROM pair",
)


@pytest.mark.parametrize("query", WRITES)
def test_nothing_is_written(engine: str, source: str, query: str) -> None:
    before = _digest(engine, source)
    message = refused(source, query)
    assert any(word in message for word in ("only read", "readonly", "one statement", "multiple commands"))
    assert _digest(engine, source) == before


def _digest(engine: str, source: str) -> object:
    if engine != "postgresql":
        return Path(source.partition(":")[2]).read_bytes()
    return ask(source, "SELECT count(*), (SELECT count(*) FROM information_schema.tables) FROM pair").rows.rows()


def test_no_rows_are_an_error(source: str) -> None:
    assert refused(source, "SELECT a, b, a FROM pair") == f"the query finds no rows in {source}"


def test_bytes_are_refused_by_name(engine: str, source: str) -> None:
    query = {"sqlite": "x'00ff'", "duckdb": r"'\x00\xff'::BLOB", "postgresql": r"'\x00ff'::bytea"}[engine]
    assert "the column 'photo' of the query" in refused(source, f"SELECT 'a', 'b', {query} AS photo")


def test_the_ceiling_stops_an_endless_query(engine: str, source: str) -> None:
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT i, i, i FROM n",
        "duckdb": "SELECT range, range, range FROM range(1000000000000)",
        "postgresql": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT i, i, i FROM n",
    }
    assert "--most-gb" in refused(source, endless[engine], most_gb=0.003)


@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
def test_files_that_are_not_there_are_not_made(engine: str, tmp_path: Path) -> None:
    assert refused(f"{engine}:{tmp_path / 'no.db'}", "SELECT 1").startswith("there is no file")
    assert refused(f"{engine}:{tmp_path}", "SELECT 1").startswith("there is no file")
    assert "write " + engine + ":path/to/file.db" in refused(f"{engine}:", "SELECT 1")
    assert "write " + engine + ":path/to/file.db" in refused(f"{engine}:///facts.db", "SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("head\trelation\ttail\n" * 100)
    assert "not a database" in refused(f"sqlite:{tmp_path / 'a.db'}")
    assert "DuckDB says" in refused(f"duckdb:{tmp_path / 'a.db'}")
    sqlite3.connect(tmp_path / "b.db").execute("CREATE TABLE x (a)").connection.close()
    assert "write sqlite:" in refused(f"duckdb:{tmp_path / 'b.db'}")


@pytest.mark.parametrize("engine", ENGINES[:2], indirect=True)
@pytest.mark.parametrize(
    "query",
    [
        "ATTACH '{new}' AS other",
        "VACUUM INTO '{new}'",
        "COPY pair TO '{new}'",
        "SELECT * FROM read_csv('{old}')",
        "SELECT * FROM '{old}'",
        "SELECT * FROM variable_of_the_program",
        "INSTALL httpfs",
    ],
)
def test_a_query_reaches_no_other_file(engine: str, source: str, query: str, tmp_path: Path) -> None:
    import polars as pl

    variable_of_the_program = pl.DataFrame({"a": [1]})
    (tmp_path / "old.csv").write_text("a,b,c\n1,2,3\n")
    refused(source, query.format(new=tmp_path / "new", old=tmp_path / "old.csv"))
    assert not (tmp_path / "new").exists()
    assert len(variable_of_the_program) == 1


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_missing_extra_is_named(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.db").write_bytes(b"")
    for module, other in (("duckdb", f"duckdb:{tmp_path / 'x.db'}"), ("psycopg", "postgresql://ann:word@host/db")):
        monkeypatch.setitem(sys.modules, module, None)
        message = refused(other, "SELECT 1")
        assert f"needs {module}, which is not installed: pip install 'dura-kge[sql]'" in message
        assert "word" not in message
    assert len(ask(source, "SELECT 1")) == 1


# -- Ctrl-C -------------------------------------------------------------------------------------------------------------

_LONG = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT count(*), 1, 2 FROM n",
    "duckdb": "SELECT count(*), sum(a.range * b.range), 1 FROM range(100000000) a, range(100000000) b",
    "postgresql": "SELECT pg_sleep(100), 1, 2",
}


def test_a_long_query_can_be_stopped(engine: str, source: str) -> None:
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it\n"
        "from dura.data.readers import ReadOptions\nfrom dura.data.sources.databases import read_database\n"
        "print('go', flush=True)\n"
        "try:\n    read_database(sys.argv[1], ReadOptions(query=sys.argv[2]))\n"
        "except KeyboardInterrupt:\n    print('stopped')"
    )
    command = [sys.executable, "-c", code, source, _LONG[engine]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert rest == "stopped\n"
