"""Statements: what the paper's theorems say about a regularizer, computed with our regularizers and models.

A theorem says: over all decompositions Σ_d u_d ⊗ r_d ⊗ v_d (⊗ τ_d) of a tensor of scores, the least value of a DURA, summed over
all possible facts, is the tensor's nuclear 2-norm, which is the least Σ_d ‖u_d‖·‖r_d‖·‖v_d‖(·‖τ_d‖). Relations are diagonal; heads
and tails have separate rows, the same number of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from dura.models import MODELS, Model, SemanticMatching
from dura.models.families import as_real
from dura.regularizers import REGULARIZERS, Regularizer
from dura.tables import Table
from dura.types import Sizes

VANISHED = 1e-6
"""A column whose norm is below this share of the largest has vanished; the conditions do not apply to it."""


@dataclass(frozen=True)
class Decomposition:
    """One way to write a tensor: Σ_d head_d ⊗ relation_d ⊗ tail_d (⊗ time_d). Each part is real or complex, [n, D].

    >>> Decomposition(torch.ones(4, 1), torch.ones(9, 1), torch.ones(4, 1)).bound()
    12.0
    """

    head: Tensor
    relation: Tensor
    tail: Tensor
    time: Tensor | None = None

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Head, relation, tail and, if there is one, time."""
        three = self.head, self.relation, self.tail
        return three if self.time is None else (*three, self.time)

    @property
    def times(self) -> int:
        """The number of times. 1 if facts have no times."""
        return 1 if self.time is None else len(self.time)

    def norms(self) -> Tensor:
        """The length of every column [3 or 4, D]."""
        return torch.stack([part.norm(dim=0) for part in self.parts])

    def bound(self) -> float:
        """Σ_d ‖u_d‖·‖r_d‖·‖v_d‖(·‖τ_d‖)."""
        return float(self.norms().prod(0).sum())

    def scaled(self, by: Tensor) -> Decomposition:
        """Every column times a number, `by` [3 or 4, D]. If the numbers of each d multiply to 1, the tensor stays the same."""
        return Decomposition(*(part * scale for part, scale in zip(self.parts, by, strict=True)))


