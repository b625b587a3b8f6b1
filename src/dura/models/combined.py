"""Combined: several trained models of one graph answer together. What they need to know of a question are its ids.

`ByRelation` adds the members' scores with weights for each relation. `Adaptive` (Self-Adp of StAR) lets the scores of each fact
say how much the first of two members counts. To add another way, write a class with `every` and `some`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dura.models.comparators import Comparator
from dura.models.model import LARGEST_RANK, Model
from dura.tables import Packed
from dura.types import BadInput

GATHERED = 2**22
"""How many numbers are looked at in one go: rows of the best answers, or scores of which only some are wanted."""


class Joint(Comparator):
    """Asks all members. A query is (head, relation, time) and a target is an entity, both as ids."""

    rows_only = False

    def __init__(self, owner: Combined) -> None:
        self._owner = owner

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The score of each pair of ids."""
        query, targets = torch.broadcast_tensors(query, targets.expand(*targets.shape[:-1], query.shape[-1]))
        head, relation, time = query.reshape(-1, 3).long().unbind(1)
        tail = targets[..., 0].reshape(-1).long()
        return self._owner.some(head, relation, tail, time if self._owner.temporal else None).view(query.shape[:-1])

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """The scores of these entities for all questions."""
        assert isinstance(targets, Tensor)
        head, relation, time = query.long().unbind(1)
        found = self._owner.every(head, relation, time if self._owner.temporal else None)
        if len(targets) < found.shape[1]:
            found = found[:, targets[:, 0].long()]
        return found if out is None else out.copy_(found)


