"""Explanation: why a model gives an answer, as values and as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dura.text import printable, with_label
from dura.types import Side

METHOD = "influence by gradients on the rows of head and tail"


@dataclass(frozen=True)
class StatedFact:
    """A fact by names, with the labels of its parts where they are not the names."""

    head: str
    relation: str
    tail: str
    time: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        own = {part: getattr(self, part) for part in ("head", "relation", "tail")}
        parts = [with_label(name, self.labels.get(part, name)) for part, name in own.items()]
        return printable(f"({', '.join([*parts, *([self.time] if self.time else [])])})", lines=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        own = {part: getattr(self, part) for part in ("head", "relation", "tail")}
        time = {} if self.time is None else {"time": self.time}
        return own | time | {f"{part}_label": label for part, label in self.labels.items()}


@dataclass(frozen=True)
class InfluentialFact:
    """A training fact and its effect: by how much the answer's log-probability is estimated to fall without it."""

    fact: StatedFact
    effect: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**self.fact.to_dict(), "effect": self.effect}


@dataclass(frozen=True)
class SimilarEntity:
    """An entity with the same answer in the training facts. `similarity` is the cosine of the two rows."""

    entity: str
    label: str
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class FiringRule:
    """A rule that leads to the answer: its text, how often its body holds (`times`) and how often it is right (`support`).

    `confidence` is support / (times + 5). `facts` has one list of training facts per way in which the body holds for this answer.
    """

    text: str
    support: int
    times: int
    confidence: float
    sampled: bool
    facts: tuple[tuple[StatedFact, ...], ...]

    def __str__(self) -> str:
        what = "sampled times" if self.sampled else "times"
        way = "; ".join(" and ".join(map(str, facts)) for facts in self.facts[:1])
        return (
            f"right {self.support:,} of {self.times:,} {what}: {printable(self.text, lines=False)}\n    because {way}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**vars(self), "facts": [[fact.to_dict() for fact in facts] for facts in self.facts]}


@dataclass(frozen=True)
class Explanation:
    """Why a model gives an answer.

    `side` says which entity is the answer. `facts` support the answer and `against` speak against it, strongest first. If the
    effects cannot be computed for the model, `no_facts` says why. `left_out` counts training facts that were not looked at,
    because an entity has too many. `similar` are entities that are near in embedding and have the same answer.
    """

    fact: StatedFact
    side: Side
    score: float
    rank: int
    known: bool
    facts: tuple[InfluentialFact, ...]
    against: tuple[InfluentialFact, ...]
    looked_at: int
    left_out: int
    similar: tuple[SimilarEntity, ...]
    rules: tuple[FiringRule, ...]
    no_facts: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        several = ("facts", "against", "similar", "rules")
        lists = {key: [one.to_dict() for one in getattr(self, key)] for key in several}
        return {**vars(self), **lists, "fact": self.fact.to_dict(), "method": METHOD}

    def __repr__(self) -> str:
        known = ", a known fact" if self.known else ""
        return "\n".join(
            [f"{self.fact}: rank {self.rank:,} as {self.side}, score {self.score:.3f}{known}", *self.reasons]
        )

    @property
    def reasons(self) -> list[str]:
        """The explanation as lines of text, without the fact itself."""
        lines: list[str] = []
        if self.no_facts:
            lines.append(f"  the influence of training facts is not known: {self.no_facts}")
        lines += _listed("training facts that it depends on", [f"{one.effect:+.3f}  {one.fact}" for one in self.facts])
        lines += _listed(
            "training facts that speak against it", [f"{one.effect:+.3f}  {one.fact}" for one in self.against]
        )
        near = [
            f"{one.similarity:.2f}  {printable(with_label(one.entity, one.label), lines=False)}" for one in self.similar
        ]
        lines += _listed("similar entities with the same answer", near)
        lines += _listed("rules that lead to it", [str(rule) for rule in self.rules])
        return lines or ["  no training fact, similar entity or rule supports it"]


def _listed(title: str, items: list[str]) -> list[str]:
    """A title with its items below it; items may have several lines."""
    return [f"  {title}:", *(f"    {line}" for item in items for line in item.split("\n"))] if items else []
