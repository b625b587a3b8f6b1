"""Exploring: what can be looked up about a trained model and its graph: names, facts, suggestions, times and decisions.

`Trained` has these methods. The service, the MCP server and the command line call them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dura.config import Experiment
from dura.data.graph import Graph
from dura.types import BadInput, IntArray

if TYPE_CHECKING:
    from dura.data.entity_facts import FactsOf
    from dura.data.reviews import Decision
    from dura.data.search import Match, NameSearch
    from dura.inference import Calibration
    from dura.inference.suggest import Suggestions
    from dura.inference.when import Strip
    from dura.models import Model
    from dura.runs.reviews import Reviewed


@dataclass(frozen=True)
class FoundEntity:
    """An entity that a search found. `facts` counts those of all splits; `match` says how it was found."""

    entity: str
    label: str
    types: tuple[str, ...]
    facts: int
    match: Match

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**vars(self), "types": list(self.types)}


@dataclass(frozen=True)
class ListedRelation:
    """A relation of the graph. `facts` counts those of all splits."""

    relation: str
    label: str
    facts: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dict(vars(self))


class Exploring:
    """The part of `Trained` that looks things up."""

    model: Model
    graph: Graph
    experiment: Experiment
    path: Path | None
    checkpoint: str
    reviews_seal: tuple[int, int, int] | None = None
    """Which decisions of people the graph holds; see `dura.runs.reviews.renew`."""

    @cached_property
    def calibration(self) -> Calibration | None:
        """What turns scores into probabilities. None before `calibrate`, and after more training."""
        if self.path is None or not (self.path / "calibration.json").exists():
            return None
        from dura.runs.calibrations import read_calibration

        return read_calibration(self.path, self.checkpoint)

    def describe(self) -> dict[str, Any]:
        """The model, its graph, and how its tables are stored in memory, as plain values."""
        from dura.runs.about import describe

        return describe(self)

    def about(self) -> dict[str, Any]:
        """As `describe`, with the numbers of facts, the newest results, all settings, the decisions of people and all times."""
        from dura.runs.about import about

        return about(self)

    @cached_property
    def _counts(self) -> tuple[IntArray, IntArray]:
        from dura.data.entity_facts import fact_counts

        return fact_counts(self.graph)

    @cached_property
    def _names(self) -> NameSearch:
        from dura.data.search import NameSearch

        return NameSearch(self.graph.entities, self.graph.labels, self._counts[0])

    def prepare(self) -> None:
        """Make what the first question and the first search need, so that nobody waits for it."""
        self._names.prepare()
        _ = self.graph.known, self.calibration

    def find_entities(self, query: str = "", limit: int = 10) -> list[FoundEntity]:
        """The entities whose name or label fits a text: exactly, at the beginning, by words, or nearly; without a text the
        entities with most facts.

        >>> model.find_entities("berl", limit=3)  # doctest: +SKIP
        """  # fmt: skip
        if limit < 1:
            raise BadInput(f"limit is {limit}, but it must be at least 1")
        hits = self._names.find(query, limit)
        names = self.graph.entities.names(np.array([hit.entity for hit in hits], dtype=np.int64))
        label, types, counts = self.graph.label, self.graph.types, self._counts[0]
        return [
            FoundEntity(name, label(name), types(name), int(counts[hit.entity]), hit.match)
            for name, hit in zip(names, hits, strict=True)
        ]

    def relations(self) -> list[ListedRelation]:
        """All relations of the graph, by name."""
        both = zip(self.graph.relations, self._counts[1].tolist(), strict=True)
        return [ListedRelation(name, self.graph.relation_label(name), count) for name, count in both]

    def facts_of(self, entity: str, relation: str | None = None, *, offset: int = 0, limit: int = 100) -> FactsOf:
        """The facts of an entity in all splits, with what is known about the entity: `limit` facts from `offset`."""
        from dura.data.entity_facts import facts_of

        if offset < 0 or limit < 1:
            raise BadInput(f"offset is {offset} and limit is {limit}, but they must be at least 0 and 1")
        return facts_of(self.graph, entity, relation, offset, limit)

    def suggest(self, entity: str, k: int = 3, *, time: str | None = None, limit: int = 20) -> Suggestions:
        """The best missing facts of one entity: `k` answers each for at most `limit` relations and sides, best first.

        Relations are those that the entity has, or that similar entities have. What people rejected is left out.

        >>> model.suggest("Berlin")  # doctest: +SKIP
        """
        from dura.inference import Wanted
        from dura.inference.predict import Asker
        from dura.inference.suggest import suggest

        if limit < 1:
            raise BadInput(f"limit is {limit}, but it must be at least 1")
        return suggest(Asker(self.model, self.graph, Wanted(k), self.calibration), entity, time, limit)

    def times_of(self, head: str, relation: str, tail: str) -> Strip:
        """A fact at every time of the graph, in the order of time: its score, its share, and whether it is known then."""
        from dura.inference.when import strip

        return strip(self.model, self.graph, head, relation, tail)

    def review(self, file: str | Path, *, change: bool = False) -> Reviewed:
        """Take in what people decided about suggestions (accept or reject). From then on they are not suggested again."""
        from dura.runs.reviews import review_run

        return review_run(self, file, change=change)

    def decide(self, decisions: Sequence[Decision], *, change: bool = False) -> Reviewed:
        """As `review`, with decisions instead of a file of them."""
        from dura.runs.reviews import decide

        return decide(self, decisions, change=change)

    @property
    def writable(self) -> bool:
        """Whether decisions can be stored: there is a run folder, and this process may write to it."""
        return self.path is not None and os.access(self.path, os.W_OK)

    def decisions(self) -> list[Decision]:
        """What people decided about facts of this run, each fact once."""
        from dura.runs.reviews import decisions

        return decisions(self)

    def renew(self) -> None:
        """Take in decisions that another process has written since."""
        from dura.runs.reviews import renew

        renew(self)