@dataclass(frozen=True)
class Statement:
    """A claim: the least value of a regularizer over all decompositions of a tensor is the tensor's nuclear 2-norm.

    `lambdas` are the weights (λ₁, λ₂) of DURA and DURA2, (λ₃, λ₄) of DURA1. The theorems have 1 and 1. With other weights the least
    value is √(λ₁λ₂) times the norm for DURA and DURA1, (λ₁ + λ₂)/2 times the norm for DURA2, and `value` is divided by this factor.
    """

    name: str
    regularizer: str
    model: str
    real: bool = True
    """False if columns are complex."""
    lambdas: tuple[float, float] | None = None
    """None if the regularizer has no such weights."""
    bounded: bool = True
    """False if the paper says that there is no such bound."""

    @property
    def temporal(self) -> bool:
        """True if tensors have a fourth dimension, the times."""
        return MODELS.get(self.model).temporal

    @property
    def least(self) -> float:
        """The factor by which the weights change the least value."""
        if self.lambdas is None:
            return 1.0
        return sum(self.lambdas) / 2 if self.regularizer == "dura2" else math.sqrt(math.prod(self.lambdas))

    def value(self, columns: Decomposition) -> Tensor:
        """The value of the regularizer, as training computes it. Gradients flow to the columns that require them.

        Summed over all facts (i, j, k[, l]) and divided by |E|·4√(|R||T|) (by |E|·2√|R| for DURA-I and DURA-II) and by `least`.
        """
        model, numbers = self._model(columns)
        factors = model.factors(*_all_facts(*self._shape(columns)))
        value = _regularizer(self.regularizer, self._options(columns))(factors) / self.least
        if not any(reals.requires_grad for reals in numbers):
            return value.detach()
        # The tables collect their gradients in place; here they are passed on to the columns.
        value.backward()
        slopes = _places(model, columns, gradients=True)
        steps = [(slope * (reals - reals.detach())).sum() for slope, reals in zip(slopes, numbers, strict=True)]
        return value.detach() + torch.stack(steps).sum()

    def scores(self, columns: Decomposition) -> Tensor:
        """The tensor: the score of every fact."""
        head, relation, question, answers, time = _all_facts(*self._shape(columns))
        model, _ = self._model(columns)
        moment = None if time is None else time[question]
        with torch.no_grad():
            return model.score(head[question], relation[question], answers, moment)

    def minimizer(self, columns: Decomposition) -> Decomposition:
        """The same tensor with its columns rescaled to the stated minimizer. The scales of each column multiply to 1."""
        u, r, v, *time = columns.norms()
        turned = r * time[0] if time else r
        root = math.sqrt(len(columns.relation) * columns.times)
        if self.regularizer == "dura-i":  # leaves heads as they are, as in the proof of Theorem 1
            by = (v * root / (u * r)).sqrt()
            scales = [torch.ones_like(by), by, 1 / by]
        elif self.regularizer == "dura-ii":
            by = (u * root / (v * r)).sqrt()
            scales = [1 / by, by, torch.ones_like(by)]
        elif self.regularizer == "dura2":  # ‖u‖ = ‖v‖ and √|T|·‖r‖ = √|R|·‖τ‖
            by = (time[0] * math.sqrt(len(columns.relation) / columns.times) / r).sqrt()
            scales = [(v / u).sqrt(), by, (u / v).sqrt(), 1 / by]
        else:  # ‖u‖ = ‖v‖ and ‖r‖·‖τ‖ = √(|R||T|)·√(λ₁/λ₂)
            assert self.lambdas is not None
            by = root * math.sqrt(self.lambdas[0] / self.lambdas[1]) / turned
            entities = [(v / (u * by)).sqrt(), (u / (v * by)).sqrt()]
            both = [by.sqrt()] * 2 if time else [by]
            scales = [entities[0], both[0], entities[1], *both[1:]]
        return columns.scaled(torch.stack(scales))

    def conditions(self, columns: Decomposition) -> float:
        """The largest relative error of the stated conditions for minimizers, over the columns that have not vanished."""
        lengths = columns.norms()
        u, r, v, *time = lengths[:, lengths.prod(0) > VANISHED * lengths.prod(0).max()]
        if self.regularizer == "dura2":
            by = math.sqrt(columns.times / len(columns.relation))
            pairs = [(by * u * r, v * time[0]), (u * time[0], by * v * r)]
        else:
            one, two = self.lambdas or (1.0, 1.0)
            root = math.sqrt(len(columns.relation) * columns.times * one / two)
            turned = (r * time[0] if time else r) / root
            first, second = (turned * u, v), (turned * v, u)
            pairs = {"dura-i": [first], "dura-ii": [second]}.get(self.regularizer, [first, second])
        return max(float((left / right - 1).abs().max()) for left, right in pairs)

    def _shape(self, columns: Decomposition) -> tuple[int, int, int]:
        return len(columns.head), len(columns.relation), len(columns.time) if columns.time is not None else 0

    def _options(self, columns: Decomposition) -> tuple[tuple[str, float], ...]:
        """The regularizer's options. The weight turns the mean over all facts into the sum of the statement."""
        quarters = 2 if self.regularizer in ("dura-i", "dura-ii") else 4
        weight = len(columns.head) * math.sqrt(len(columns.relation) * columns.times) / quarters
        names = ("lambda3", "lambda4") if self.regularizer == "dura1" else ("lambda1", "lambda2")
        return ("weight", weight), *zip(names, self.lambdas or (), strict=False)

    def _model(self, columns: Decomposition) -> tuple[Model, list[Tensor]]:
        """The model with these columns in its tables, and the columns as real numbers, in the form in which they are stored.

        Heads are the first half of the entities and tails the second, so that a model with one table holds both.
        """
        heads, relations, times = self._shape(columns)
        rank = columns.head.shape[1]
        model = _empty(self.model, rank, Sizes(2 * heads, relations, times))
        over_complex = isinstance(model, SemanticMatching) and model.family.complex
        numbers = [as_real(part + 0j).contiguous() if over_complex else part for part in columns.parts]
        for table in model.parameters():
            if isinstance(table, Table):
                table.forget()
        with torch.no_grad():
            for place, reals in zip(_places(model, columns), numbers, strict=True):
                place.copy_(reals)
        return model, numbers


@lru_cache(maxsize=64)
def _empty(name: str, rank: int, sizes: Sizes) -> Model:
    """A model to fill. It is cached, because thousands of decompositions have the same few shapes."""
    return MODELS.build(name, {"rank": rank}, sizes).double()


@lru_cache(maxsize=64)
def _regularizer(name: str, options: tuple[tuple[str, float], ...]) -> Regularizer:
    return REGULARIZERS.build(name, dict(options))


def _places(model: Model, columns: Decomposition, gradients: bool = False) -> list[Tensor]:
    """The place of each part in the model's tables, or in their gradients."""
    found = {name: table for name, table in model.named_parameters() if isinstance(table, Table)}
    tables = {name: table.gradient() if gradients else table for name, table in found.items()}
    entity, relations = tables["entity"], tables["relations"]
    tails = tables.get("tail", entity)
    heads = len(columns.head)
    places = [entity[:heads], relations[: len(columns.relation)], tails[heads:]]
    times = tables.get("times")
    return places if times is None else [*places, times]


@lru_cache(maxsize=64)
def _all_facts(entities: int, relations: int, times: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Every question with every answer, in the form of `Model.factors`: head, relation, question, answers, time."""
    ids = [torch.arange(n) for n in (entities, relations, max(1, times))]
    head, relation, time = torch.cartesian_prod(*ids).unbind(1)
    question = torch.arange(len(head)).repeat_interleave(entities)
    answers = entities + torch.arange(entities).repeat(len(head))
    return head, relation, question, answers, time if times else None
