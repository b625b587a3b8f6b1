"""Rows: learn the rows of some entities while everything else stays fixed.

The step is that of the trainer, so loss, candidates and regularizer are those of the run. What differs is which questions are asked
(those that have one of these entities as head or answer), that layers answer as they do after training, and that the learning rate
follows from the size of the rows. It falls whenever the loss does, and learning ends when it no longer helps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from dura.data.questions import Questions
from dura.models import Model
from dura.objectives import Objective
from dura.regularizers import Regularizer
from dura.tables.partial import Partial
from dura.tables.table import Table
from dura.training.optimizers import RowAdagrad
from dura.training.progress import Plan
from dura.training.trainer import Trainer
from dura.types import DuraError, IntArray

RATE = 0.3
"""The first learning rate of Adagrad, in units of the root mean square of a table's other rows."""
FALL, PATIENCE, BETTER = 0.5, 3, 1e-3
"""The rate is multiplied by FALL if the loss did not get better by this share in this many epochs."""
LOWEST = 0.1
"""Learning ends when the rate is below this share of the first one."""
MOST_EPOCHS = 200


@dataclass(frozen=True)
class Learned:
    """How learning went: epochs over the questions, steps, and the loss with its penalty in the first and the last epoch."""

    epochs: int
    steps: int
    first: float
    last: float


def touching(questions: Questions, entities: IntArray, count: int, *, whole: bool) -> Questions:
    """The questions that have one of these entities as head or as answer. There are `count` entities in all.

    With `whole` they keep all their answers: the softmax of a question is shared by them. Without it, only facts are left in
    which one of these entities takes part.
    """
    mine = np.zeros(count, dtype=bool)
    mine[entities] = True
    answered = np.zeros(len(questions), dtype=bool)
    answered[questions.question[mine[questions.answers]]] = True
    found = questions.take(np.flatnonzero(mine[questions.head] | answered))
    return found if whole else found.only(mine[found.answers] | mine[found.head[found.question]])


class RowTrainer(Trainer):
    """A trainer that changes the rows that learn in tables of the kind `Partial`, and nothing else."""

    def __init__(
        self,
        model: Model,
        tables: Mapping[str, Partial],
        objective: Objective,
        regularizer: Regularizer,
        every: Questions,
        plan: Plan,
        facts: Questions | None = None,
    ) -> None:
        self.tables = list(tables.values())
        self.small = [nn.Parameter(table.detach()[table.learned]) for table in self.tables]
        groups = [
            {"params": [rows], "lr": RATE * _size(table)} for rows, table in zip(self.small, self.tables, strict=True)
        ]
        rule = RowAdagrad(groups)
        super().__init__(model, objective, regularizer, rule, every, plan, facts=facts)

    def learn(self, asked: Callable[[int], Questions], progress: Callable[[int, int], None] | None = None) -> Learned:
        """Learn until the loss no longer falls. `asked` gives the questions of each epoch."""
        slower = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, factor=FALL, patience=PATIENCE, threshold=BETTER
        )
        first = last = 0.0
        epoch = 0
        for epoch in range(1, MOST_EPOCHS + 1):
            values = [self.step(batch) for batch in asked(epoch).batches(self.plan.batch, self.plan.seed, epoch)]
            last = float(np.mean([sum(value) for value in values]))
            first = last if epoch == 1 else first
            slower.step(last)
            if progress is not None:
                progress(epoch, MOST_EPOCHS)
            if self.optimizer.param_groups[0]["lr"] < LOWEST * self.rates[0]:
                break
        return Learned(epoch, self.progress.steps, first, last)

    def step(self, batch: Questions) -> tuple[float, float]:
        """One step on a batch, with layers as they answer: dropout is off, and batch norm keeps its statistics."""
        self.model.eval()
        values = self._finite(*self._gradients(batch, self._draw()))
        for rows, table in zip(self.small, self.tables, strict=True):
            rows.grad = table.collected()
        self.optimizer.step()
        self._write()
        self.progress = replace(self.progress, steps=self.progress.steps + 1)
        return values

    @torch.no_grad()
    def _write(self) -> None:
        """Put the rows into their tables, where the model may constrain them."""
        for rows, table in zip(self.small, self.tables, strict=True):
            table.index_copy_(0, table.learned, rows)
        for parameter in self.model.parameters():
            if isinstance(parameter, Table):
                parameter.forget()
        if type(self.model).constrain is not Model.constrain:
            self.model.constrain()
            for rows, table in zip(self.small, self.tables, strict=True):
                rows.copy_(table[table.learned])

    def _diverged(self, loss: float, penalty: float) -> DuraError:
        return DuraError(
            f"the loss became {loss} and the penalty {penalty} while new entities were learned; train again"
        )


def _size(table: Partial) -> float:
    """The root mean square of the rows that do not learn; 1 if they are all zero."""
    others = len(table) - len(table.learned)
    learned = table.detach()[table.learned].square().sum(dtype=torch.float64)
    square = float(table.detach().square().sum(dtype=torch.float64) - learned) / max(1, others * table[0].numel())
    return square**0.5 if square > 0 else 1.0


@torch.no_grad()
def start_rows(table: Tensor, questions: Questions, entities: IntArray, rng: torch.Generator) -> Tensor:
    """Where the rows of these entities start: the mean of what answers their questions among the other entities.

    An entity takes part in questions as an answer. The other answers of such a question fit where it fits. If there is none, the
    entities that answer any of these questions with the same relation do. A little noise keeps equal entities apart.
    """
    mine = torch.zeros(len(table), dtype=torch.bool)
    mine[torch.as_tensor(entities).long()] = True
    answers, question = torch.as_tensor(questions.answers).long(), torch.as_tensor(questions.question)
    relation = torch.as_tensor(questions.relation).long()
    other, own = ~mine[answers], mine[answers]
    flat = table.flatten(1)
    means, there = _means(flat, answers[other], question[other], len(questions))
    wide, seen = _means(flat, answers[other], relation[question[other]], int(relation.max()) + 1)
    means = torch.where(there[:, None], means, wide[relation])
    there |= seen[relation]
    useful = own & there[question]
    place = torch.full((len(table),), -1)
    place[torch.as_tensor(entities).long()] = torch.arange(len(entities))
    rows, found = _means(means, question[useful], place[answers[useful]], len(entities))
    everyone = flat[~mine].mean(0) if bool((~mine).any()) else flat.new_zeros(flat.shape[1])
    rows = torch.where(found[:, None], rows, everyone)
    size = float(flat[~mine].square().mean().sqrt()) if bool((~mine).any()) else 1.0
    rows += 0.05 * size * torch.randn(rows.shape, generator=rng)
    return rows.view(len(entities), *table.shape[1:])


def _means(rows: Tensor, index: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The mean of rows[index] in each group, and which groups have any."""
    counts = torch.bincount(group, minlength=groups)
    total = rows.new_zeros(groups, rows.shape[1])
    for at in range(0, len(index), BLOCK):
        part = slice(at, at + BLOCK)
        total.index_add_(0, group[part], rows[index[part]])
    return total / counts.clamp(min=1)[:, None], counts > 0


BLOCK = 1 << 16
"""How many rows are added at a time."""
