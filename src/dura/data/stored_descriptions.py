"""Stored descriptions: labels, types and descriptions in the files of run folders and stored graphs.

Each file has lines of a name, a tab and a text without tabs, so a name may hold tabs. The text of types is a JSON list. A file that
would be empty is not written, and programs that do not know a file ignore it. The folder may come from a stranger, so sizes are
bounded, and a name that the graph does not have is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from dura.data.descriptions import MOST_LABEL, MOST_TEXT, MOST_TYPE, MOST_TYPES, Descriptions, tidy
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.records import Damage, read_pairs, write_atomic
from dura.text import parse_json, shown

FILES = {
    "entity": ("labels.tsv", "types.tsv", "descriptions.tsv"),
    "relation": ("relation-labels.tsv", "relation-types.tsv", "relation-descriptions.tsv"),
}
"""The files of labels, types and descriptions."""
PIECE = 1 << 16
"""How many lines become text at a time."""


def write_descriptions(folder: Path, graph: Graph) -> None:
    """Write what the graph has. Texts are for people, so white space in them becomes a blank. Names stay as they are."""
    both = (("entity", graph.about_entities, graph.entities), ("relation", graph.about_relations, graph.relations))
    for kind, every, names in both:
        about, _ = every.only(names)
        labels, types, descriptions = (folder / name for name in FILES[kind])
        _write(labels, {name: tidy(label, MOST_LABEL) for name, label in about.labels.items()})
        _write(types, {name: _json(kinds) for name, kinds in about.types.items()})
        _write(descriptions, {name: tidy(text, MOST_TEXT) for name, text in about.descriptions.items()})


def _json(types: tuple[str, ...]) -> str:
    return json.dumps([tidy(each, MOST_TYPE) for each in types[:MOST_TYPES]], ensure_ascii=False)


def _write(path: Path, texts: Mapping[str, str]) -> None:
    if texts:
        write_atomic(path, _pieces(texts.items()))


def _pieces(pairs: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    lines = (f"{name}\t{text}\n" for name, text in pairs)
    while piece := "".join(islice(lines, PIECE)):
        yield piece.encode()


def read_descriptions(folder: Path, graph: Graph) -> Graph:
    """The graph with what the folder says about its entities and relations."""
    return graph.described(_read(folder, graph.entities, "entity"), _read(folder, graph.relations, "relation"))


def _read(folder: Path, names: Vocabulary, kind: str) -> Descriptions:
    labels, types, descriptions = FILES[kind]
    return Descriptions(
        _pairs(folder, labels, names, kind),
        _types(folder / types, _pairs(folder, types, names, kind)),
        _pairs(folder, descriptions, names, kind),
    )


def _pairs(folder: Path, file: str, names: Vocabulary, kind: str) -> dict[str, str]:
    pairs = read_pairs(folder, file, len(names))
    if strange := names.strangers(pairs):
        article = "an entity" if kind == "entity" else "a relation"
        raise Damage(f"{folder / file} is damaged: {shown(strange[0])} is not {article} of the graph")
    return pairs


def _types(path: Path, lists: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The types in JSON lists. Few lists are those of many names, so each is parsed once."""
    parsed = {text: _list(path, text) for text in set(lists.values())}
    return {name: parsed[text] for name, text in lists.items()}


def _list(path: Path, text: str) -> tuple[str, ...]:
    try:
        found = parse_json(text.encode())
    except ValueError as error:
        raise Damage(f"{path} is damaged: the types {shown(text)} cannot be read: {error}") from None
    if not isinstance(found, list) or len(found) > MOST_TYPES or not all(isinstance(each, str) for each in found):
        raise Damage(f"{path} is damaged: the types {shown(text)} are not a list of at most {MOST_TYPES} texts")
    return tuple(found)
