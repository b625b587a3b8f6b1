"""PostgreSQL as a server: passwords, transactions, and a server that stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.databases import Rows, read_database
from dura.types import BadInput
from servers import PostgreSQL, postgresql


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


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


def test_a_wrong_password_is_not_shown(server: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    wrong = server.source.replace("ann@", "ann:not-the-w0rd@")
    message = refused(wrong, "SELECT 1")
    assert "password authentication failed" in message
    assert server.source in message
    assert "not-the-w0rd" not in message
    assert "holds @, /, ? or #" in refused(server.source.replace("ann@", "ann:a/b@"), "SELECT 1")
    right = ask(server.source.replace("ann@", f"ann:{server.PASSWORD}@"), "SELECT 1, 2, 3")
    assert right.origin == server.source
    message = refused(server.source.replace("ann@", f"ann:{server.PASSWORD}@"), "SELECT")
    assert server.PASSWORD not in message


def test_the_usual_files_of_passwords_work(server: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    (tmp_path / "pgpass").write_text(f"127.0.0.1:{server.port}:*:ann:{server.PASSWORD}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    assert len(ask(server.source, "SELECT 1, 2, 3")) == 1
    service = f"[facts]\nhost=127.0.0.1\nport={server.port}\nuser=ann\ndbname=postgres\n"
    (tmp_path / "service").write_text(service)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service"))
    assert len(ask("postgresql:///?service=facts", "SELECT 1, 2, 3")) == 1
    monkeypatch.setenv("PGSERVICE", "facts")
    assert len(ask("postgresql://", "SELECT 1, 2, 3")) == 1


def test_a_transaction_cannot_be_opened_for_writing(server: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("PGPASSWORD", server.PASSWORD)
    with psycopg.connect(server.source) as connection:
        connection.execute("CREATE SEQUENCE IF NOT EXISTS steps")
    for query in (
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('steps')",
        "WITH gone AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM gone",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT 1) TO PROGRAM 'true' --",
    ):
        refused(server.source, query)
    # Older servers let a transaction that may only read make a large object. It is gone when the transaction ends.
    with suppress(BadInput):
        ask(server.source, "SELECT lo_create(0)")
    assert ask(server.source, "SELECT count(*) FROM pg_largeobject_metadata").rows.row(0) == ("0",)


@pytest.mark.parametrize("how", ["backend", "server"])
def test_a_server_that_stops_in_the_middle(server: PostgreSQL, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("PGPASSWORD", server.PASSWORD)
    add = Rows.add

    def stop(self: Rows, columns: Any) -> None:
        add(self, columns)
        if len(self.parts) == 2:
            if how == "server":
                server.stop()
            else:
                with psycopg.connect(server.source) as other:
                    other.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dura'"
                    )

    monkeypatch.setattr(Rows, "add", stop)
    try:
        message = refused(server.source, "SELECT i, i, i FROM generate_series(0, 1000000) i")
    finally:
        if how == "server":
            server.start()
    assert "PostgreSQL says" in message
    assert "terminat" in message or "closed" in message or "shut" in message


def test_a_server_that_is_not_there() -> None:
    assert "cannot be opened: connection failed" in refused("postgresql://ann:word@127.0.0.1:1/db", "SELECT 1")
    assert "is not an address of PostgreSQL" in refused("postgresql://ann:word@[host/db", "SELECT 1")
