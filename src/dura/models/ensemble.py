"""Ensemble: two models answer together, and each score says how much the first one counts (Self-Adp of StAR).

α·s₁ + (1 − α)·s₂ with α = σ(w·x + b). The features x of a fact are how ambiguous its question is to the first model (the standard
deviation of the target rows of its best answers, and their mean similarity), |s₁ − s₂|, s₁ + s₂, s₁ and s₂. Both scores are brought
to 0…1 by the smallest and the largest score of the question. α = 1 for facts with an entity that occurs in no training fact. Tails
and heads have weights of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dura.models.comparators import Comparator
from dura.models.model import Model
from dura.tables import Packed
from dura.types import BadInput

OWN = 10
"""How many numbers of a query are not those of the two models: four ends of scores, five weights, and whether α is 1."""
GATHERED = 2**22
"""How many numbers of the best answers' rows are looked at in one go."""


class Mixed(Comparator):
    """α·s₁ + (1 − α)·s₂ of two comparators.

    A query is [smallest s₁, its inverse range, smallest s₂, its inverse range, the part of α's logit that is the same for all
    answers, the weights of |s₁ − s₂|, s₁ + s₂, s₁ and s₂, whether α is 1; query of the first model; query of the second].
    A target is [whether α is 1; row of the first model; row of the second].
    """

    def __init__(self, first: Comparator, second: Comparator, widths: tuple[int, int], rows: int) -> None:
        self.first, self.second, self.rows_only = first, second, first.rows_only and second.rows_only
        self._query, self._rows = OWN + widths[0], 1 + rows

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The score of each pair of rows."""
        one = self.first.pairs(query[..., OWN : self._query], targets[..., 1 : self._rows])
        two = self.second.pairs(query[..., self._query :], targets[..., self._rows :])
        return mixed(query[..., :OWN], one, two, targets[..., 0])

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores of both models, and their mixture."""
        assert isinstance(targets, Tensor)
        one = self.first.scores(query[:, OWN : self._query].contiguous(), targets[:, 1 : self._rows])
        two = self.second.scores(query[:, self._query :].contiguous(), targets[:, self._rows :].contiguous())
        found = mixed(query[:, None, :OWN], one, two, targets[:, 0])
        return found if out is None else out.copy_(found)


def mixed(own: Tensor, one: Tensor, two: Tensor, alone: Tensor) -> Tensor:
    """The mixture of the scores of two models, from the own numbers of the queries; `alone` is 1 where α is 1."""
    s1, s2 = (one - own[..., 0]) * own[..., 1], (two - own[..., 2]) * own[..., 3]
    logit = own[..., 4] + own[..., 5] * (s1 - s2).abs() + own[..., 6] * (s1 + s2) + own[..., 7] * s1 + own[..., 8] * s2
    alpha = torch.maximum(torch.sigmoid(logit), torch.maximum(own[..., 9], alone))
    return s2 + alpha * (s1 - s2)


class Ensemble(Model):
    """The mixture of two trained models of one graph. Only `weights` [2, n] is trained: those of tails, then those of heads.

    `unseen` are the ids of entities without a training fact. `best` is how many best answers of the first model tell how
    ambiguous a question is.
    """

    random = False
    alone: Tensor
    """1 for each entity without a training fact."""

    def __init__(self, first: Model, second: Model, unseen: Tensor, best: int = 1000) -> None:
        super().__init__(first.sizes, first.rank)
        for model in (first, second):
            if model.grouped_by or model.temporal:
                raise BadInput(f"{type(model).__name__} cannot be in an ensemble: its targets depend on the question")
        if first.sizes != second.sizes:
            raise BadInput("the two models of an ensemble must be trained on the same graph")
        self.first, self.second, self.best = first.requires_grad_(False), second.requires_grad_(False), best
        rows, nothing = self._rows(first), torch.zeros(1, dtype=torch.long)
        with torch.no_grad():
            widths = tuple(int(model.query(nothing, nothing).shape[1]) for model in (first, second))
        self.comparator = Mixed(first.comparator, second.comparator, (widths[0], widths[1]), rows.shape[1])
        self.weights = nn.Parameter(torch.zeros(2, rows.shape[1] + 6))
        alone = torch.zeros(first.sizes.entities)
        alone[unseen] = 1
        self.register_buffer("alone", alone)

    @staticmethod
    def _rows(model: Model) -> Tensor:
        rows = model.targets()
        if isinstance(rows, Packed):
            raise BadInput("an ensemble needs whole tables: use the runs that were exported, not the small copies")
        return rows.detach()

    def ends(self, one: Tensor, two: Tensor) -> Tensor:
        """The smallest score and the inverse range of both models [b, 4], from their scores of all entities."""
        columns = []
        for scores in (one, two):
            low, high = scores.amin(1), scores.amax(1)
            columns += [low, 1 / (high - low).clamp(min=1e-9)]
        return torch.stack(columns, 1)

    def ambiguity(self, one: Tensor) -> Tensor:
        """Standard deviation of the rows of the best answers, and their mean similarity [b, w + 1]."""
        rows, count = self._rows(self.first), min(self.best, one.shape[1])
        found, size = [], max(1, GATHERED // (count * rows.shape[1]))
        for part in one.topk(count, dim=1, sorted=False).indices.split(size):
            near = rows[part]
            mean = near.mean(1)
            # The mean of all products of two of them is the square of the mean.
            found.append(torch.cat([near.std(1, correction=0), mean.square().sum(1, keepdim=True)], 1))
        return torch.cat(found)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The queries of both models, with what the mixture needs to know of each question."""
        queries = [model.query(head, relation) for model in (self.first, self.second)]
        one, two = (
            model.compare(query, self._rows(model))
            for model, query in zip((self.first, self.second), queries, strict=True)
        )
        weights = self.weights[(relation >= self.sizes.relations).long()]
        logit = (weights[:, :-5] * self.ambiguity(one)).sum(1, keepdim=True) + weights[:, -1:]
        own = [self.ends(one, two), logit, weights[:, -5:-1], self.alone[head][:, None]]
        return torch.cat([*own, *queries], 1)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """The rows of both models."""
        every = torch.arange(self.sizes.entities) if entities is None else entities
        return torch.cat([self.alone[every][:, None], self._rows(self.first)[every], self._rows(self.second)[every]], 1)

    def heads(self, entities: Tensor) -> Tensor:
        """The rows of the first model."""
        return self.first.heads(entities)
