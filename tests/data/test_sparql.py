"""SPARQL endpoints: a real one, and servers that cut, break off, redirect or never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.databases import read_database
from dura.data.sources.sparql import EVERYTHING
from dura.types import DuraError, __version__
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


@pytest.mark.parametrize(
    ("select", "columns"),
    [
        ("?object ?predicate ?subject", None),
        ("?object ?r ?subject", "subject,r,object"),
        ("?object ?r ?subject", (2, 1, 0)),
    ],
)
def test_the_tail_is_found_by_name_or_choice(endpoint: str, select: str, columns: Any) -> None:
    middle = select.split()[1]
    sheet = ask(endpoint, f"SELECT {select} WHERE {{ ?subject {middle} ?object }}", columns=columns)
    assert len(sheet) == 4
    assert sheet.notes


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
