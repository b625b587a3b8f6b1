"""SPARQL endpoints: a real one, and servers that cut, break off, redirect or never end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources import web
from dura.data.sources.databases import read_database
from dura.data.sources.sparql import EVERYTHING
from dura.types import BadInput, DuraError, __version__
from servers import Handler, reply, sparql_endpoint, web_server

TURTLE = r"""
@prefix x: <http://example.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
x:ann x:knows x:bob, x:zoë, _:someone ; x:name "Ann \"A.\" O'Neil\tJr"@en ; x:born "1990-05-17"^^xsd:date .
x:bob x:knows x:ann ; x:age 42 .
"""
X = "http://example.org/"
HEADER = b"?head\t?relation\t?tail\n"
ROW = b"<urn:a>\t<urn:r>\t<urn:b>\n"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("sparql") / "facts.ttl"
    path.write_text(TURTLE, "utf-8")
    with sparql_endpoint(path) as source:
        yield source


def ask(source: str, query: str | None = None, **options: Any) -> Sheet:
    return read_database(source, ReadOptions(query=query, **options))


def refused(source: str, query: str | None = None, **options: Any) -> str:
    with pytest.raises(DuraError) as error:
        ask(source, query, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- a real endpoint ----------------------------------------------------------------------------------------------------


def test_without_a_query_all_facts_between_iris(endpoint: str) -> None:
    sheet = ask(endpoint)
    assert sheet.titles == ("head", "relation", "tail")
    assert sorted(sheet.rows.rows()) == [
        (f"{X}ann", f"{X}knows", f"{X}bob"),
        (f"{X}ann", f"{X}knows", f"{X}zoë"),
        (f"{X}bob", f"{X}knows", f"{X}ann"),
    ]
    assert (sheet.origin, sheet.notes) == (endpoint, [])


def test_literals_are_left_out_and_counted(endpoint: str) -> None:
    sheet = ask(endpoint, "SELECT * WHERE { ?h ?r ?t } ORDER BY ?t")
    assert len(sheet) == 4
    assert any(tail.startswith("_:") for tail in sheet.take([_place(sheet, "t")]).to_series())
    assert sheet.notes == [
        "3 rows were left out, because the tail is a literal (a text, number or date) and not an entity"
    ]
    assert sheet.numbers is not None
    assert len(sheet.numbers) == 4


def _place(sheet: Sheet, title: str) -> int:
    assert sheet.titles is not None
    return sheet.titles.index(title)


def test_labels_stay_if_the_query_asks_for_them(endpoint: str) -> None:
    sheet = ask(endpoint, f"SELECT ?h ('is called' AS ?r) ?t WHERE {{ ?h <{X}name> ?t }}")
    assert sheet.rows.row(0) == (f"{X}ann", "is called", 'Ann "A." O\'Neil\tJr')


def test_times_are_literals_that_stay(endpoint: str) -> None:
    sheet = ask(
        endpoint, f"SELECT ?h ?r ?t ?time WHERE {{ ?h ?r ?t . OPTIONAL {{ ?h <{X}born> ?time }} FILTER(isIRI(?t)) }}"
    )
    assert {row[0]: row[3] for row in sheet.rows.rows()} == {f"{X}ann": "1990-05-17", f"{X}bob": None}


def test_a_wrong_query_shows_what_the_server_says(endpoint: str) -> None:
    message = refused(endpoint, "SELECT ?h WHERE { ?h ")
    assert message.startswith(f"{endpoint.removeprefix('sparql:')} answers 400 Bad Request: ")
    assert "Expected" in message


def test_what_is_no_select_is_refused(endpoint: str) -> None:
    assert "is the query a SELECT?" in refused(endpoint, "CONSTRUCT { ?h ?r ?t } WHERE { ?h ?r ?t }")
    assert "answers 400" in refused(endpoint, "DELETE WHERE { ?h ?r ?t }")
    assert refused(endpoint, "SELECT ?h WHERE { ?h <urn:none> ?t }").startswith(
        "the query finds no rows in sparql:http"
    )


# -- servers with habits ------------------------------------------------------------------------------------------------


def test_the_request_is_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, ...]] = []

    def answer(handler: Handler, body: str) -> None:
        names = ("User-Agent", "Content-Type", "Authorization")
        seen.append((handler.command, parse_qs(body)["query"][0], *(handler.headers[name] for name in names)))
        reply(handler, HEADER + ROW)

    with web_server(answer) as address:
        assert len(ask(f"{address}/sparql")) == 1  # an address that says what it is needs no mark
        sheet = ask(f"sparql:{address}/x".replace("//", "//ann:w%40rd@"))
    form = "application/x-www-form-urlencoded"
    assert seen[0] == ("POST", EVERYTHING, f"dura/{__version__}", form, None)
    assert seen[1][-1] == "Basic YW5uOndAcmQ="
    assert sheet.origin == f"sparql:{address}/x".replace("//", "//ann@")


def test_other_addresses_need_a_mark() -> None:
    assert "write sparql:https://host/facts.csv; if it is a file, download it" in refused("https://host/facts.csv")
    assert "not an address that begins with http" in refused("sparql:ftp://host/x")
    assert "not an address that begins with http" in refused("sparql:file:///etc/passwd")
    assert "is not an address" in refused("sparql:http://host:port/")


def test_tsv_that_is_wrong_is_asked_for_as_json() -> None:
    accepted: list[str] = []
    row = '{"head": {"type": "uri", "value": "http://a"}, "tail": {"type": "uri", "value": "http://b"}}'

    def answer(handler: Handler, body: str) -> None:
        accepted.append(handler.headers["Accept"])
        if len(accepted) == 1:  # as Virtuoso does: IRIs in quotes
            reply(handler, b'"head"\t"tail"\n"http://a"\t"http://b"\n')
        else:
            json = f'{{"head": {{"vars": ["head", "tail"]}}, "results": {{"bindings": [{row}]}}}}'
            reply(handler, json.encode(), "application/sparql-results+json")

    with web_server(answer) as address:
        assert ask(f"sparql:{address}").rows.rows() == [("http://a", "http://b")]
    assert accepted == [
        "text/tab-separated-values, application/sparql-results+json;q=0.9",
        "application/sparql-results+json",
    ]


def test_text_within_the_rows_is_an_error() -> None:
    def answer(handler: Handler, body: str) -> None:
        reply(handler, HEADER + ROW + b"java.util.concurrent.TimeoutException\n\tat x.y.z\n")

    with web_server(answer) as address:
        message = refused(f"sparql:{address}")
    assert "sends 'java.util.concurrent.TimeoutException', which is not a row of a SPARQL result" in message


def pages(most: int, total: int, asked: list[str]) -> Any:
    """A server that sends `most` of `total` rows at most, and knows LIMIT and OFFSET."""

    def answer(handler: Handler, body: str) -> None:
        query = parse_qs(body)["query"][0]
        asked.append(query)
        offset = int(query.partition("OFFSET ")[2] or 0)
        rows = [f"<urn:{at}>\t<urn:r>\t<urn:b>\n" for at in range(offset, min(total, offset + most))]
        reply(handler, HEADER + "".join(rows).encode())

    return answer


def test_an_ordered_query_is_asked_for_in_pages() -> None:
    asked: list[str] = []
    query = "SELECT ?head ?relation ?tail { ?head ?relation ?tail } ORDER BY ?head # all"
    with web_server(pages(2000, 4500, asked)) as address:
        sheet = ask(f"sparql:{address}", query)
    assert sheet.rows.to_series().to_list() == [f"urn:{at}" for at in range(4500)]
    assert asked == [query, f"{query}\nLIMIT 2000 OFFSET 2000", f"{query}\nLIMIT 2000 OFFSET 4000"]
    assert sheet.notes == [
        f"sparql:{address} cuts its answers, so its rows were asked for in 3 pages in the order of the query"
    ]


@pytest.mark.parametrize(
    ("query", "most", "warned"),
    [
        ("SELECT * { ?head ?relation ?tail }", 10_000, True),
        ("SELECT * { ?head ?relation ?tail }", 4096, True),
        ("SELECT * { ?head ?relation ?tail }", 10_001, False),
        ("SELECT * { ?head ?relation ?tail } LIMIT 10000", 10_000, False),
        ("SELECT * { ?head ?relation ?tail } ORDER BY ?head LIMIT 50000", 10_000, True),
        ("SELECT * { { SELECT ?head { ?head ?relation ?tail } ORDER BY ?head } }", 10_000, True),
        ("SELECT * { ?head ?relation ?tail } # ORDER BY ?head", 10_000, True),
        ("SELECT * { ?head <urn:ORDER BY> '} ORDER BY' }", 10_000, True),
    ],
)
def test_a_round_number_of_rows_is_a_warning(query: str, most: int, warned: bool) -> None:
    asked: list[str] = []
    with web_server(pages(most, 20_000, asked)) as address:
        notes = ask(f"sparql:{address}", query).notes
    assert len(asked) == 1
    assert bool(notes) is warned
    if warned:
        assert f"sent exactly {most:,} rows; many servers cut answers" in notes[0]
        assert "add ORDER BY ?head ?relation ?tail to the query" in notes[0]


def test_what_virtuoso_says_about_its_limits() -> None:
    def answer(handler: Handler, body: str) -> None:
        reply(handler, HEADER + ROW * 3, X_SPARQL_MaxRows="3", X_SQL_State="S1TAT")

    with web_server(answer) as address:
        first, second = ask(f"sparql:{address}").notes
    assert "stopped at its time limit, so rows are missing" in first
    assert "sent exactly 3 rows" in second


# -- what goes wrong ----------------------------------------------------------------------------------------------------


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
def test_an_answer_of_another_kind(kind: str, tmp_path: Path) -> None:
    with web_server(lambda handler, _: reply(handler, b"<html>", kind)) as address:
        assert f"answers with {kind}, not with the rows of a query" in refused(f"sparql:{address}")


def test_compression_that_was_not_asked_for() -> None:
    with web_server(lambda handler, _: reply(handler, b"\x1f\x8b", Content_Encoding="gzip")) as address:
        assert "sends its answer compressed (gzip)" in refused(f"sparql:{address}")
