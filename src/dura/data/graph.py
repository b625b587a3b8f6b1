"""Graph: the facts of train, valid and test as ids, with their vocabularies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from dura.data.questions import Questions
from dura.data.vocabulary import Vocabulary
from dura.types import SPLITS, BadInput, IntArray, Sizes, Split


def frame(facts: IntArray) -> pl.DataFrame:
    """Facts [n, 3] as a table with the columns head, relation and tail."""
    return pl.DataFrame({"head": facts[:, 0], "relation": facts[:, 1], "tail": facts[:, 2]})


def distinct(facts: IntArray) -> IntArray:
    """Each fact once, where it stands first.

    >>> distinct(np.array([[5, 0, 1], [2, 0, 3], [5, 0, 1]])).tolist()
    [[5, 0, 1], [2, 0, 3]]
    """
    rows: IntArray = np.ascontiguousarray(frame(facts).unique(maintain_order=True).to_numpy())
    return rows


@dataclass(frozen=True)
class Graph:
    """Facts as int32 arrays [n, 3] of (head, relation, tail) ids.

    `labels` are optional human names for entity names (FB15k-237's /m/017dcd is called "Mad Men").
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: IntArray
    valid: IntArray
    test: IntArray
    labels: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not len(self.train):
            raise BadInput(f"the graph {self.name!r} has no facts to train on")

    @property
    def sizes(self) -> Sizes:
        """How many entities and relations there are in all splits."""
        return Sizes(entities=len(self.entities), relations=len(self.relations))

    def facts(self, split: Split) -> IntArray:
        """The facts of one split."""
        if split not in SPLITS:
            raise BadInput(f"the split {split!r} is not known; known are {', '.join(SPLITS)}")
        facts: IntArray = getattr(self, split)
        return facts

    def label(self, entity: str) -> str:
        """The human name of an entity, or the name itself."""
        return self.labels.get(entity, entity)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the vocabularies and the facts of every split: equal digests, comparable results."""
        digest = hashlib.sha256(f"{self.entities.digest}{self.relations.digest}".encode())
        for split in SPLITS:
            facts = np.ascontiguousarray(self.facts(split), dtype="<i4")
            digest.update(f"{split}{len(facts)}".encode())
            digest.update(facts.tobytes())
        return digest.hexdigest()

    @cached_property
    def questions(self) -> Questions:
        """The questions of train, both directions."""
        return Questions.of(self.train, relations=len(self.relations))

    @cached_property
    def known(self) -> Questions:
        """The questions of all splits with every known answer: the filter of evaluation."""
        return Questions.of(self.train, self.valid, self.test, relations=len(self.relations))

    @cached_property
    def unseen(self) -> IntArray:
        """The ids of entities that occur in valid or test only; they stay in the ranking."""
        seen = np.zeros(len(self.entities), dtype=bool)
        seen[self.train[:, 0]] = True
        seen[self.train[:, 2]] = True
        return np.flatnonzero(~seen)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {len(self.entities):,} entities, {len(self.relations):,} relations, "
            f"{len(self.train):,} train + {len(self.valid):,} valid + {len(self.test):,} test facts)"
        )
