"""What all databases share: how sources are recognised and shown, queries from files, the ceiling."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.readers import ReadOptions
from dura.data.sources.databases import (
    Rows,
    graph_name,
    is_database,
    one_line,
    password_of,
    read_database,
    without_secrets,
)
from dura.types import BadInput


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("sqlite:facts.db", True),
        ("SQLite:facts.db", True),
        ("duckdb:facts.db", True),
        ("postgresql://ann@host/db", True),
        ("postgres://host/db", True),
        ("sparql:https://host/query", True),
        ("https://host/sparql", True),
        ("facts.db", False),
        ("sqlite", False),
        ("C:/facts.tsv", False),
        ("./sqlite:facts", False),
        ("umls", False),
    ],
)
def test_sources_are_recognised_by_how_they_begin(source: str, expected: bool) -> None:
    assert is_database(source) is expected


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("postgresql://ann:word@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://ann@host:5432/db", "postgresql://ann@host:5432/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("postgres://ann:wo@rd/x@host/db", "postgres://ann@host/db"),
        ("postgresql:///db?password=word&host=/tmp", "postgresql:///db?host=/tmp"),
        ("postgresql:///db?host=/tmp&sslpassword=word", "postgresql:///db?host=/tmp"),
        ("postgresql://ann:a@h1:1,h2:2/db", "postgresql://ann@h1:1,h2:2/db"),
        ("sparql:https://ann:word@host/q?apikey=word", "sparql:https://ann@host/q"),
        ("sqlite:a:b@c.db", "sqlite:a:b@c.db"),
        ("folder/a:b@c.tsv", "folder/a:b@c.tsv"),
    ],
)
def test_passwords_are_left_out(source: str, shown: str) -> None:
    assert without_secrets(source) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("duckdb:/data/my.facts.duckdb", "my.facts"),
        ("postgresql://ann:word@host:5432/people", "people"),
        ("postgresql:///people?host=/tmp", "people"),
        ("postgresql:///?service=facts", "facts"),
        ("postgresql://", "facts"),
        ("sparql:https://ann:word@example.org:8890/query?x=1", "example.org"),
        ("https://example.org/sparql", "example.org"),
    ],
)
def test_graphs_get_a_name(source: str, name: str) -> None:
    assert graph_name(source) == name


@given(st.text(min_size=1).filter(lambda text: "@" not in text))
def test_no_password_survives(password: str) -> None:
    """The password is found as it is written, and what is shown does not depend on it."""
    source = f"postgresql://ann:{password}@host/db"
    assert without_secrets(source) == "postgresql://ann@host/db"
    assert password_of(source) == password


def test_a_query_may_be_in_a_file(tmp_path: Path) -> None:
    base = tmp_path / "a.db"
    sqlite3.connect(base).close()
    query = tmp_path / "query.sql"
    query.write_text("\ufeff-- a comment\nSELECT 'ann' AS head, 'knows' AS relation, 'bob' AS tail;\n")
    sqlite3.connect(base).execute("CREATE TABLE x (a)").connection.close()
    sheet = read_database(f"sqlite:{base}", ReadOptions(query=f"@{query}"))
    assert sheet.titles == ("head", "relation", "tail")
    assert sheet.rows.rows() == [("ann", "knows", "bob")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (1 << 20) + b"x", "more than 1,048,576"),
    ],
)
def test_a_wrong_file_of_a_query_is_one_sentence(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "query.sql"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_database("sqlite:x.db", ReadOptions(query=f"@{path}"))


def test_batches_grow_to_a_few_megabytes() -> None:
    rows = Rows("here", ["a"], 1)
    assert rows.next == Rows.FIRST
    rows.add([pl.Series(["x"] * 100)])
    assert rows.next == Rows.MOST
    rows = Rows("here", ["a"], 1)
    rows.add([pl.Series(["x" * 1_000_000] * 4)])
    assert 1 <= rows.next <= 17


def test_the_ceiling_names_its_option() -> None:
    rows = Rows("here", ["a"], 0.000_001)
    with pytest.raises(BadInput, match=r"the rows from here take more than 1e-06 GB; .* --most-gb"):
        rows.add([pl.Series(["x" * 2000])])


def test_messages_are_cut_to_one_line() -> None:
    assert one_line("\n first \nsecond") == "first"
    assert len(one_line("x" * 10_000)) == 301
    assert one_line("a\x1b[31mb") == "a\\u001b[31mb"
    assert one_line("") == "no message"
