"""Small graphs for tests, made from a seed."""

from __future__ import annotations

import numpy as np

from dura.data.graph import Graph
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.models import MODELS
from dura.types import IntArray


def random_graph(entities: int = 20, relations: int = 3, facts: int = 120, seed: int = 0) -> Graph:
    """A graph with every entity and relation in train, and no fact in two splits."""
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.integers(n, size=3 * facts) for n in (entities, relations, entities)], axis=1)
    return _graph("random", entities, relations, ids, facts, rng)


def dated_graph(
    entities: int = 20,
    relations: int = 3,
    times: int = 8,
    facts: int = 160,
    seed: int = 0,
    *,
    intervals: bool = False,
    untimed: bool = False,
) -> Graph:
    """The same with days (or `intervals` of days, some of one day only) and, if `untimed`, every sixth fact without a time."""
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.integers(n, size=3 * facts) for n in (entities, relations, entities, times)], axis=1)
    if intervals:
        ids = np.column_stack([ids, np.minimum(ids[:, 3] + rng.integers(4, size=len(ids)), times - 1)])
    if untimed:
        ids[::6, 3:] = times
    days = [f"2014-01-{day:02d}" for day in range(1, times + 1)] + [""] * untimed
    return _graph("dated", entities, relations, ids, facts, rng, Times(days))


def graph_for(model: str) -> Graph:
    """A graph that the model can be trained on: with times, and some facts without, where it is a temporal one."""
    return dated_graph(untimed=True) if MODELS.get(model).temporal else random_graph()


def _graph(
    name: str,
    entities: int,
    relations: int,
    ids: IntArray,
    facts: int,
    rng: np.random.Generator,
    times: Times | None = None,
) -> Graph:
    ring = np.stack([np.arange(entities), np.arange(entities) % relations, np.roll(np.arange(entities), 1)], axis=1)
    ring = np.column_stack([ring, ids[:entities, 3:]])
    rest = np.array(sorted({tuple(row) for row in ids.tolist()} - {tuple(row) for row in ring.tolist()}))
    rest = rng.permutation(rest)[: facts - entities].astype(np.int32)
    held = len(rest) // 8
    return Graph(
        name=name,
        entities=Vocabulary(f"e{i:03d}" for i in range(entities)),
        relations=Vocabulary(f"r{i}" for i in range(relations)),
        train=np.concatenate([ring.astype(np.int32), rest[2 * held :]]),
        valid=rest[:held],
        test=rest[held : 2 * held],
        times=times,
    )
