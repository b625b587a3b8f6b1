"""Penalty: a regularizer of dura in PyKEEN's training loop.

PyKEEN's own regularizers see the rows of one table at a time. DURA needs head, relation and tail of a fact together. So it is a
callback: after PyKEEN's own gradients of a batch and before the optimizer's step, it adds those of the penalty.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dura.bridges.installed import part
from dura.models.families import ComplexDiagonal, Dense, Diagonal, Family, Relations, Rows, as_real
from dura.regularizers import REGULARIZERS
from dura.regularizers.forms import Regularizer
from dura.types import BadInput, Factors, Traits

if TYPE_CHECKING:
    from collections.abc import Iterator

    Callback = Any
else:
    Callback = part("training.callbacks").TrainingCallback


class Matrices(Dense):
    """The family of RESCAL over rows that autograd knows. dura's own collects gradients in its tables."""

    def apply(self, x: Tensor, relations: Relations) -> Tensor:
        """x·R."""
        return (x[:, None] @ relations.read())[:, 0]

    def adjoint(self, x: Tensor, relations: Relations) -> Tensor:
        """x·Rᵀ."""
        return (x[:, None] @ relations.read().mT)[:, 0]


FAMILIES: dict[str, Family] = {
    "ComplExInteraction": ComplexDiagonal(),
    "RESCALInteraction": Matrices(),
    "CPInteraction": Diagonal(),
    "DistMultInteraction": Diagonal(),
}
"""PyKEEN's interactions that a regularizer of dura can be added to."""


def factors_of(model: Any, pairs: Tensor, question: Tensor, answers: Tensor) -> Factors:
    """The factors of a batch of PyKEEN: `pairs` are (head, relation) [q, 2]. Fact i has tail answers[i] and pair question[i]."""
    family = family_of(model)
    with _alone(model):
        head = _rows(model.entity_representations[0], pairs[:, 0], family)
        tail = _rows(model.entity_representations[-1], answers, family)
        relation = _rows(model.relation_representations[0], pairs[:, 1], family, relation=True)
    relations = Rows(relation, torch.arange(len(pairs), device=pairs.device))

    def relation_and_counts() -> tuple[tuple[Tensor, ...], Tensor]:
        distinct, facts = relations.distinct(question)
        return distinct, facts.to(head.dtype)

    return Factors(
        head=head,
        query=family.apply(head, relations),
        counts=torch.bincount(question, minlength=len(pairs)).to(head.dtype),
        question=question,
        complex=family.complex,
        read_tail=lambda: tail,
        read_reverse=lambda: family.adjoint(tail, relations.at(question)),
        read_onward=lambda: family.apply(tail, relations.at(question)),
        read_relation=relation_and_counts,
    )


def family_of(model: Any) -> Family:
    """How the relations of a model of PyKEEN act; one sentence if no regularizer of dura is defined for it."""
    name = type(getattr(model, "interaction", None)).__name__
    if name not in FAMILIES:
        known = ", ".join(interaction.removesuffix("Interaction") for interaction in FAMILIES)
        raise BadInput(f"dura's regularizers can be added to PyKEEN's {known}, not to {type(model).__name__}")
    return FAMILIES[name]


def _rows(representation: Any, ids: Tensor, family: Family, relation: bool = False) -> Tensor:
    """Rows in dura's form. PyKEEN scores Re<h∘r∘t̄>, dura Re<h̄∘r∘t>, so complex relations are conjugated."""
    rows: Tensor = representation(ids)
    if rows.is_complex():
        return as_real(rows.conj() if relation else rows)
    return rows if relation and not family.diagonal else rows.flatten(1)


@contextmanager
def _alone(model: Any) -> Iterator[None]:
    """Read rows without counting them in PyKEEN's own regularizers, whose terms have been used already."""
    own = [*model.entity_representations, *model.relation_representations]
    kept = [representation.regularizer for representation in own]
    for representation in own:
        representation.regularizer = None
    try:
        yield
    finally:
        for representation, regularizer in zip(own, kept, strict=True):
            representation.regularizer = regularizer


def facts_of(batch: Any, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(pairs, question, answers) of a batch of PyKEEN's LCWA or sLCWA loop. Negatives are no facts."""
    if isinstance(batch, dict) and "pairs" in batch:
        question, answers = (batch["target"] > 0).nonzero(as_tuple=True)
        return batch["pairs"].to(device), question.to(device), answers.to(device)
    if isinstance(batch, dict) and "positives" in batch:
        facts = batch["positives"].to(device)
        return facts[:, :2], torch.arange(len(facts), device=device), facts[:, 2]
    raise BadInput("dura's regularizers work in PyKEEN's training loops lcwa and slcwa, and this is another one")


class Penalty(Callback):  # type: ignore[misc]
    """A callback that adds the gradients of a regularizer of dura to each step.

    `instead` replaces the regularizers that the model has by default. `last` is the penalty of the newest batch.
    """

    def __init__(self, regularizer: Regularizer, name: str, *, instead: bool = True) -> None:
        super().__init__()
        self.regularizer, self.name, self.instead = regularizer, name, instead
        self.last = 0.0

    def register_training_loop(self, training_loop: Any) -> None:
        """Check the model and the loop before the first step."""
        super().register_training_loop(training_loop)
        model = training_loop.model
        traits = Traits(temporal=False, diagonal=family_of(model).diagonal, adjoint=True, apart=False)
        self.regularizer.check(self.name, type(model).__name__, traits)
        if getattr(training_loop, "target", 2) not in (None, 2):
            raise BadInput("dura's regularizers need a training loop that asks for tails; leave out the loop's target")
        if self.instead:
            for representation in (*model.entity_representations, *model.relation_representations):
                representation.regularizer = None
            model.weight_regularizers = torch.nn.ModuleList()

    def post_batch(self, epoch: int, batch: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Add the gradients of the penalty. PyKEEN's own callback, which takes the step, comes after this one."""
        pairs, question, answers = facts_of(batch, self.model.device)
        if len(answers):
            penalty = self.regularizer(factors_of(self.model, pairs, question, answers))
            penalty.backward()
            self.last = float(penalty.detach())


def build(name: str, options: dict[str, Any], instead: bool) -> Penalty:
    """The callback with a regularizer of dura's table."""
    return Penalty(REGULARIZERS.build(name, options), name, instead=instead)
