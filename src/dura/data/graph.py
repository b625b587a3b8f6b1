"""Graph: the facts of train, valid and test as ids, with their vocabularies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from dura.data.descriptions import Descriptions, find
from dura.data.questions import Questions, segments
from dura.data.ranges import Ranges
from dura.data.readers import FACTS
from dura.data.reviews import Reviews
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.types import SPLITS, BadInput, IntArray, Sizes, Split

MOST_TIMES = 50_000_000
"""Intervals that make more facts at single times than this are refused: their known answers would not fit in memory."""
KEPT = 1 << 20
"""The questions of a graph with more facts than this are kept as files, if the graph has a folder."""


def frame(facts: IntArray) -> pl.DataFrame:
    """Facts as a polars frame with the columns head, relation, tail, and time or begin and end if facts have them."""
    names = FACTS[facts.shape[1] - 3]
    return pl.DataFrame({name: facts[:, at] for at, name in enumerate(names)})


def distinct(facts: IntArray) -> IntArray:
    """Each fact once, at its first place.

    >>> distinct(np.array([[5, 0, 1], [2, 0, 3], [5, 0, 1]])).tolist()
    [[5, 0, 1], [2, 0, 3]]
    """
    once: IntArray = np.ascontiguousarray(frame(facts).unique(maintain_order=True).to_numpy())
    return once


def common(facts: IntArray, others: IntArray) -> IntArray:
    """The facts that are also among the others."""
    mine = frame(facts)
    both: IntArray = mine.join(frame(others), on=mine.columns, how="semi").to_numpy()
    return both


@dataclass(frozen=True)
class Graph:
    """Facts as int32 arrays [n, 3] of (head, relation, tail) ids.

    Facts with a time are [n, 4], with the time's id. Facts of intervals are [n, 5], with the ids of begin and end; such a fact
    holds at every time of the interval, including both ends. An open end is the first or the last time. A fact without a time
    has the id of no time.

    `labels` are optional human names of entities (the entity /m/017dcd of FB15k-237 is called "Mad Men"). Entities and relations
    may also have types and descriptions, see `descriptions`. None of this changes the digest. `home` is the folder of a stored
    graph or a run, if the graph was read from one: the questions of a large graph are kept there.
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: IntArray
    valid: IntArray
    test: IntArray
    labels: dict[str, str] = field(default_factory=dict, repr=False)
    times: Times | None = None
    home: Path | None = field(default=None, repr=False, compare=False)
    entity_types: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    entity_descriptions: dict[str, str] = field(default_factory=dict, repr=False)
    relation_labels: dict[str, str] = field(default_factory=dict, repr=False)
    relation_types: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    relation_descriptions: dict[str, str] = field(default_factory=dict, repr=False)
    reviews: Reviews | None = field(default=None, repr=False, compare=False)
    """What people decided about facts that are not in the graph. It changes answers, but no split and not the digest."""

    def __post_init__(self) -> None:
        if not len(self.train):
            raise BadInput(f"the graph {self.name!r} has no facts to train on")
        widths = {self.facts(split).shape[1] for split in SPLITS}
        if len(widths) > 1 or not widths <= ({3} if self.times is None else {4, 5}):
            raise BadInput(
                f"the facts of the graph {self.name!r} have {', '.join(map(str, sorted(widths)))} columns, but need 3 in all "
                "splits, or with times 4 (time) or 5 (begin and end)"
            )

    @property
    def sizes(self) -> Sizes:
        """How many entities, relations and times there are in all splits; no time counts as a time if a fact has none."""
        return Sizes(len(self.entities), len(self.relations), 0 if self.times is None else len(self.times))

    @property
    def intervals(self) -> bool:
        """True if facts have a begin and an end."""
        return bool(self.train.shape[1] == 5)

    def facts(self, split: Split) -> IntArray:
        """The facts of one split."""
        if split not in SPLITS:
            raise BadInput(f"the split {split!r} is not known; the splits are {', '.join(SPLITS)}")
        facts: IntArray = getattr(self, split)
        return facts

    @cached_property
    def about_entities(self) -> Descriptions:
        """Labels, types and descriptions of entities."""
        return Descriptions(self.labels, self.entity_types, self.entity_descriptions)

    @cached_property
    def about_relations(self) -> Descriptions:
        """Labels, types and descriptions of relations."""
        return Descriptions(self.relation_labels, self.relation_types, self.relation_descriptions)

    def label(self, entity: str) -> str:
        """The human name of an entity, or the name itself."""
        return self.about_entities.label(entity)

    def relation_label(self, relation: str) -> str:
        """The human name of a relation, or the name itself."""
        return self.about_relations.label(relation)

    def types(self, entity: str) -> tuple[str, ...]:
        """The types of an entity; () if none are known."""
        return self.entity_types.get(entity, ())

    def entity(self, name: str) -> int:
        """The id of an entity, by its name or its label. A name counts first. A label that several entities have is an error."""
        return find(self.entities, self.about_entities, name, "entity")

    def relation(self, name: str) -> int:
        """The id of a relation, by its name or its label; see `entity`."""
        return find(self.relations, self.about_relations, name, "relation")

    def described(self, entities: Descriptions, relations: Descriptions) -> Graph:
        """The same facts with these descriptions instead."""
        return replace(
            self,
            labels=entities.labels,
            entity_types=entities.types,
            entity_descriptions=entities.descriptions,
            relation_labels=relations.labels,
            relation_types=relations.types,
            relation_descriptions=relations.descriptions,
        )

    def reviewed(self, reviews: Reviews | None) -> Graph:
        """The same facts with these decisions instead. What was computed from the facts is kept: it may take long to make."""
        other = replace(self, reviews=reviews)
        others = {*self.__dataclass_fields__, "_accepted"}  # this one follows from the decisions
        vars(other).update({name: value for name, value in vars(self).items() if name not in others})
        return other

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the vocabularies and the facts of every split. Results on graphs with equal digests can be compared."""
        times = "" if self.times is None else self.times.digest
        digest = hashlib.sha256(f"{self.entities.digest}{self.relations.digest}{times}".encode())
        for split in SPLITS:
            facts = self.facts(split)
            digest.update(f"{split}{len(facts)}".encode())
            for at in range(0, len(facts), KEPT):
                digest.update(np.ascontiguousarray(facts[at : at + KEPT], dtype="<i4").data)
        return digest.hexdigest()

    @cached_property
    def questions(self) -> Questions:
        """The questions of train in both directions; intervals are asked at their begin (see `at_times`)."""
        return self._kept("questions", lambda: [self.asked("train")])

    def _kept(self, kind: str, facts: Callable[[], list[IntArray]]) -> Questions:
        """The questions of some facts. Those of a large graph are kept in its folder, so that they are made only once."""
        if self.home is None or sum(len(self.facts(split)) for split in SPLITS) <= KEPT:
            return Questions.of(*facts(), relations=len(self.relations))
        from dura.data.kept import kept

        return kept(self.home, f"{kind}-{self.digest[:16]}", self.sizes, facts)

    def asked(self, split: Split) -> IntArray:
        """The facts of a split as evaluation asks them: [n, 3], or [n, 4] with a time. Intervals are asked at their begin."""
        return self.facts(split)[:, :4]

    def at_times(self, facts: IntArray, rng: np.random.Generator) -> IntArray:
        """Facts of intervals [n, 5], each at one random time of its interval: [n, 4]. All times in it are equally likely.

        Other facts stay as they are, so training can call this for any graph.
        """
        if facts.shape[1] < 5:
            return facts
        drawn = rng.integers(facts[:, 3], facts[:, 4], endpoint=True, dtype=np.int64)
        return np.column_stack([facts[:, :3], drawn]).astype(facts.dtype)

    def at_all_times(self, facts: IntArray) -> IntArray:
        """Facts of intervals [n, 5], each at every time of its interval: [m, 4]. The times of a fact follow each other."""
        if facts.shape[1] < 5:
            return facts
        lengths = (facts[:, 4] - facts[:, 3] + 1).astype(np.int64)
        if lengths.sum() > MOST_TIMES:
            raise BadInput(
                f"the intervals of the graph {self.name!r} hold at {lengths.sum():,} times altogether, more than the "
                f"{MOST_TIMES:,} that fit in memory; use coarser times, such as years instead of days"
            )
        times = segments(facts[:, 3].astype(np.int64), lengths)
        return np.column_stack([np.repeat(facts[:, :3], lengths, axis=0), times]).astype(facts.dtype)

    @cached_property
    def known(self) -> Questions:
        """The questions of all splits with every known answer: the filter of evaluation.

        If facts have times, an answer is known only at the time of its fact, or at every time of its interval.
        """

        def facts() -> list[IntArray]:
            splits = [self.facts(split) for split in SPLITS]
            return [self.at_all_times(np.concatenate(splits))] if self.intervals else splits

        return self._kept("known", facts)

    @cached_property
    def training_facts(self) -> Questions:
        """The questions of train with every answer, facts of intervals at every time: what filters of training may see."""
        return self._kept("training", lambda: [self.at_all_times(self.train)])

    @cached_property
    def known_ever(self) -> Questions:
        """As `known`, but without times: an answer that is known at any time is known (the static filter)."""
        return self._kept("ever", lambda: [self.facts(split)[:, :3] for split in SPLITS])

    def answered(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> Questions:
        """These questions, each with the answers that nobody has to be told: the known ones, and those that people judged."""
        known = self.known.known(head, relation, time)
        return known if self.reviews is None else known.and_those_of(self.reviews.judged.known(head, relation, time))

    def holding(self, head: IntArray, relation: IntArray, time: IntArray | None = None) -> IntArray:
        """How many true answers each question is known to have. Accepted facts count, rejected ones do not."""
        found = self.known.counted(head, relation, time)
        return found if self._accepted is None else found + self._accepted.counted(head, relation, time)

    @cached_property
    def _accepted(self) -> Questions | None:
        """The accepted facts that are in no split, as questions."""
        if self.reviews is None:
            return None
        from dura.data.reviews import new_facts

        return Questions.of(new_facts(self, self.reviews.accepted), relations=len(self.relations))

    @cached_property
    def ranges(self) -> Ranges:
        """The entities that training facts have with each relation, on each side."""
        return Ranges.of(self.train, len(self.entities), len(self.relations))

    @cached_property
    def unseen(self) -> IntArray:
        """The ids of entities that occur only in valid or test. They are ranked like all others."""
        seen = np.zeros(len(self.entities), dtype=bool)
        for at in range(0, len(self.train), KEPT):
            seen[self.train[at : at + KEPT, 0]] = True
            seen[self.train[at : at + KEPT, 2]] = True
        return np.flatnonzero(~seen)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {len(self.entities):,} entities, {len(self.relations):,} relations, "
            + (f"{len(self.times):,} times, " if self.times is not None else "")
            + f"{len(self.train):,} train + {len(self.valid):,} valid + {len(self.test):,} test facts)"
        )
