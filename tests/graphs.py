"""Small graphs for tests, made from a seed."""

from __future__ import annotations

import numpy as np

from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary


def random_graph(entities: int = 20, relations: int = 3, facts: int = 120, seed: int = 0) -> Graph:
    """A graph with every entity and relation in train, and no fact in two splits."""
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.integers(n, size=3 * facts) for n in (entities, relations, entities)], axis=1)
    ring = np.stack([np.arange(entities), np.arange(entities) % relations, np.roll(np.arange(entities), 1)], axis=1)
    rest = np.array(sorted({tuple(row) for row in ids.tolist()} - {tuple(row) for row in ring.tolist()}))
    rest = rng.permutation(rest)[: facts - entities].astype(np.int32)
    held = len(rest) // 8
    return Graph(
        name="random",
        entities=Vocabulary(f"e{i:03d}" for i in range(entities)),
        relations=Vocabulary(f"r{i}" for i in range(relations)),
        train=np.concatenate([ring.astype(np.int32), rest[2 * held :]]),
        valid=rest[:held],
        test=rest[held : 2 * held],
    )