class Combined(Model):
    """Some models of one graph. They stay as they are; only what combines them is learned."""

    random = False

    def __init__(self, members: Sequence[Model]) -> None:
        if len(members) < 2:
            raise BadInput("a combination needs at least two members")
        if any(member.sizes != members[0].sizes for member in members):
            raise BadInput("the members of a combination must be trained on the same graph")
        super().__init__(members[0].sizes, min(LARGEST_RANK, sum(member.rank for member in members)))
        self.members = nn.ModuleList(member.requires_grad_(False) for member in members)
        self.temporal = any(member.temporal for member in members)  # type: ignore[misc]
        self.comparator = Joint(self)

    @property
    def models(self) -> list[Model]:
        """The members."""
        return [member for member in self.members if isinstance(member, Model)]

    @abstractmethod
    def every(self, head: Tensor, relation: Tensor, time: Tensor | None) -> Tensor:
        """The scores of all entities [b, |E|]. The caller may write to them."""

    @abstractmethod
    def some(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None) -> Tensor:
        """The scores of facts [b]."""

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The ids of each question, as numbers that hold them exactly."""
        return torch.stack([head, relation, torch.zeros_like(head) if time is None else time], 1).double()

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """The ids of entities."""
        every = torch.arange(self.sizes.entities, device=self.device) if entities is None else entities
        return every[:, None].double()

    def heads(self, entities: Tensor) -> Tensor:
        """There are none."""
        raise BadInput("a combination of runs has no rows of its own: ask one of its members")


def scores_of(member: Model, head: Tensor, relation: Tensor, time: Tensor | None) -> Tensor:
    """The scores of all entities by one member, which sees times only if it knows them."""
    return member.score_all(head, relation, time if member.temporal else None)


class ByRelation(Combined):
    """Σ_m w[r, m]·s_m / scale_m. Within a question only differences count, so this is a weighted sum of log-softmaxes too.

    `weights` [2|R|, members] are zero or more; `scales` [members] bring the scores of all members to the same spread.
    """

    weights: Tensor
    scales: Tensor

    def __init__(self, members: Sequence[Model], weights: Tensor, scales: Tensor) -> None:
        super().__init__(members)
        wanted = 2 * self.sizes.relations, len(members)
        if tuple(weights.shape) != wanted or scales.shape != wanted[1:]:
            raise BadInput(
                f"the weights have the shape {tuple(weights.shape)}, but those of this combination have {wanted}"
            )
        self.register_buffer("weights", weights.float())
        self.register_buffer("scales", scales.float())

    def every(self, head: Tensor, relation: Tensor, time: Tensor | None) -> Tensor:
        """One member after the other, so that only two blocks of scores are in memory."""
        by = self.weights[relation] / self.scales
        total: Tensor | None = None
        for at, member in enumerate(self.models):
            scores = scores_of(member, head, relation, time) * by[:, at, None]
            total = scores if total is None else total.add_(scores)
        assert total is not None
        return total

    def some(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None) -> Tensor:
        """The same sum for single facts."""
        by = self.weights[relation] / self.scales
        scores = [member.score(head, relation, tail, time if member.temporal else None) for member in self.models]
        return (torch.stack(scores, 1) * by).sum(1)


class Adaptive(Combined):
    """α·s₁ + (1 − α)·s₂ with α = σ(w·x + b), the self-adaptive ensemble of StAR.

    The features x of a fact are how ambiguous its question is to the first model (the standard deviation of the target rows of
    its best answers, and their mean similarity), |s₁ − s₂|, s₁ + s₂, s₁ and s₂. Both scores are brought to 0…1 by the smallest
    and the largest score of the question. α = 1 for facts with an entity that occurs in no training fact (`unseen`). Only
    `weights` [2, n] is trained: those of tails, then those of heads. `best` is how many best answers tell how ambiguous a
    question is.
    """

    alone: Tensor
    """1 for each entity without a training fact."""

    def __init__(self, first: Model, second: Model, unseen: Tensor, best: int = 1000) -> None:
        super().__init__([first, second])
        for model in (first, second):
            if model.grouped_by or model.temporal:
                raise BadInput(
                    f"{type(model).__name__} cannot be in an adaptive combination: its targets depend on the question"
                )
        self.best = best
        self.weights = nn.Parameter(torch.zeros(2, self._rows().shape[1] + 6))
        alone = torch.zeros(first.sizes.entities)
        alone[unseen] = 1
        self.register_buffer("alone", alone)

    def _rows(self) -> Tensor:
        rows = self.models[0].targets()
        if isinstance(rows, Packed):
            raise BadInput(
                "an adaptive combination needs whole tables: use the runs that were exported, not the small copies"
            )
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
        rows, count = self._rows(), min(self.best, one.shape[1])
        found, size = [], max(1, GATHERED // (count * rows.shape[1]))
        for part in one.topk(count, dim=1, sorted=False).indices.split(size):
            near = rows[part]
            mean = near.mean(1)
            # The mean of all products of two of them is the square of the mean.
            found.append(torch.cat([near.std(1, correction=0), mean.square().sum(1, keepdim=True)], 1))
        return torch.cat(found)

    def own(self, side: Tensor, ends: Tensor, ambiguity: Tensor) -> Tensor:
        """What `mixed` needs to know of each question [b, 9]: `ends`, and the logit of α as a function of both scores."""
        weights = self.weights[side]
        logit = (weights[:, :-5] * ambiguity).sum(1, keepdim=True) + weights[:, -1:]
        return torch.cat([ends, logit, weights[:, -5:-1]], 1)

    def every(self, head: Tensor, relation: Tensor, time: Tensor | None) -> Tensor:
        """The scores of both models, and their mixture."""
        one, two = (model.score_all(head, relation) for model in self.models)
        own = self.own((relation >= self.sizes.relations).long(), self.ends(one, two), self.ambiguity(one))
        return mixed(own[:, None], one, two, torch.maximum(self.alone[head][:, None], self.alone))

    def some(self, head: Tensor, relation: Tensor, tail: Tensor, time: Tensor | None) -> Tensor:
        """The smallest and the largest score of a question are among those of all entities, so all are computed."""
        size, found = max(1, GATHERED // self.sizes.entities), []
        for h, r, t in zip(head.split(size), relation.split(size), tail.split(size), strict=True):
            found.append(self.every(h, r, time).gather(1, t[:, None])[:, 0])
        return torch.cat(found)


def mixed(own: Tensor, one: Tensor, two: Tensor, alone: Tensor) -> Tensor:
    """The mixture of the scores of two models, from the own numbers of the questions; `alone` is 1 where α is 1."""
    s1, s2 = (one - own[..., 0]) * own[..., 1], (two - own[..., 2]) * own[..., 3]
    logit = own[..., 4] + own[..., 5] * (s1 - s2).abs() + own[..., 6] * (s1 + s2) + own[..., 7] * s1 + own[..., 8] * s2
    alpha = torch.maximum(torch.sigmoid(logit), alone)
    return s2 + alpha * (s1 - s2)


def refuse_combined(model: Model, what: str) -> None:
    """Refuse what only a model with tables of its own can do."""
    if isinstance(model, Combined):
        raise BadInput(f"a combination of runs cannot be {what}: it has no tables of its own; name one of its members")
