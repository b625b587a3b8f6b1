"""Found: what a source brings, sheets of facts and what it says about entities and relations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import polars as pl

from dura.data.descriptions import MOST_LABEL, MOST_TEXT, MOST_TYPE, MOST_TYPES, Descriptions, tidy
from dura.data.sheet import Sheet
from dura.types import Split

FACT_TITLES = ("head", "relation", "tail")
"""The titles of a sheet whose source says which column is which."""


@dataclass
class About:
    """Labels, types and descriptions by name, while a source is read."""

    labels: dict[str, str] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.labels or self.types or self.descriptions)

    def add(self, name: str, label: str | None, types: Iterable[str], description: str | None) -> None:
        """Add what is known about a name. What was known before stays."""
        if label:
            self.labels.setdefault(name, label)
        if kinds := tuple(dict.fromkeys(kind for kind in types if kind)):
            self.types[name] = tuple(dict.fromkeys((*self.types.get(name, ()), *kinds)))[:MOST_TYPES]
        if description:
            self.descriptions.setdefault(name, description)

    def finished(self) -> Descriptions:
        """The same, on one line each and cut to a sensible length."""
        return Descriptions(
            {name: tidy(label, MOST_LABEL) for name, label in self.labels.items()},
            {name: tuple(tidy(kind, MOST_TYPE) for kind in kinds) for name, kinds in self.types.items()},
            {name: tidy(text, MOST_TEXT) for name, text in self.descriptions.items()},
        )


@dataclass
class Described(Sheet):
    """A sheet whose source also describes entities and relations."""

    entities: About = field(default_factory=About)
    relations: About = field(default_factory=About)


@dataclass
class Found:
    """The sheets of a folder by split, what it says about entities and relations, and notes about the whole folder."""

    sheets: dict[Split, Sheet]
    entities: About = field(default_factory=About)
    relations: About = field(default_factory=About)
    notes: list[str] = field(default_factory=list)


def fact_rows(head: pl.Series, relation: pl.Series, tail: pl.Series) -> pl.DataFrame:
    """Rows with the titles of a fact."""
    return pl.DataFrame(
        [column.alias(title) for title, column in zip(FACT_TITLES, (head, relation, tail), strict=True)]
    )
