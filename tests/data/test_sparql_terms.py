"""SPARQL results to text: what a server could write is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.sources import terms
from dura.data.sources.terms import Batch, WrongForm, read_json, read_tsv, unescape

Term = tuple[str, str] | None
"""Kind and value of a term, or None where a row has none."""
letters = st.characters(exclude_categories=["Cs"])
iris = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"], exclude_characters='<>"{}|^`\\'), min_size=1)
rows_of_terms = st.lists(
    st.tuples(
        *[
            st.one_of(
                st.tuples(st.just("uri"), iris.map("urn:{}".format)),
                st.tuples(st.just("literal"), st.text(letters)),
                st.tuples(st.just("bnode"), st.from_regex(r"\Ab[0-9]{1,3}\Z")),
                st.none(),
            )
        ]
        * 3
    ),
    max_size=8,
)


def tsv_cell(term: Term) -> str:
    if term is None:
        return ""
    kind, value = term
    if kind == "literal":
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
            value = value.replace(plain, escaped)
        return f'"{value}"'
    return f"<{value}>" if kind == "uri" else f"_:{value}"


def as_tsv(rows: list[tuple[Term, ...]]) -> bytes:
    lines = ["?a\t?b\t?c", *("\t".join(map(tsv_cell, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def as_json(rows: list[tuple[Term, ...]]) -> bytes:
    found = [
        {name: {"type": term[0], "value": term[1]} for name, term in zip("abc", row, strict=True) if term}
        for row in rows
    ]
    return json.dumps({"head": {"vars": ["a", "b", "c"]}, "results": {"bindings": found}}).encode()


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def whole(batches: Iterator[Batch]) -> tuple[list[tuple[str | None, ...]], list[tuple[bool, ...]]]:
    texts: list[tuple[str | None, ...]] = []
    literals: list[tuple[bool, ...]] = []
    for batch in batches:
        assert batch.titles == ("a", "b", "c")
        texts += list(zip(*[column.to_list() for column in batch.texts], strict=True))
        literals += list(zip(*[column.to_list() for column in batch.literals], strict=True))
    return texts, literals


@given(rows_of_terms, st.integers(1, 50))
def test_both_forms_give_back_what_was_written(rows: list[tuple[Term, ...]], size: int) -> None:
    """However the body is cut into parts."""
    texts = [tuple(term and (f"_:{term[1]}" if term[0] == "bnode" else term[1]) for term in row) for row in rows]
    literals = [tuple(term is not None and term[0] == "literal" for term in row) for row in rows]
    assert whole(read_json(pieces(as_json(rows), size))) == (texts, literals)
    assert whole(read_tsv(pieces(as_tsv(rows), size))) == (texts, literals)


@pytest.mark.parametrize(
    ("cell", "text", "literal"),
    [
        ('"Berlin"@de-AT', "Berlin", True),
        ('"5"^^<http://www.w3.org/2001/XMLSchema#byte>', "5", True),
        ('"5"^^xsd:byte', "5", True),
        ("'single'", "single", True),
        ('"a \\"quote\\" \\\\ caf\\u00e9"', 'a "quote" \\ café', True),
        ("-1.5e3", "-1.5e3", True),
        ("true", "true", True),
        ("_:b0", "_:b0", False),
        ("<urn:x>", "urn:x", False),
        ("<http://x/caf\\u00e9>", "http://x/café", False),
        ("", None, False),
    ],
)
def test_cells_of_tsv(cell: str, text: str | None, literal: bool) -> None:
    (batch,) = read_tsv([f"?a\t?b\r\n<urn:y>\t{cell}\r\n".encode()])
    assert (batch.texts[1].to_list(), batch.literals[1].to_list()) == ([text], [literal])


def test_large_bodies_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[Term, ...]] = [(("uri", f"urn:{at}"), ("bnode", "b"), None) for at in range(500)]
    monkeypatch.setattr(terms, "BYTES", 100)
    monkeypatch.setattr(terms, "ROWS", 7)
    assert len(list(read_tsv(pieces(as_tsv(rows), 64)))) > 10
    assert len(list(read_json(pieces(as_json(rows), 64)))) == 500 // 7 + 2
    assert whole(read_tsv(pieces(as_tsv(rows), 64))) == whole(read_json(pieces(as_json(rows), 64)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"?a\t?b\n<urn:x>\n",
        b"?a\t?b\n<urn:x>\t<urn:y>\t<urn:z>\n",
        b"?a\t?b\n<urn:x>\t<urn:y\n",
        b"?a\t?b\n<urn:x>\thttp://bare\n",
        b'?a\t?b\n"http://x/1"\t"http://x/2"\n',
        b"?a\t?b\n<urn:x>\t<< <urn:a> <urn:b> <urn:c> >>\n",
        b"?a\t?b\n<urn:x>\t<urn:\xff>\n",
        b"?a\t?b\n<urn:x>\t<urn:y>\njava.util.concurrent.TimeoutException\n",
    ],
)
def test_wrong_tsv_is_noticed(body: bytes) -> None:
    with pytest.raises(WrongForm):
        list(read_tsv([body]))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 5000,
        b'{"head": {}, "boolean": true}',
        b'{"head": {"vars": [1, ]}, "results": {"bindings": []}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "value": "urn:x"}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "val',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [5]}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": 5}]}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "value": 5}}]}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "triple", "value": {}}}]}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [' + b"[" * 100_000,
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": "\xff"}]}}',
        b'{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "uri", "value": "\\ud800"}}]}}',
    ],
)
def test_wrong_json_is_noticed(body: bytes) -> None:
    with pytest.raises(WrongForm):
        list(read_json([body]))


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"?a\t?b\n", b'{"head": {"vars": ["a"]}, "results": {"bindings": ['])
)
def test_no_bytes_cause_another_error(body: bytes, before: bytes) -> None:
    for read in (read_tsv, read_json):
        with suppress(WrongForm):
            list(read([before + body]))


def test_escapes_that_are_no_character() -> None:
    assert unescape(r"\ud800 \UFFFFFFFF \q") == "\ufffd \ufffd q"
