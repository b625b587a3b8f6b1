"""The paper's training loop, written literally. The benchmarks compare dura with it.

It follows the formulas without any optimization: `nn.Embedding` tables, shuffled batches of facts (every fact and its
reciprocal is one row), the full score matrix [batch, entities], `F.cross_entropy`, DURA fact by fact, and
`torch.optim.Adagrad` with torch's defaults.

    model = Reference("complex", entities=14541, relations=237, rank=200)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    epoch(model, optimizer, both_directions(facts, relations=237), weight=0.05, batch=500)
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dura.models import MODELS, Model
from dura.types import IntArray, Sizes


class Reference(nn.Module):
    """CP, ComplEx or RESCAL with reciprocal relations r + |R|.

    A row of ComplEx holds the real parts first and then the imaginary parts. CP has a separate table for tails.
    """

    def __init__(self, name: str, entities: int, relations: int, rank: int) -> None:
        super().__init__()
        if name not in ("cp", "complex", "rescal"):
            raise ValueError(f"the literal loop knows cp, complex and rescal, not {name!r}")
        self.name, self.entities, self.relations, self.rank = name, entities, relations, rank
        width = 2 * rank if name == "complex" else rank
        self.entity = nn.Embedding(entities, width)
        self.answer = nn.Embedding(entities, width) if name == "cp" else self.entity
        self.relation = nn.Embedding(2 * relations, rank * rank if name == "rescal" else width)
        for table in self.parameters():
            if name == "rescal":
                nn.init.xavier_uniform_(table)
            else:
                nn.init.normal_(table, std=1e-3)

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """h·R̄ of each fact, computed from its rows."""
        if self.name == "cp":
            return head * relation
        if self.name == "rescal":
            return torch.bmm(head[:, None], self.matrices(relation))[:, 0]
        (a, b), (c, d) = head.chunk(2, 1), relation.chunk(2, 1)
        return torch.cat([a * c + b * d, b * c - a * d], 1)

    def reverse(self, tail: Tensor, relation: Tensor) -> Tensor:
        """t·Rᵀ of each fact, computed from its rows."""
        if self.name == "cp":
            return tail * relation
        if self.name == "rescal":
            return torch.bmm(tail[:, None], self.matrices(relation).mT)[:, 0]
        (a, b), (c, d) = tail.chunk(2, 1), relation.chunk(2, 1)
        return torch.cat([a * c - b * d, b * c + a * d], 1)

    def matrices(self, relation: Tensor) -> Tensor:
        """Rows of the relation table as matrices [b, d, d]."""
        return relation.view(-1, self.rank, self.rank)

    def forward(self, facts: Tensor, lambda1: float = 0.5, lambda2: float = 1.5) -> tuple[Tensor, Tensor]:
        """The scores of all entities for each fact [b, |E|], and the mean of DURA over the facts, without its weight."""
        head, relation, tail = self.entity(facts[:, 0]), self.relation(facts[:, 1]), self.answer(facts[:, 2])
        query, reverse = self.query(head, relation), self.reverse(tail, relation)
        penalty = lambda1 * (head**2 + tail**2).sum() + lambda2 * (query**2 + reverse**2).sum()
        return query @ self.answer.weight.T, penalty / len(facts)

    @torch.no_grad()
    def as_dura(self) -> Model:
        """dura's model with the same tables, for example to rank it with dura's evaluator."""
        model = MODELS.build(self.name, {"rank": self.rank}, Sizes(self.entities, self.relations))
        tables = {"entity": self.entity.weight, "relations": self.relation.weight}
        if self.name == "cp":
            tables["tail"] = self.answer.weight
        for name, table in tables.items():
            # dura stores the real and imaginary part of a number next to each other.
            rows = table.unflatten(1, (2, -1)).mT if self.name == "complex" else table
            target = model.get_parameter(name)
            target.copy_(rows.reshape(target.shape))
        return model


def both_directions(facts: IntArray, relations: int) -> Tensor:
    """Every fact (h, r, t) and its reciprocal (t, r + |R|, h)."""
    rows = torch.as_tensor(np.asarray(facts, dtype=np.int64))
    swapped = torch.stack([rows[:, 2], rows[:, 1] + relations, rows[:, 0]], dim=1)
    return torch.cat([rows, swapped])


def objective(model: Reference, facts: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """(cross entropy, weight × DURA) of a batch of facts."""
    scores, penalty = model(facts)
    return F.cross_entropy(scores, facts[:, 2]), weight * penalty


def step(model: Reference, optimizer: torch.optim.Optimizer, facts: Tensor, weight: float) -> float:
    """One step on a batch of facts; returns the sum of loss and penalty."""
    loss, penalty = objective(model, facts, weight)
    total = loss + penalty
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    return total.item()


def epoch(model: Reference, optimizer: torch.optim.Optimizer, facts: Tensor, weight: float, batch: int) -> float:
    """One pass over the shuffled facts; returns the mean loss of its steps."""
    order = torch.randperm(len(facts))
    losses = [step(model, optimizer, facts[rows], weight) for rows in order.split(batch)]
    return sum(losses) / max(1, len(losses))
