"""Statements: what the paper's theorems say of a regularizer, with the regularizers and models of the product itself.

A theorem says: of all ways to write a tensor of scores as Σ_d u_d ⊗ r_d ⊗ v_d (⊗ τ_d), the least value of a DURA, summed over all
facts that could be, is the tensor's nuclear 2-norm, the least Σ_d ‖u_d‖·‖r_d‖·‖v_d‖(·‖τ_d‖). Relations are diagonal; heads and
tails have rows of their own, as many of either.
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
from dura.types import Sizes

VANISHED = 1e-6
"""A column with less than this share of the largest one's norm is as good as gone, and so are the conditions on it."""


@dataclass(frozen=True)
class Columns:
    """The factors of a tensor by columns: Σ_d head_d ⊗ relation_d ⊗ tail_d (⊗ time_d); real or complex, [n, D] each.

    >>> Columns(torch.ones(4, 1), torch.ones(9, 1), torch.ones(4, 1)).bound()
    12.0
    """

    head: Tensor
    relation: Tensor
    tail: Tensor
    time: Tensor | None = None

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Head, relation, tail and, where there is one, time."""
        three = self.head, self.relation, self.tail
        return three if self.time is None else (*three, self.time)

    @property
    def times(self) -> int:
        """How many times there are; 1 where facts have none."""
        return 1 if self.time is None else len(self.time)

    def norms(self) -> Tensor:
        """The length of every column [3 or 4, D]."""
        return torch.stack([part.norm(dim=0) for part in self.parts])

    def bound(self) -> float:
        """Σ_d ‖u_d‖·‖r_d‖·‖v_d‖(·‖τ_d‖)."""
        return float(self.norms().prod(0).sum())

    def scaled(self, by: Tensor) -> Columns:
        """Every column times a number, `by` [3 or 4, D]; where these multiply to 1 the tensor stays the same."""
        return Columns(*(part * scale for part, scale in zip(self.parts, by, strict=True)))


@dataclass(frozen=True)
class Statement:
    """A regularizer whose least value over all ways to write a tensor is said to be the tensor's nuclear 2-norm.

    `lambdas` are the weights (λ₁, λ₂) of DURA and DURA2, (λ₃, λ₄) of DURA1. The theorems have 1 and 1; with others the least value
    is √(λ₁λ₂) times the norm for DURA and DURA1, (λ₁ + λ₂)/2 times for DURA2, and `value` is divided by that.
    """

    name: str
    regularizer: str
    model: str
    real: bool = True
    """False where columns are complex."""
    lambdas: tuple[float, float] | None = None
    """None where the regularizer has no such weights."""
    bounded: bool = True
    """False where the paper says that there is no such bound."""

    @property
    def temporal(self) -> bool:
        """Whether tensors have a fourth side, that of times."""
        return MODELS.get(self.model).temporal

    @property
    def least(self) -> float:
        """The factor that the weights bring to the least value."""
        if self.lambdas is None:
            return 1.0
        return sum(self.lambdas) / 2 if self.regularizer == "dura2" else math.sqrt(math.prod(self.lambdas))

    def value(self, columns: Columns) -> Tensor:
        """The statement's left side, as training would compute it; gradients flow to the columns that want them.

        Summed over all facts (i, j, k[, l]) and divided by |E|·4√(|R||T|) (by |E|·2√|R| for DURA-I and DURA-II) and by `least`.
        """
        model, numbers = self._model(columns)
        factors = model.factors(*_all_facts(*self._shape(columns)))
        value = _regularizer(self.regularizer, self._options(columns))(factors) / self.least
        if not any(reals.requires_grad for reals in numbers):
            return value.detach()
        # The tables keep their gradients to themselves; here they are handed on to the columns.
        value.backward()
        slopes = _places(model, columns, gradients=True)
        steps = [(slope * (reals - reals.detach())).sum() for slope, reals in zip(slopes, numbers, strict=True)]
        return value.detach() + torch.stack(steps).sum()

    def scores(self, columns: Columns) -> Tensor:
        """The tensor itself: the score of every fact."""
        head, relation, question, answers, time = _all_facts(*self._shape(columns))
        model, _ = self._model(columns)
        moment = None if time is None else time[question]
        with torch.no_grad():
            return model.score(head[question], relation[question], answers, moment)

    def minimizer(self, columns: Columns) -> Columns:
        """The same tensor with its columns rescaled as the statement says: their numbers multiply to 1."""
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

    def conditions(self, columns: Columns) -> float:
        """By how much the stated conditions of minimizers fail, relatively, at worst over the columns that have not vanished."""
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

    def _shape(self, columns: Columns) -> tuple[int, int, int]:
        return len(columns.head), len(columns.relation), len(columns.time) if columns.time is not None else 0

    def _options(self, columns: Columns) -> tuple[tuple[str, float], ...]:
        """The regularizer's options; its weight turns the mean over all facts into the statement's sum."""
        quarters = 2 if self.regularizer in ("dura-i", "dura-ii") else 4
        weight = len(columns.head) * math.sqrt(len(columns.relation) * columns.times) / quarters
        names = ("lambda3", "lambda4") if self.regularizer == "dura1" else ("lambda1", "lambda2")
        return ("weight", weight), *zip(names, self.lambdas or (), strict=False)

    def _model(self, columns: Columns) -> tuple[Model, list[Tensor]]:
        """The model with these columns in its tables, and the same as the reals that stand there.

        Heads are the first half of the entities and tails the second, so that a model with one table has columns of both.
        """
        heads, relations, times = self._shape(columns)
        rank = columns.head.shape[1]
        model = _empty(self.model, rank, Sizes(2 * heads, relations, times))
        over_complex = isinstance(model, SemanticMatching) and model.family.complex
        numbers = [as_real(part + 0j).contiguous() if over_complex else part for part in columns.parts]
        for table in model.parameters():
            table.grad = None
        with torch.no_grad():
            for place, reals in zip(_places(model, columns), numbers, strict=True):
                place.copy_(reals)
        return model, numbers


@lru_cache(maxsize=64)
def _empty(name: str, rank: int, sizes: Sizes) -> Model:
    """A model whose tables wait to be filled; thousands of columns have the same few shapes."""
    return MODELS.build(name, {"rank": rank}, sizes).double()


@lru_cache(maxsize=64)
def _regularizer(name: str, options: tuple[tuple[str, float], ...]) -> Regularizer:
    return REGULARIZERS.build(name, dict(options))


def _places(model: Model, columns: Columns, gradients: bool = False) -> list[Tensor]:
    """Where each part stands in the model's tables, or in their gradients."""
    tables = {name: table.grad if gradients else table for name, table in model.named_parameters()}
    entity, relations = tables["entity"], tables["relations"]
    tails = tables.get("answer", entity)
    assert entity is not None and tails is not None and relations is not None
    heads = len(columns.head)
    places = [entity[:heads], relations[: len(columns.relation)], tails[heads:]]
    times = tables.get("times")
    return places if times is None else [*places, times]


@lru_cache(maxsize=64)
def _all_facts(entities: int, relations: int, times: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Every question with every answer, as `Model.factors` takes them: head, relation, question, answers, time."""
    ids = [torch.arange(n) for n in (entities, relations, max(1, times))]
    head, relation, time = torch.cartesian_prod(*ids).unbind(1)
    question = torch.arange(len(head)).repeat_interleave(entities)
    answers = entities + torch.arange(entities).repeat(len(head))
    return head, relation, question, answers, time if times else None
