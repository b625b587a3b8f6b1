"""Ruled: rules of a graph as a model that can be asked, and so can be a member of a combination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dura.data.questions import segments
from dura.inference.paths import Paths
from dura.inference.rules import THOROUGH, Effort, Miner, Rule
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
TIES = 1e-3
"""If only the best rule counts, this part of the confidence of the second one is added, so that it decides ties."""
HEADS, MOST_ROWS = 64, 8_000_000
"""At how many heads the rules of a relation are applied at once, and at fewer if they give more answers: each takes 24 bytes."""


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

    With `further` 1 this is the logarithm of a noisy-or. Rules repeat each other, so further ones count less; with None only the
    best one counts. The rules of a relation are mined from the training facts when they are first needed. They know no times.
    """

    random = False

    def __init__(self, graph: Graph, seed: int = 0, further: float | None = FURTHER, effort: Effort = THOROUGH) -> None:
        if graph.times is not None:
            raise BadInput("the facts of this graph have times, and rules do not know times: leave the rules out")
        super().__init__(graph.sizes, 1)
        self.comparator = _Asked(self)
        self._miner, self._further = Miner(graph, seed=seed, effort=effort), further
        self._rules: dict[int, Prepared] = {}
        self.kind = nn.Parameter(
            torch.zeros(()), requires_grad=False
        )  # says on which device and in which type it answers

    def rows(self, query: Tensor) -> Tensor:
        """The scores of all entities for each question [b, |E|]."""
        scores = torch.zeros(len(query), self.sizes.entities)
        heads, relations = query[:, 0].long().cpu().numpy(), query[:, 1].long().cpu().numpy()
        for relation in np.unique(relations).tolist():
            if relation not in self._rules:
                self._rules[relation] = Prepared.of(self._miner.mine(relation), self._miner.paths)
            at = np.flatnonzero(relations == relation)
            for part in np.split(at, range(HEADS, len(at), HEADS)):
                self._fill(scores, self._rules[relation], part, heads[part])
        return scores.to(self.kind)

    def _fill(self, scores: Tensor, rules: Prepared, rows: IntArray, heads: IntArray) -> None:
        """Write the scores of these heads into these rows."""
        if (found := rules.at(heads, self._miner.paths)) is None:
            half = len(heads) // 2
            self._fill(scores, rules, rows[:half], heads[:half])
            self._fill(scores, rules, rows[half:], heads[half:])
            return
        place, entity, value = together(*found, self._further)
        scores[torch.from_numpy(rows[place]), torch.from_numpy(entity)] = torch.from_numpy(value).float()

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


@dataclass(frozen=True)
class Prepared:
    """The rules of one relation, ready to be applied to many heads at once."""

    bodies: list[tuple[tuple[int, ...], float]]
    """Bodies with their confidences."""
    condition: IntArray
    """[n], rising: the fact that each rule with constants asks for, d·2|R| + s."""
    answer: IntArray
    confidence: FloatArray

    @classmethod
    def of(cls, rules: Sequence[Rule], paths: Paths) -> Prepared:
        """The rules as arrays."""
        plain = [(rule.body, rule.confidence) for rule in rules if rule.ends is None]
        fixed = [(rule.ends[0] * 2 * paths.relations + rule.body[0], rule.ends[1]) for rule in rules if rule.ends]
        confidence = np.array([rule.confidence for rule in rules if rule.ends], np.float64)
        condition, answer = np.array(fixed, np.int64).reshape(-1, 2).T
        order = np.argsort(condition, kind="stable")
        return cls(plain, condition[order], answer[order], confidence[order])

    def at(self, heads: IntArray, paths: Paths) -> tuple[IntArray, IntArray, FloatArray] | None:
        """The place of the head, the answer, and the confidence of each rule that gives it. None if these are too many at once.

        The rules that give the same answer stand next to each other, the best one first.
        """
        found, rows = [self._matching(heads, paths)], 0
        for body, confidence in self.bodies:
            place, end = paths.ends(body, heads)
            found.append((place, end, np.full(len(place), confidence)))
            if (rows := rows + len(place)) > MOST_ROWS and len(heads) > 1:
                return None
        place, answer, confidences = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.lexsort([-confidences, answer, place])
        return place[order], answer[order], confidences[order]

    def _matching(self, heads: IntArray, paths: Paths) -> tuple[IntArray, IntArray, FloatArray]:
        """The answers of rules with constants: those whose condition is a fact of the head."""
        near = [paths.near(int(head)) for head in heads]
        rows = np.repeat(np.arange(len(heads)), [len(relation) for relation, _ in near])
        facts = np.concatenate([np.zeros(0, np.int64), *(d * 2 * paths.relations + s for s, d in near)])
        first, last = (np.searchsorted(self.condition, facts, side) for side in ("left", "right"))
        at = segments(first, last - first)
        return np.repeat(rows, last - first), self.answer[at], self.confidence[at]


def together(
    place: IntArray, entity: IntArray, confidence: FloatArray, further: float | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """The score of each answer. The rules that give it stand next to each other, the best one first."""
    first = np.ones(len(place), dtype=bool)
    first[1:] = (place[1:] != place[:-1]) | (entity[1:] != entity[:-1])
    start = np.flatnonzero(first)
    count = np.diff(np.append(start, len(place)))
    if further is None:
        second = np.where(count > 1, np.append(confidence, 0.0)[start + 1], 0.0)
        value = -np.log1p(-np.minimum(confidence[start] + TIES * second, SUREST))
    else:
        nth = np.arange(len(place)) - np.repeat(start, count)
        evidence = -np.log1p(-np.minimum(confidence, SUREST)) * further**nth
        value = np.add.reduceat(evidence, start) if len(start) else np.zeros(0)
    return place[start], entity[start], value
