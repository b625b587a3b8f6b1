"""Servers that break off, never end, are busy or redirect: one sentence each, and no password in it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources import web
from dura.data.sources.databases import read_database
from dura.types import BadInput, DuraError
from servers import Handler, reply, web_server

HEADER = b"?head\t?relation\t?tail\n"
ROW = b"<urn:a>\t<urn:r>\t<urn:b>\n"


def ask(source: str, query: str | None = None, **options: Any) -> Sheet:
    return read_database(source, ReadOptions(query=query, **options))


def refused(source: str, query: str | None = None, **options: Any) -> str:
    with pytest.raises(DuraError) as error:
        ask(source, query, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ("1000", "broke off after 46 of 1,000 bytes"),
        ("40", "sends more than the 40 bytes|not a row of a SPARQL result"),
    ],
)
def test_a_wrong_length_is_one_sentence(length: str, said: str) -> None:
    def answer(handler: Handler, body: str) -> None:
        reply(handler, HEADER + ROW, Content_Length=length)

    with web_server(answer) as address:
        message = refused(f"sparql:{address}")
    assert any(part in message for part in said.split("|")), message


@pytest.mark.parametrize("length", ["many", "-5", "1e3", ""])
def test_a_length_that_is_no_number_is_not_used(length: str) -> None:
    def answer(handler: Handler, body: str) -> None:
        reply(handler, HEADER + ROW, Content_Length=length)

    with web_server(answer) as address:
        assert len(ask(f"sparql:{address}")) == 1


@pytest.mark.parametrize("length", ["unknown", "45"])
def test_an_answer_that_ends_within_a_line_is_told(length: str) -> None:
    def answer(handler: Handler, body: str) -> None:
        reply(handler, HEADER + ROW.rstrip(), Content_Length=length)

    with web_server(answer) as address:
        assert ask(f"sparql:{address}").notes == [
            f"the answer of sparql:{address} ends within a line, so it may be cut"
        ]


@pytest.mark.parametrize("part", [ROW * 1000, b"x" * 50_000])
def test_an_endless_answer_stops_at_the_ceiling(part: bytes) -> None:
    def answer(handler: Handler, body: str) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/tab-separated-values")
        handler.end_headers()
        handler.wfile.write(HEADER)
        while True:
            handler.wfile.write(part)

    with web_server(answer) as address:
        assert "take more than 0.01 GB" in refused(f"sparql:{address}", most_gb=0.01)


def test_chunks_that_break_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: Handler, body: str) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/tab-separated-values")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\nffff\r\n<urn:c>" % (len(HEADER + ROW), HEADER + ROW))
        handler.close_connection = True

    with web_server(answer) as address:
        assert "broke off after" in refused(f"sparql:{address}")


def status(handler: Handler, code: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\nVirtuoso 37000 Error SP030: syntax error\nSPARQL query:", ": 'Virtuoso 37000 Error SP030: syntax error'"),
        (b"<html><head><title>x</title></head><body><h1>No such</h1></body>", ": 'No such'"),
        (b"", ""),
        (b"\xff\x1b[31m", ": '\ufffd\\\\u001b[31m'"),
    ],
)
def test_an_error_shows_the_first_line(body: bytes, said: str) -> None:
    with web_server(lambda handler, _: status(handler, 500, body)) as address:
        assert refused(f"sparql:{address}") == f"{address} answers 500 Internal Server Error{said}"


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    codes = [429, 503, 503]
    asks = [*["0"] * 10, "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "7"]

    def answer(handler: Handler, body: str) -> None:
        if codes:
            status(handler, codes.pop(0), Retry_After=asks.pop())
        else:
            reply(handler, HEADER + ROW)

    with web_server(answer) as address:
        assert len(ask(f"sparql:{address}")) == 1
        assert waits == [7, 0, 4]
        codes += [503] * 10
        assert "answers 503" in refused(f"sparql:{address}")
    assert len(codes) == 10 - 4


def test_nobody_waits_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(handler: Handler, body: str) -> None:
        asked.append(body)
        status(handler, 429, b"slow down", Retry_After="36000")

    with web_server(answer) as address:
        assert "answers 429 Too Many Requests: 'slow down'" in refused(f"sparql:{address}")
    assert len(asked) == 1


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirection_takes_the_form_but_no_password_along(code: int) -> None:
    seen: list[tuple[str, str | None]] = []

    def there(handler: Handler, body: str) -> None:
        seen.append((body, handler.headers["Authorization"]))
        reply(handler, HEADER + ROW)

    with web_server(there) as target:

        def here(handler: Handler, body: str) -> None:
            if handler.path == "/near":
                return there(handler, body)
            return status(handler, code, Location="/near" if handler.path == "/" else f"{target}/far")

        with web_server(here) as address:
            assert len(ask(f"sparql:{address}/".replace("//", "//ann:word@", 1))) == 1
            assert len(ask(f"sparql:{address}/away".replace("//", "//ann:word@", 1))) == 1
    assert all(body.startswith("query=") for body, _ in seen)
    assert [header is not None for _, header in seen] == [True, False]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x", "http://["])
def test_redirections_lead_to_the_web_only(target: str) -> None:
    with web_server(lambda handler, _: status(handler, 302, Location=target)) as address:
        message = refused(f"sparql:{address}")
    assert "root:" not in message


def test_a_circle_of_redirections_ends() -> None:
    with web_server(lambda handler, _: status(handler, 302, Location="/")) as address:
        assert "answers 302" in refused(f"sparql:{address}")


def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TIMEOUT", 0.2)
    with web_server(lambda *_: time.sleep(1)) as address:
        assert "timed out" in refused(f"sparql:{address}")


def test_a_server_that_is_not_there() -> None:
    message = refused("sparql:http://ann:word@127.0.0.1:1/sparql")
    assert message.startswith("http://ann@127.0.0.1:1/sparql cannot be reached: ")
    with pytest.raises(BadInput, match="holds @, /, . or #"):
        ask("sparql:http://ann:a/b@127.0.0.1:1/")


@pytest.mark.parametrize("kind", ["text/html", "text/turtle", "application/sparql-results+xml"])
def test_an_answer_of_another_kind(kind: str) -> None:
    with web_server(lambda handler, _: reply(handler, b"<html>", kind)) as address:
        assert f"answers with {kind}, not with the rows of a query" in refused(f"sparql:{address}")


def test_compression_that_was_not_asked_for() -> None:
    with web_server(lambda handler, _: reply(handler, b"\x1f\x8b", Content_Encoding="gzip")) as address:
        assert "sends its answer compressed (gzip)" in refused(f"sparql:{address}")
