"""Ruled: rules of a graph as a model that can be asked, and so can be a member of a combination."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dura.inference.rules import THOROUGH, Effort, Miner
from dura.models.comparators import Comparator
from dura.models.model import Model
from dura.tables import Packed
from dura.types import BadInput, FloatArray, IntArray

if TYPE_CHECKING:
    from dura.data.graph import Graph

SUREST = 0.999
"""Confidences above this count as this."""
FURTHER = 0.7
"""How much each further rule that gives an answer counts, compared with the one before it."""
ONLY_TIES = 1e-3
"""The same if further rules only decide between answers whose best rules are equal."""
HEADS = 64
"""At how many heads the rules of a relation are applied at once: a body may lead to thousands of entities."""


class _Asked(Comparator):
    """A query is (head, relation) and a target is an entity, both as ids."""

    rows_only = False

    def __init__(self, owner: Ruled) -> None:
        self._owner = owner

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The score of each pair of ids."""
        rows = self._owner.rows(query)
        return rows.gather(1, targets.long())[:, 0]

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores of all entities."""
        assert isinstance(targets, Tensor)
        found = self._owner.rows(query)
        found = found if len(targets) == found.shape[1] else found[:, targets[:, 0].long()]
        return found if out is None else out.copy_(found)


class Ruled(Model):
    """Σ_k further^k · −log(1 − c_k) for each entity that rules give, with their confidences c_0 ≥ c_1 ≥ …; 0 for all others.

    With `further` 1 this is the logarithm of a noisy-or. Rules repeat each other, so further ones count less. The rules of a
    relation are mined from the training facts when they are first needed. They know no times.
    """

    random = False

    def __init__(self, graph: Graph, seed: int = 0, further: float = FURTHER, effort: Effort = THOROUGH) -> None:
        if graph.times is not None:
            raise BadInput("the facts of this graph have times, and rules do not know times: leave the rules out")
        super().__init__(graph.sizes, 1)
        self.comparator = _Asked(self)
        self._miner, self._further = Miner(graph, seed=seed, effort=effort), further
        self.kind = nn.Parameter(
            torch.zeros(()), requires_grad=False
        )  # says on which device and in which type it answers

    def rows(self, query: Tensor) -> Tensor:
        """The scores of all entities for each question [b, |E|]."""
        scores = torch.zeros(len(query), self.sizes.entities)
        heads, relations = query[:, 0].long().cpu().numpy(), query[:, 1].long().cpu().numpy()
        for relation in np.unique(relations).tolist():
            at = np.flatnonzero(relations == relation)
            rules = self._miner.mine(relation)
            for part in np.split(at, range(HEADS, len(at), HEADS)):
                place, entity, confidence = self._miner.evidence(rules, heads[part])
                value = torch.from_numpy(together(place, entity, confidence, self._further)).float()
                scores.index_put_((torch.from_numpy(part[place]), torch.from_numpy(entity)), value, accumulate=True)
        return scores.to(self.kind)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The ids of each question."""
        return torch.stack([head, relation], 1).double()

    def targets(
        self,
        entities: Tensor | None = None,
        relation: Tensor | None = None,  # noqa: ARG002
        time: Tensor | None = None,  # noqa: ARG002
    ) -> Tensor:
        """The ids of entities."""
        every = torch.arange(self.sizes.entities, device=self.device) if entities is None else entities
        return every[:, None].double()

    def heads(self, entities: Tensor) -> Tensor:  # noqa: ARG002
        """There are none."""
        raise BadInput("rules have no rows of entities")


def together(place: IntArray, entity: IntArray, confidence: FloatArray, further: float) -> FloatArray:
    """What each rule adds to the score of its answer. The rules of an answer stand next to each other, the best one first."""
    first = np.ones(len(place), dtype=bool)
    first[1:] = (place[1:] != place[:-1]) | (entity[1:] != entity[:-1])
    start = np.flatnonzero(first)
    nth = np.arange(len(place)) - np.repeat(start, np.diff(np.append(start, len(place))))
    return np.asarray(-np.log1p(-np.minimum(confidence, SUREST)) * further**nth)
