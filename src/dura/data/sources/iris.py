"""IRIs: names of RDF for people. IRIs are shortened with prefixes, literals become labels and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dura.data.sources.found import About

RDF, RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"
SKOS, FOAF, SCHEMA = "http://www.w3.org/2004/02/skos/core#", "http://xmlns.com/foaf/0.1/", "http://schema.org/"
PREFIXES = {
    "rdf": RDF,
    "rdfs": RDFS,
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": SKOS,
    "foaf": FOAF,
    "schema": SCHEMA,
    "dbr": "http://dbpedia.org/resource/",
    "dbo": "http://dbpedia.org/ontology/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}
"""Prefixes that everybody knows. Those of the file come first."""
TYPE = f"{RDF}type"
LABELS = (f"{RDFS}label", f"{SKOS}prefLabel", f"{SCHEMA}name", "https://schema.org/name", f"{FOAF}name")
DESCRIPTIONS = (f"{RDFS}comment", f"{SCHEMA}description", "https://schema.org/description", f"{SKOS}definition")


class Texts:
    """The best literal per name. A better property comes first, then English, then no language, then any other language."""

    def __init__(self, properties: Iterable[str], most: int) -> None:
        self.most = most
        self.grades = {relation: 3 * place for place, relation in enumerate(properties)}
        self.best: dict[str, tuple[int, str]] = {}

    def add(self, name: str, relation: str, text: str, language: str | None) -> int:
        """Keep a literal if it is the best so far. Returns how many characters are kept."""
        english = language is not None and language.lower().partition("-")[0] == "en"
        grade = self.grades[relation] + (0 if english else 1 if language is None else 2)
        if name not in self.best or grade < self.best[name][0]:
            self.best[name] = grade, text[: self.most]
            return min(len(text), self.most)
        return 0

    def of(self, names: set[str]) -> dict[str, str]:
        """The texts of these names."""
        return {name: text for name, (_, text) in self.best.items() if name in names and text}


def shorten(names: Iterable[str], prefixes: Mapping[str, str]) -> dict[str, str]:
    """IRI -> prefix and local name, for the IRIs that begin with a known prefix.

    >>> shorten(["http://schema.org/name", "http://example.org/x"], {"": "http://example.org/"})
    {'http://schema.org/name': 'schema:name', 'http://example.org/x': ':x'}
    """
    by_start: dict[str, str] = {}
    for prefix, start in [*prefixes.items(), *PREFIXES.items()]:
        if start:
            by_start.setdefault(start, prefix)
    found = {}
    for name in names:
        cut = max(name.rfind("#"), name.rfind("/")) + 1
        start = name[:cut]
        if start not in by_start:
            start = (
                max((one for one in by_start if name.startswith(one)), key=len, default="")
                if len(by_start) < 100
                else ""
            )
        if start and len(name) > len(start):
            found[name] = f"{by_start[start]}:{name[len(start) :]}"
    return found


def about(names: set[str], labels: Texts, descriptions: Texts, prefixes: Mapping[str, str]) -> About:
    """What is known about these names; a shortened IRI is the label of a name that has no other."""
    return About(shorten(names, prefixes) | labels.of(names), {}, descriptions.of(names))
