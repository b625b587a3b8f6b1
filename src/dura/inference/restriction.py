"""Restriction: which entities may be shown as answers. It leaves answers out and changes no score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.inference.answers import Wanted
from dura.types import BadInput, IntArray

LISTED = 5
"""How many unknown names a message lists."""


class Restriction:
    """The entities that a wish allows. What does not depend on the question is found once."""

    def __init__(self, graph: Graph, wanted: Wanted) -> None:
        always = np.ones(len(graph.entities), dtype=bool)
        if wanted.among is not None:
            always &= _only(len(always), _among(graph, wanted.among))
        if wanted.types:
            always &= _only(len(always), of_types(graph, wanted.types))
        self._always = torch.from_numpy(always)
        self._ranges = graph.ranges if wanted.in_range else None

    def allowed(self, relations: IntArray, first: int, last: int) -> Tensor:
        """Whether the entities from `first` up to `last` may answer questions with these relations [questions, entities]."""
        if self._ranges is None:
            return self._always[None, first:last]
        allowed = torch.zeros(len(relations), last - first, dtype=torch.bool)
        for row, relation in zip(allowed, relations.tolist(), strict=True):
            seen = self._ranges.of_relation(relation)
            row[torch.from_numpy(seen[slice(*np.searchsorted(seen, [first, last]))] - first)] = True
        return allowed & self._always[None, first:last]


def _only(entities: int, ids: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    only = np.zeros(entities, dtype=bool)
    only[list(ids)] = True
    return only


def _among(graph: Graph, names: Sequence[str]) -> list[int]:
    """The ids of names or labels. If some are not known, the error lists the first ones."""
    found, wrong = [], []
    for name in names:
        try:
            found.append(graph.entity(name))
        except BadInput as error:
            wrong.append(str(error))
    if not names:
        raise BadInput("no entity is named that answers may be among; name at least one")
    entities = "1 entity" if len(names) == 1 else f"{len(names):,} entities"
    if len(wrong) == 1:
        raise BadInput(f"answers should be among {entities}, but {wrong[0]}")
    if wrong:
        more = f"\n  and {len(wrong) - LISTED:,} more" if len(wrong) > LISTED else ""
        listed = "\n  ".join(wrong[:LISTED])
        raise BadInput(
            f"answers should be among {entities}, but {len(wrong):,} of them are not clear:\n  {listed}{more}"
        )
    return found


def of_types(graph: Graph, types: Sequence[str]) -> list[int]:
    """The ids of all entities that have one of these types."""
    known = Vocabulary({kind for kinds in graph.entity_types.values() for kind in kinds})
    if not len(known):
        raise BadInput("the entities of this graph have no types, so answers cannot be restricted to a type")
    wanted = {known.name(known.id(kind, "type")) for kind in types}
    return [graph.entities.id(name) for name, kinds in graph.entity_types.items() if not wanted.isdisjoint(kinds)]
