"""SPARQL: the rows of a SELECT query over an endpoint, `sparql:https://host/query`.

An endpoint is asked for TSV, which is fast, and for JSON if it writes no proper TSV. IRIs become names without their brackets,
literals become their text. A row whose tail is a literal is no fact: such rows are left out and counted. If all tails are
literals, the query asks for labels, and they stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import polars as pl

from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.databases import Rows, one_line, shown_source, too_much
from dura.data.sources.terms import Batch, WrongForm, read_json, read_tsv
from dura.data.sources.web import Reply, ask
from dura.data.words import named
from dura.types import BadInput, DuraError

EVERYTHING = "SELECT ?head ?relation ?tail WHERE { ?head ?relation ?tail FILTER(isIRI(?tail)) }"
"""The query if the user gives none."""
TSV, JSON = "text/tab-separated-values", "application/sparql-results+json"
FORMS: dict[str, Callable[[Iterable[bytes]], Iterator[Batch]]] = {
    TSV: read_tsv,
    JSON: read_json,
    "application/json": read_json,
}
"""Content type -> what reads it."""
ROUND = 1_000
"""Servers cut answers at a multiple of this number of rows, or at a power of two above it."""
_NOISE = re.compile(r"""<[^<>\s]*>|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|#[^\n]*""")
_LIMIT = re.compile(r"(?i)\blimit\s+(\d+)")


