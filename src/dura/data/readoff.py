"""Read off: what is worth knowing about a split: how it was made, and how many test facts train gives away.

A model can answer such facts without having learnt much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dura.config.sections import Splitting
from dura.data.leaks import Leaks, find_leaks
from dura.data.vocabulary import Vocabulary
from dura.types import IntArray, Split

MUCH = 0.05
"""If train gives away at least this share of the test facts, results mislead."""
ADVICE = '--split grouped (in Python split="grouped") keeps such facts together'


@dataclass(frozen=True)
class ReadOff:
    """What train says about the facts of test. Self loops do not count as facts that train gives away."""

    test: int
    """The number of test facts."""
    leaks: Leaks
    """The relations that repeat, invert or mirror, and the test facts that have a counterpart in train because of them."""
    linked: int
    """The number of test facts over two entities that train links by any relation, in either direction, at any time."""

    @property
    def answered_share(self) -> float:
        """The share of test facts that have a counterpart in train under a leaking relation."""
        return self.leaks.answered / max(1, self.test)

    @property
    def linked_share(self) -> float:
        """The share of test facts over two entities that train links."""
        return self.linked / max(1, self.test)

    @property
    def much(self) -> bool:
        """True if leaks give away so many test facts that results mislead."""
        return self.test > 0 and self.answered_share >= MUCH

    @property
    def figures(self) -> str:
        """The figures as a part of a sentence."""
        return (
            f"{self.leaks.answered:,} of {self.test:,} test facts ({self.answered_share:.1%}) can be read off train, which has "
            f"them inverted, repeated or mirrored; train links the two entities of {self.linked:,} ({self.linked_share:.1%})"
        )


def read_off(train: IntArray, valid: IntArray, test: IntArray) -> ReadOff:
    """How many facts of test train gives away. Which relations leak is seen in the facts of all splits.

    >>> train, test = np.array([[0, 0, 1], [1, 0, 2]]), np.array([[1, 1, 0], [0, 0, 2]])
    >>> found = read_off(train, train[:0], test)
    >>> found.leaks.answered, found.linked, found.linked_share
    (0, 1, 0.5)
    """
    tested = _pairs(test)
    linked = tested.filter(pl.col("low") != pl.col("high")).join(_pairs(train), on=["low", "high"], how="semi")
    leaks = find_leaks(train, test, np.concatenate([train, valid, test]))
    return ReadOff(len(test), leaks, len(linked))


def _pairs(facts: IntArray) -> pl.DataFrame:
    """The two entities of each fact, the lower id first."""
    head, tail = facts[:, 0], facts[:, 2]
    return pl.DataFrame({"low": np.minimum(head, tail), "high": np.maximum(head, tail)})


def told(
    facts: Mapping[Split, IntArray], made: Sequence[Split], how: Splitting, seed: int, times: Vocabulary | None
) -> list[str]:
    """Sentences about a split of which the parts `made` were taken out of train."""
    counts = ", ".join(f"{len(facts[part]):,} {part}" for part in ("train", *made))
    if how == "time" and times is not None:
        about = "; ".join([*_begins(facts, made, times), _unseen(facts, made)])
    else:
        about = "every entity and relation stays in train"
    notes = [f"split made: {counts} ({how}, seed {seed}; {about})"]
    found = at_a_glance(facts)
    if found.linked:
        notes.append(found.figures + (f"; {ADVICE}" if found.much else ""))
    return notes


def at_a_glance(facts: Mapping[Split, IntArray]) -> ReadOff:
    """The same figures as `read_off`, sooner: only relations of train facts over the pairs of test facts can give one away."""
    train, test = facts["train"], facts["test"]
    tested, known = _pairs(test), _pairs(train)
    apart = pl.col("low") != pl.col("high")
    beside = known.with_columns(relation=train[:, 1]).join(tested.filter(apart), on=["low", "high"], how="semi")
    linked = tested.with_columns(relation=test[:, 1]).filter(apart).join(beside, on=["low", "high"], how="semi")
    involved = pl.concat([beside["relation"], linked["relation"]]).unique().to_numpy()
    some = [part[np.isin(part[:, 1], involved)] for part in (train, facts["valid"], test)]
    leaks = find_leaks(some[0], some[2], np.concatenate(some)) if len(linked) else Leaks([], 0)
    return ReadOff(len(test), leaks, len(linked))


def _begins(facts: Mapping[Split, IntArray], made: Sequence[Split], times: Vocabulary) -> list[str]:
    """When valid and test begin; "within" a time if the facts before are partly of this time, too."""
    begins, before = [], facts["train"]
    for part in made:
        if len(facts[part]):
            begin = int(facts[part][:, 3].min())
            where = "within" if (before[:, 3] == begin).any() else "at"
            begins.append(f"{part} begins {where} {times.name(begin)}")
            before = np.concatenate([before, facts[part]])
    return begins


def _unseen(facts: Mapping[Split, IntArray], made: Sequence[Split]) -> str:
    """How many facts of the new splits have an entity or a relation that train lacks."""
    train = facts["train"]
    entities, relations = np.unique(train[:, [0, 2]]), np.unique(train[:, 1])
    counts = []
    for part in made:
        head, relation, tail = facts[part][:, 0], facts[part][:, 1], facts[part][:, 2]
        known = np.isin(head, entities) & np.isin(tail, entities) & np.isin(relation, relations)
        counts.append(f"{int((~known).sum()):,} {part}")
    return f"{' and '.join(counts)} facts have an entity or relation that train lacks"
