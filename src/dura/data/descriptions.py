"""Descriptions: what people call entities and relations, of which types they are, and what they are.

A label is accepted wherever a name is. `find` decides what is meant: an exact name, else an exact label, else a label in another
case. Nothing here depends on facts, so descriptions change neither a graph's digest nor its results.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice

from dura.data.vocabulary import Vocabulary
from dura.text import shown
from dura.types import BadInput

LISTED = 10
"""How many names with the same label a message lists."""
NEAR = 3
"""How many similar names or labels a message suggests."""
MOST_LABEL, MOST_TYPE, MOST_TEXT = 1_000, 150, 10_000
"""The most characters of a label, a type and a description. Longer ones are cut."""
MOST_TYPES = 100
"""How many types a name may have. Others are left out."""


@dataclass(frozen=True)
class Descriptions:
    """Labels, types and descriptions of entities or of relations, by name. A name may lack any of them.

    >>> about = Descriptions({"Q64": "Berlin"}, {"Q64": ("city", "capital")})
    >>> about.label("Q64"), about.shown("Q64"), about.label("Q1"), about.called("berlin")
    ('Berlin', 'Q64 (Berlin)', 'Q1', ['Q64'])
    """

    labels: dict[str, str] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.labels or self.types or self.descriptions)

    def label(self, name: str) -> str:
        """The label, or the name itself."""
        return self.labels.get(name, name)

    def shown(self, name: str) -> str:
        """The name, with its label in parentheses if it has another one."""
        label = self.labels.get(name, name)
        return name if label == name else f"{name} ({label})"

    def called(self, label: str) -> list[str]:
        """The names with this label; if there is none, the names with this label in another case or with other blanks."""
        return self._exact.names(label) or self._folded.names(folded(label))

    @cached_property
    def _exact(self) -> _Index:
        return _Index(self.labels.items())

    @cached_property
    def _folded(self) -> _Index:
        return _Index((name, folded(label)) for name, label in self.labels.items())

    @cached_property
    def _spellings(self) -> Vocabulary:
        return Vocabulary({tidy(label, MOST_LABEL) for label in self.labels.values()})

    def similar(self, given: str) -> list[str]:
        """Labels that look like the given one."""
        return self._spellings.suggest(given, NEAR) if self.labels else []

    @property
    def shared(self) -> int:
        """How many labels several names have."""
        return len(self._exact.more)

    def over(self, others: Descriptions) -> Descriptions:
        """These descriptions, and the others where there is none here."""
        return Descriptions(
            others.labels | self.labels, others.types | self.types, others.descriptions | self.descriptions
        )

    def only(self, names: Vocabulary) -> tuple[Descriptions, int]:
        """The descriptions of these names, and how many other names are described."""
        every = {*self.labels, *self.types, *self.descriptions}
        strange = set(names.strangers(every))
        if not strange:
            return self, 0
        kept = ({key: part[key] for key in part if key not in strange} for part in (self.labels, self.descriptions))
        labels, descriptions = kept
        types = {name: types for name, types in self.types.items() if name not in strange}
        return Descriptions(labels, types, descriptions), len(strange)

    def about(self, name: str) -> str:
        """A name for a list, with its types and the beginning of its description."""
        types, text = ", ".join(self.types.get(name, ())), self.descriptions.get(name, "")
        more = "; ".join(shown(part)[1:-1] for part in (types, text) if part)
        return f"{shown(name)} ({more})" if more else shown(name)


class _Index:
    """Label -> names. Most labels have one name, so a list is made only for the others."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.first: dict[str, str] = {}
        self.more: dict[str, list[str]] = {}
        for name, label in pairs:
            if self.first.setdefault(label, name) != name:
                self.more.setdefault(label, []).append(name)

    def names(self, label: str) -> list[str]:
        return [self.first[label], *self.more.get(label, ())] if label in self.first else []


def folded(label: str) -> str:
    """A label in a form that is the same for all cases, blanks and spellings of accents.

    >>> folded(" Zu\\u0308rich  HB") == folded("Z\\u00fcrich hb")
    True
    """
    return unicodedata.normalize("NFC", " ".join(label.split())).casefold()


def tidy(text: str, most: int) -> str:
    """A text on one line, without blanks at its ends, and cut if it is very long."""
    return " ".join(text.split())[:most]


def of_mappings(
    labels: Mapping[str, str] | None = None, types: Mapping[str, str | Iterable[str]] | None = None
) -> Descriptions:
    """Descriptions from mappings of a caller. A type may be given as text, several as a list.

    >>> of_mappings({"a": " Anna "}, {"a": "person", "b": ["city", "capital"]}).types
    {'a': ('person',), 'b': ('city', 'capital')}
    """
    for what, given in (("labels", labels), ("types", types)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInput(f"{what} must be a mapping of names, such as {{'Q64': 'Berlin'}}, not {shown(given)}")
    kinds: dict[str, tuple[str, ...]] = {}
    for name, given_types in (types or {}).items():
        found = (given_types,) if isinstance(given_types, str) else tuple(given_types)
        kinds[name] = tuple(dict.fromkeys(tidy(_text(each, "type"), MOST_TYPE) for each in found))[:MOST_TYPES]
    return Descriptions(
        {name: tidy(_text(label, "label"), MOST_LABEL) for name, label in (labels or {}).items()}, kinds
    )


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"a {what} must be text that is not empty, not {shown(value)}")
    return value.encode(errors="replace").decode()  # half of a surrogate pair cannot be stored


def find(names: Vocabulary, about: Descriptions, given: str, kind: str) -> int:
    """The id of what a user calls `given`: a name, or else a label. The error for an unknown one suggests similar ones."""
    if not about.labels or given in names:
        return names.id(given, kind)
    called = about.called(given)
    if len(called) == 1:
        return names.id(called[0], kind)
    if called:
        more = f"\n  and {len(called) - LISTED:,} more" if len(called) > LISTED else ""
        listed = "\n  ".join(about.about(name) for name in islice(called, LISTED))
        many = {"entity": "entities"}.get(kind, f"{kind}s")
        raise BadInput(
            f"the label {shown(given)} is that of {len(called):,} {many}; give one of their names:\n  {listed}{more}"
        )
    near = _near(names, about, given)
    raise BadInput(
        f"the {kind} {given!r} is not in this graph" + (f"; did you mean {', '.join(near)}?" if near else "")
    )


def _near(names: Vocabulary, about: Descriptions, given: str) -> list[str]:
    """The names and labels that look most like the given text, as a message shows them: each with the other in parentheses."""
    texts = {text: about.labels.get(text, text) for text in names.suggest(given, NEAR)}
    for label in about.similar(given):
        called = about.called(label)
        texts.setdefault(label, called[0] if len(called) == 1 else label)
    near = sorted(texts, key=lambda text: -SequenceMatcher(None, folded(given), folded(text)).ratio())
    return [repr(text) if texts[text] == text else f"{text!r} ({shown(texts[text])[1:-1]})" for text in near[:NEAR]]
