"""Describing: files and columns that say what entities and relations are called, of which types they are, and what they are.

A file `entities` or `relations` has a header that names its columns (TITLES), or no header and two to four columns in the order of
ASPECTS: name, label, type, description. Several types are separated by ; or |. A name may have several lines: its types are put
together, and the first label and description count. Facts may have such columns too (`described_columns`, `from_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from dura.data.descriptions import MOST_LABEL, MOST_TEXT, MOST_TYPE, MOST_TYPES, Descriptions
from dura.data.graph import Graph
from dura.data.readers import ReadOptions, read_sheet
from dura.data.sheet import BadLines, Sheet, wrong_width
from dura.data.vocabulary import Vocabulary
from dura.text import shown
from dura.types import BadInput

Kind = Literal["entity", "relation"]
Aspect = Literal["label", "type", "description"]
Role = Literal["head", "relation", "tail"]
ASPECTS = ("name", "label", "type", "description")
TITLES: dict[str, tuple[str, ...]] = {
    "name": (
        "entity",
        "relation",
        "predicate",
        "property",
        "entityid",
        "relationid",
        "id",
        ":id",
        "iri",
        "uri",
        "name",
    ),
    "label": ("label", "title", "preflabel", "rdfs:label", "name"),
    "type": ("type", "types", "class", "classes", ":label", "category", "rdf:type"),
    "description": ("description", "text", "comment", "definition", "rdfs:comment"),
}
"""The titles of each aspect in a header, the surest first, in any case and without blanks, - and _. So of `id` and `name`, `id`
holds names and `name` labels; a `name` alone holds names. `:ID` and `:LABEL` are those of Neo4j, where a label is a type."""
ROLES: dict[Role, tuple[str, ...]] = {
    "head": ("head", "subject", "source", "from", "start", "h", "s"),
    "relation": ("relation", "predicate", "property", "edge", "r", "p"),
    "tail": ("tail", "object", "target", "to", "end", "t", "o"),
}
"""How the title of a column of facts that describes a head, a relation or a tail begins."""
_ENDS: dict[Aspect, tuple[str, ...]] = {
    "label": ("label", "title"),
    "type": ("type", "types", "class"),
    "description": ("description", "text", "comment"),
}
_BLANKS = r"[\s\x1c-\x1f]+"
MANY = {"entity": "entities", "relation": "relations"}
USUAL = 0.1
"""At least this share of the lines of a file without a header has a column, or else the column is a mistake in few lines."""


@dataclass(frozen=True)
class Described:
    """Descriptions that were read, what the user should know, and what is probably not as the user wants it."""

    about: Descriptions = field(default_factory=Descriptions)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def describe(sheet: Sheet, kind: Kind, *, skip_bad: bool = False) -> Described:
    """The descriptions in the rows of a file or frame. Bad rows are an error that lists them, unless they are skipped."""
    bad = sheet.bad
    assert bad is not None
    if not len(sheet):
        bad.stop(skip_bad)
        return Described(warnings=[f"{Path(sheet.origin).name} is empty, so it describes no {kind}"])
    header = sheet.titles or _header(sheet, kind)
    places = _places(header, kind) if header is not None else _in_order(sheet)
    if "name" not in places or len(places) < 2:
        return _useless(sheet, header, kind)
    frame = _clean(sheet, places, bad, header is not None)
    bad.stop(skip_bad)
    return _told(sheet, frame, kind, places, header)


def _told(
    sheet: Sheet, frame: pl.DataFrame, kind: Kind, places: Mapping[str, int], header: tuple[str, ...] | None
) -> Described:
    """The descriptions of clean rows, with what the user should know about them."""
    origin, bad = Path(sheet.origin).name, sheet.bad
    notes = [*sheet.notes, *([_used(origin, places, header)] if header is not None or len(places) > 2 else [])]
    if bad is not None and bad.total:
        notes.append(f"{origin}: {_count(bad.total, 'bad line')} skipped, first {bad.first[0]}")
    warnings = []
    if header is None and _numbered(frame):
        frame = frame.with_columns(label=pl.lit(""))
        warnings = [f"{origin}: the second column holds numbers, as in a list of ids, so they are not used as labels"]
    return Described(_collect(frame, origin, kind, notes), notes, warnings)


def _useless(sheet: Sheet, header: tuple[str, ...] | None, kind: Kind) -> Described:
    """What is said of a file without descriptions. A list of names is common, so it is no error."""
    if sheet.widest == 1:
        origin = Path(sheet.origin).name
        return Described(warnings=[f"{origin} has one column, so it describes no {kind}; add a column with labels"])
    wanted = f"a header with the columns {kind}, label, type and description"
    if header is None:
        raise BadInput(
            f"{sheet.origin} has {sheet.width} columns, but it is not known what they hold; give it {wanted}"
        )
    has = ", ".join(shown(title) for title in header[:10])
    raise BadInput(f"{sheet.origin} has the columns {has}, which do not describe {MANY[kind]}; give it {wanted}")


def _plain(title: str) -> str:
    """A title in a form for comparisons. `personId:ID(Person)` and `name:string` are those of Neo4j."""
    text = re.sub(r"[\s_-]", "", title).casefold()
    if found := re.fullmatch(r".*(:id|:label)(\(.*\))?", text):
        return text if text == "rdfs:label" else found[1]
    return re.sub(r":(string|int|long|float|double|boolean)(\[\])?$", "", text)


def _places(titles: tuple[str, ...], kind: Kind) -> dict[str, int]:
    """The columns that a header names: aspect -> position."""
    plain = [_plain(title) for title in titles]
    places: dict[str, int] = {}
    for aspect, known in TITLES.items():
        # The file of entities may have a column "relation" for something else.
        sure = [kind, *(title for title in known if title not in MANY)] if aspect == "name" else known
        found = next((plain.index(title) for title in sure if title in plain), None)
        if found is not None and found not in places.values():
            places[aspect] = found
    return places


def _header(sheet: Sheet, kind: Kind) -> tuple[str, ...] | None:
    """The first row, if it names a column of names and one that describes them."""
    first = tuple(sheet.first())
    places = _places(first, kind)
    return first if "name" in places and len(places) > 1 else None


def _in_order(sheet: Sheet) -> dict[str, int]:
    """The columns of a file without a header. A column that few lines have is there by mistake, so these lines are bad."""
    widths = _widths(sheet)
    counts = dict(widths.value_counts().iter_rows())
    usual = max((width for width, count in counts.items() if count >= USUAL * len(sheet)), default=0)
    return dict(zip(ASPECTS, range(usual), strict=False)) if 2 <= usual <= len(ASPECTS) else {}


def _widths(sheet: Sheet) -> pl.Series:
    """How many fields each row has. More than one too many does not matter."""
    fields = sheet.take(range(min(sheet.widest, 1 + len(ASPECTS))))
    there = (pl.when(pl.col(name).is_not_null()).then(at + 1).otherwise(0) for at, name in enumerate(fields.columns))
    return fields.select(pl.max_horizontal(there)).to_series().alias("width")


def _clean(sheet: Sheet, places: Mapping[str, int], bad: BadLines, header: bool) -> pl.DataFrame:
    """The columns line, name, label, type and description of good rows. What is missing is "". Names stay as they are."""
    assert sheet.numbers is not None
    fields = sheet.take(list(places.values()))
    parts = [fields.to_series(at).alias(aspect) for at, aspect in enumerate(places)]
    frame = pl.DataFrame([sheet.numbers.alias("line"), *parts])
    if not header:
        frame = frame.with_columns(_widths(sheet))
    frame = frame.with_columns(
        pl.lit("", dtype=pl.String).alias(aspect) for aspect in ASPECTS if aspect not in places
    ).with_columns(pl.col(ASPECTS).fill_null(""))
    frame = frame.slice(1 if header and sheet.titles is None else 0)
    frame = frame.filter(pl.any_horizontal(pl.col(ASPECTS) != ""))
    reasons = [pl.when(pl.col("name") == "").then(pl.lit("the name is empty"))]
    if not header:
        misfit = (pl.col("width") > len(places)) | (pl.col("width") < 2)
        wanted = " to ".join(map(str, sorted({2, len(places)})))
        reasons.insert(0, pl.when(misfit).then(wrong_width(pl.col("width"), wanted)))
    frame = frame.with_columns(pl.coalesce(reasons).alias("reason"))
    wrong = frame.filter(pl.col("reason").is_not_null())
    bad.add(wrong["line"], wrong["reason"])
    return frame.filter(pl.col("reason").is_null()).with_columns(_tidy(aspect) for aspect in ASPECTS[1:])


def _tidy(column: str) -> pl.Expr:
    return pl.col(column).fill_null("").str.replace_all(_BLANKS, " ").str.strip_chars(" ")


def _numbered(frame: pl.DataFrame) -> bool:
    """Whether the labels are a list of ids: different whole numbers from 0 or 1 on."""
    labels = frame["label"].str.to_integer(strict=False)
    if len(frame) < 2 or labels.null_count() or labels.n_unique() < len(labels):
        return False
    first, last = int(labels.min()), int(labels.max())  # type: ignore[arg-type]
    return first in (0, 1) and last - first + 1 == len(labels)


def _collect(frame: pl.DataFrame, origin: str, kind: Kind, notes: list[str]) -> Descriptions:
    """Descriptions by name, from rows of tidy text. The first label and description of a name count, and all of its types."""
    labels = frame.filter(pl.col("label") != "").unique(["name", "label"], maintain_order=True)
    if several := labels.filter(pl.col("name").is_duplicated())["name"].n_unique():
        names = "1 name has" if several == 1 else f"{several:,} names have"
        notes.append(f"{origin}: {names} several labels; the first one of each is used")
    texts = frame.filter(pl.col("description") != "")
    found = Descriptions(
        _first(labels, "label", MOST_LABEL, origin, notes),
        _types(frame, origin, notes),
        _first(texts, "description", MOST_TEXT, origin, notes),
    )
    if found.shared:
        notes.append(f"{origin}: {_count(found.shared, 'label')} shared by several {MANY[kind]}; ask for these by name")
    return found


def _first(frame: pl.DataFrame, column: str, most: int, origin: str, notes: list[str]) -> dict[str, str]:
    frame = frame.unique("name", keep="first", maintain_order=True)
    if long := int((frame[column].str.len_chars() > most).sum()):
        notes.append(f"{origin}: {_count(long, column)} longer than {most:,} characters, cut there")
    return dict(zip(frame["name"].to_list(), frame[column].str.head(most).to_list(), strict=True))


def _types(frame: pl.DataFrame, origin: str, notes: list[str]) -> dict[str, tuple[str, ...]]:
    """The types of each name, each once, in the order of the rows."""
    rows = frame.filter(pl.col("type") != "")
    parsed = {text: _split(text) for text in rows["type"].unique().to_list()}  # few texts are those of many names
    found: dict[str, tuple[str, ...]] = {}
    for name, text in zip(rows["name"].to_list(), rows["type"].to_list(), strict=True):
        types = parsed[text]
        before = found.setdefault(name, types)
        if before is not types:
            found[name] = tuple(dict.fromkeys((*before, *types)))[: MOST_TYPES + 1]
    found = {name: types for name, types in found.items() if types}
    if many := [name for name, types in found.items() if len(types) > MOST_TYPES]:
        names = "1 name has" if len(many) == 1 else f"{len(many):,} names have"
        notes.append(f"{origin}: {names} more than {MOST_TYPES} types; the first {MOST_TYPES} are used")
        found |= {name: found[name][:MOST_TYPES] for name in many}
    return found


def _split(text: str) -> tuple[str, ...]:
    parts = (part.strip()[:MOST_TYPE] for part in text.replace("|", ";").split(";"))
    return tuple(dict.fromkeys(part for part in parts if part))[: MOST_TYPES + 1]


def _used(origin: str, places: Mapping[str, int], header: tuple[str, ...] | None) -> str:
    """Which column is used for what."""
    if header is None:
        return f"{origin}: its columns are {', '.join(places)}"
    used = ", ".join(f"{shown(header[at])} is the {aspect}" for aspect, at in places.items())
    rest = [shown(title) for at, title in enumerate(header) if at not in places.values()]
    return f"{origin}: {used}" + (f"; not used: {', '.join(rest[:10])}" if rest else "")


def _count(count: int, one: str) -> str:
    return f"{count:,} {one} is" if count == 1 else f"{count:,} {one}s are"


# -- columns of facts -------------------------------------------------------------------------------------------------


def described_columns(titles: tuple[str, ...]) -> dict[tuple[Role, Aspect], int]:
    """The columns of a file of facts that describe its heads, relations and tails, such as head_label or "object label".

    There is no type of a relation here: `edge_type` and `relation_type` are the usual titles of the relation itself. The columns
    describe only if head, relation and tail are in other columns, which the caller must know.

    >>> described_columns(("head", "headLabel", "relation", "tail", "target_type"))
    {('head', 'label'): 1, ('tail', 'type'): 4}
    """
    found: dict[tuple[Role, Aspect], int] = {}
    for at, title in enumerate(titles):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title).casefold()
        parts = re.split(r"[\s_.:-]+", words.strip())
        if len(parts) != 2:
            continue
        role = next((role for role, known in ROLES.items() if parts[0] in known), None)
        aspect = next((aspect for aspect, known in _ENDS.items() if parts[1] in known), None)
        if role is not None and aspect is not None and (role, aspect) != ("relation", "type"):
            found.setdefault((role, aspect), at)
    return found


def from_columns(
    origin: str, names: Mapping[Role, pl.Series], columns: Mapping[tuple[Role, Aspect], pl.Series]
) -> tuple[Described, Described]:
    """The descriptions of entities and of relations in columns of facts; `names` are their heads, relations and tails."""
    entities = pl.concat([_beside(names["head"], "head", columns), _beside(names["tail"], "tail", columns)])
    relations = _beside(names["relation"], "relation", columns)
    return _of_rows(entities, origin, "entity"), _of_rows(relations, origin, "relation")


def _of_rows(frame: pl.DataFrame, origin: str, kind: Kind) -> Described:
    notes: list[str] = []
    clean = frame.unique(maintain_order=True).with_columns(_tidy(aspect) for aspect in ASPECTS[1:])
    return Described(_collect(clean, origin, kind, notes), notes)


def _beside(names: pl.Series, role: Role, columns: Mapping[tuple[Role, Aspect], pl.Series]) -> pl.DataFrame:
    frame = pl.DataFrame({"name": names}).with_columns(pl.lit("").alias(aspect) for aspect in ASPECTS[1:])
    own = [column.cast(pl.String).alias(aspect) for (of, aspect), column in columns.items() if of == role]
    return frame.with_columns(own)


# -- files ------------------------------------------------------------------------------------------------------------


def read_descriptions(path: Path, options: ReadOptions, kind: Kind) -> Described:
    """The descriptions in a file of any format in READERS. Columns are recognised; the options of facts do not hold for it."""
    own = ReadOptions(skip_bad=options.skip_bad, most_gb=options.most_gb)
    return describe(read_sheet(path, own), kind, skip_bad=options.skip_bad)


def with_files(graph: Graph, files: Mapping[str, Path], options: ReadOptions) -> tuple[Graph, list[str], list[str]]:
    """The graph with the descriptions in its files `entities` and `relations`, with notes and warnings.

    A file that the options name counts instead of the one in the folder. Names that the graph does not have are left out.
    """
    notes, warnings = list[str](), list[str]()

    def described(kind: Kind, given: str | Path | None, names: Vocabulary, before: Descriptions) -> Descriptions:
        path = Path(given) if given else files.get(MANY[kind])
        if path is None:
            return before
        read = read_descriptions(path, options, kind)
        own, strange = read.about.only(names)
        notes.extend(read.notes)
        warnings.extend(read.warnings)
        if strange and not own:
            warnings.append(f"{path.name}: none of its {strange:,} names is in the graph, so it describes nothing")
        elif strange:
            notes.append(f"{path.name}: {_count(strange, 'name')} not in the graph and left out")
        return own.over(before)

    entities = described("entity", options.entities, graph.entities, graph.about_entities)
    relations = described("relation", options.relations, graph.relations, graph.about_relations)
    return graph.described(entities, relations), notes, warnings