@dataclass
class Page:
    """What one question brought."""

    batches: list[Batch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    most_rows: int = 0
    """How many rows the server sends at most, if it says so."""

    def __len__(self) -> int:
        return sum(map(len, self.batches))


def read_sparql(source: str, query: str, options: ReadOptions) -> Sheet:
    """Rows of a SPARQL endpoint. An answer that the server cuts is asked for in pages if the query has an ORDER BY."""
    shown, query = shown_source(source), query or EVERYTHING
    endpoint = Endpoint(_address(source), shown, options.most_gb)
    rows, tail, pages = Rows(shown, (), options.most_gb), 0, 0
    literals: list[pl.Series] = []
    notes: list[str] = []
    for page in endpoint.pages(query):
        if not pages:
            titles = page.batches[0].titles
            rows.titles, tail = titles, _tail(titles, options)
            notes += page.notes
            if _is_cut(query, page) and not _has_order(query):
                notes.append(_maybe_cut(shown, page, titles))
        pages += 1
        for batch in page.batches:
            rows.add(batch.texts)
            literals.append(batch.literals[tail])
    if pages > 1:
        notes.append(
            f"{shown} cuts its answers, so its rows were asked for in {pages:,} pages in the order of the query"
        )
        if any(part.select(pl.any_horizontal(pl.all().str.starts_with("_:").any())).item() for part in rows.parts):
            notes.append(
                "a blank node has a name that holds in its page only, so nodes of several pages may be mixed up"
            )
    return _without_literals(rows.sheet(notes), pl.concat(literals), tail)


@dataclass
class Endpoint:
    """A SPARQL endpoint that is asked for pages."""

    address: str
    shown: str
    most_gb: float
    accept: str = f"{TSV}, {JSON};q=0.9"
    size: int = 0

    def pages(self, query: str) -> Iterator[Page]:
        """The page of the query, and further pages if the server cuts it and the query puts its rows in order."""
        page = self.page(query)
        yield page
        step = total = len(page)
        if not _is_cut(query, page) or not _has_order(query):
            return
        while len(page) == step:
            page = self.page(f"{query}\nLIMIT {step} OFFSET {total}")
            total += len(page)
            yield page

    def page(self, query: str) -> Page:
        """What a query brings. If TSV is not what it should be, JSON is asked for."""
        try:
            return self._page(query)
        except WrongForm as wrong:
            if self.accept == JSON:
                raise self._wrong(wrong) from None
        self.accept = JSON
        try:
            return self._page(query)
        except WrongForm as wrong:
            raise self._wrong(wrong) from None

    def _page(self, query: str) -> Page:
        with ask(self.address, {"query": query}, self.accept) as reply:
            read = FORMS.get(reply.kind)
            if read is None:
                raise DuraError(
                    f"{self.shown} answers with {one_line(reply.kind)}, not with the rows of a query; is it the address of a "
                    "SPARQL endpoint, and is the query a SELECT?"
                )
            tail = _Last()
            page = Page(
                list(read(tail.seen(self._limited(reply)))), most_rows=_number(reply.headers["X-SPARQL-MaxRows"])
            )
            if read is read_tsv and tail.byte != b"\n":
                page.notes.append(f"the answer of {self.shown} ends within a line, so it may be cut")
            if reply.headers["X-SQL-State"] == "S1TAT":  # Virtuoso's way to say that its time was over
                page.notes.append(f"{self.shown} stopped at its time limit, so rows are missing; ask for less")
            return page

    def _limited(self, reply: Reply) -> Iterator[bytes]:
        """The body up to the ceiling, which holds for all pages together."""
        for part in reply.parts():
            self.size += len(part)
            if self.size > self.most_gb * 1e9:
                raise too_much(self.shown, self.most_gb)
            yield part

    def _wrong(self, wrong: WrongForm) -> DuraError:
        return DuraError(
            f"{self.shown} sends {one_line(str(wrong))!r}, which is not a row of a SPARQL result; the answer may be cut"
        )


@dataclass
class _Last:
    """The last byte that went by."""

    byte: bytes = b""

    def seen(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.byte = part[-1:]
            yield part


def _address(source: str) -> str:
    """The web address of a source. Without a mark, it must look like an endpoint: other addresses are files or pages."""
    scheme, _, rest = source.partition(":")
    if scheme.lower() == "sparql":
        return rest
    if urlsplit(source).path.rstrip("/").endswith("sparql"):
        return source
    raise BadInput(
        f"{shown_source(source)} is read only if it is a SPARQL endpoint: write sparql:{shown_source(source)}; "
        "if it is a file, download it and give its path"
    )


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else 0


def _modifiers(query: str) -> str:
    """What follows the outermost braces, where ORDER BY, LIMIT and OFFSET are."""
    return _NOISE.sub(" ", query).rpartition("}")[2]


def _has_order(query: str) -> bool:
    """True if the rows have an order and the query takes all of them, so that pages can be asked for."""
    modifiers = _modifiers(query)
    return bool(re.search(r"(?i)\border\s+by\b", modifiers)) and not re.search(r"(?i)\b(limit|offset)\b", modifiers)


def _is_cut(query: str, page: Page) -> bool:
    """True if the server probably has more rows than it sent: it says so, or their number is round."""
    limit, count = _LIMIT.search(_modifiers(query)), len(page)
    if count == 0 or (limit and count >= int(limit[1])):
        return False
    return count == page.most_rows or (count >= ROUND and (count % ROUND == 0 or count & (count - 1) == 0))


def _maybe_cut(shown: str, page: Page, titles: Iterable[str]) -> str:
    order = " ".join(f"?{title}" for title in titles)
    return (
        f"{shown} sent exactly {len(page):,} rows; many servers cut answers at such a number, so rows may be missing: "
        f"add ORDER BY {order} to the query (without LIMIT), and dura asks for all of them in pages"
    )


def _tail(titles: tuple[str, ...], options: ReadOptions) -> int:
    """The column of the tails: the chosen one, or the one that is named so, or the third."""
    last, chosen = len(titles) - 1, (options.chosen or ())[2:3]
    if chosen and isinstance(chosen[0], int):
        return min(chosen[0], last)  # a choice that does not fit is reported when the columns are looked for
    if chosen:
        return titles.index(chosen[0]) if chosen[0] in titles else last
    found = named(titles)
    return found.tail if found is not None else min(2, last)


def _without_literals(sheet: Sheet, literal: pl.Series, tail: int) -> Sheet:
    """Leave out rows whose tail is a literal, unless all are."""
    count = int(literal.sum())
    if count == 0 or count == len(sheet) - sheet.rows.to_series(tail).null_count():
        return sheet
    numbers = sheet.numbers
    assert numbers is not None, "a sheet numbers its rows"
    rows = "1 row was" if count == 1 else f"{count:,} rows were"
    note = f"{rows} left out, because the tail is a literal (a text, number or date) and not an entity"
    return Sheet(
        sheet.origin, sheet.rows.filter(~literal), sheet.titles, numbers.filter(~literal), notes=[*sheet.notes, note]
    )
