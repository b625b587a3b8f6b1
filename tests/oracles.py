"""Literal float64 formulas, one fact at a time, straight from the paper: slow, plain, and written without the code they check.

`SCORES` and `ROWS` have one entry per model, `PENALTIES` one per regularizer, `LOSS_FORMS` one per loss. The laws look there. Add
an entry for each new row of the program's own tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Options = Mapping[str, float]
F = TypeVar("F")


def as_complex_rows(table: Tensor) -> Tensor:
    """Reals (2i, 2i+1) become the complex number re + i·im; differentiable."""
    pairs = table.reshape(*table.shape[:-1], -1, 2)
    return torch.complex(pairs[..., 0], pairs[..., 1])


STATIC = {"tcomplex": "complex", "tntcomplex": "complex", "trescal": "rescal"}
"""The static model whose formulas a temporal one has, with another relation."""


def literal_relation(model: str, tables: dict[str, Tensor], r: int, time: int) -> Tensor:
    """The relation of a fact: its row, or what a temporal model makes of it at this time."""
    row = tables["relations"][r]
    if model in ("tcomplex", "tntcomplex"):
        product = as_complex_rows(row) * as_complex_rows(tables["times"][time])
        if model == "tntcomplex":
            product = product + as_complex_rows(tables["untimed"][r])
        return torch.view_as_real(product).flatten()
    return row * tables["times"][time] if model == "trescal" else row


def literal_score(model: str, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """The score of one fact from its three rows, as in the table of models."""
    model = STATIC.get(model, model)
    if model in ("cp", "distmult"):
        return (h * r * t).sum()
    if model == "complex":
        h, r, t = as_complex_rows(h), as_complex_rows(r), as_complex_rows(t)
        return (h.conj() * r * t).sum().real
    if model == "rescal":
        return h @ r @ t
    raise NotImplementedError(f"{model!r} is not a semantic matching model of the paper; see SCORES")


def literal_products(model: str, h: Tensor, r: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """(h·R̄, t·Rᵀ) of one fact, complex where the model is."""
    model = STATIC.get(model, model)
    if model in ("cp", "distmult"):
        return h * r, t * r
    if model == "complex":
        h, r, t = as_complex_rows(h), as_complex_rows(r), as_complex_rows(t)
        return h * r.conj(), t * r
    if model == "rescal":
        return h @ r, t @ r.T
    raise NotImplementedError(f"{model!r} is not a semantic matching model of the paper; see ROWS")


def literal_onward(model: str, t: Tensor, r: Tensor) -> Tensor:
    """t·R̄ of one fact: the tail where the head stands, complex where the model is."""
    return literal_products(model, t, r, t)[0]


State = dict[str, Tensor]
"""The parameters and buffers of a model by name."""


def tail_table(state: State) -> Tensor:
    """The rows of entities as tails in the tables of a semantic matching model."""
    return state.get("tail", state["entity"])


def _semantic_score(model: str, state: State, *fact: int) -> Tensor:
    h, r, t, time = fact
    return literal_score(model, state["entity"][h], literal_relation(model, state, r, time), tail_table(state)[t])


@dataclass(frozen=True)
class Rows:
    """The rows of one fact that a regularizer may look at, as real numbers and straight from the tables."""

    h: Tensor
    r: tuple[Tensor, ...]
    """The relation at the fact's time, one row per part if it is a sum."""
    t: Tensor
    complex: bool = False
    """True if neighbouring reals are one complex number."""
    products: tuple[Tensor, Tensor] | None = None
    """(h·R̄, t·Rᵀ) if the model has an adjoint, complex where the model is."""
    apart: tuple[Tensor, Tensor] | None = None
    """The rows of relation and time, if the relation at a time is their product."""
    onward: Tensor | None = None
    """t·R̄ if the model has an adjoint."""

    def numbers(self, row: Tensor) -> Tensor:
        """The row as complex numbers where the model is complex."""
        return as_complex_rows(row) if self.complex else row


def _semantic_rows(model: str, state: State, *fact: int) -> Rows:
    h, r, t, time = fact
    apart = (state["relations"][r], state["times"][time]) if "times" in state else None
    untimed = state["untimed"][r] if "untimed" in state else None
    rho = literal_relation(model, state, r, time)
    return _rows(model, state["entity"][h], rho, tail_table(state)[t], apart, untimed)


def _rows(
    model: str, h: Tensor, r: Tensor, t: Tensor, apart: tuple[Tensor, Tensor] | None, untimed: Tensor | None
) -> Rows:
    parts: tuple[Tensor, ...] = (r,)
    if untimed is not None and apart is not None:
        timed = as_complex_rows(apart[0]) * as_complex_rows(apart[1])
        parts = (torch.view_as_real(timed).flatten(), untimed)
    products, onward = literal_products(model, h, r, t), literal_onward(model, t, r)
    return Rows(h, parts, t, STATIC.get(model, model) == "complex", products, apart, onward)


SEMANTIC = ("cp", "distmult", "complex", "rescal", *STATIC)

SCORES: dict[str, Callable[[State, int, int, int, int], Tensor]] = {
    model: partial(_semantic_score, model) for model in SEMANTIC
}
"""The score of the fact (head, relation, tail, time) from the state of a model in evaluation mode, per model.

A model of another package adds its own: `conftest.py` imports the modules that the environment variable DURA_TEST_LITERALS names,
and they write to this table and to `ROWS`, `PENALTIES` and `LOSS_FORMS`.
"""

ROWS: dict[str, Callable[[State, int, int, int, int], Rows]] = {
    model: partial(_semantic_rows, model) for model in SEMANTIC
}
"""The rows of the fact (head, relation, tail, time) that regularizers see, per model."""


def formula(table: dict[str, F], name: str) -> F:
    """The entry of a table of formulas; the test fails if it is missing."""
    if name not in table:
        names = {id(SCORES): "SCORES", id(ROWS): "ROWS", id(PENALTIES): "PENALTIES", id(LOSS_FORMS): "LOSS_FORMS"}
        pytest.fail(
            f"{name!r} has no literal formula: write oracles.{names[id(table)]}[{name!r}], in tests/oracles.py or in a module of "
            "your own that the environment variable DURA_TEST_LITERALS names",
            pytrace=False,
        )
    return table[name]


def literal_penalty(
    name: str,
    model: str,
    h: Tensor,
    r: Tensor,
    t: Tensor,
    options: Options,
    apart: tuple[Tensor, Tensor] | None = None,
    untimed: Tensor | None = None,
) -> Tensor:
    """The regularizer of one fact of a semantic matching model from its rows, without its weight.

    `apart` are the rows of relation and time where there are times, `untimed` TNTComplEx's other row of the relation.
    """
    return formula(PENALTIES, name)(_rows(model, h, r, t, apart, untimed), options)


def square(x: Tensor) -> Tensor:
    """Σ |x|²."""
    return (x.conj() * x).real.sum()


def cube(x: Tensor) -> Tensor:
    """Σ |x|³."""
    return (x.abs() ** 3).sum()


def _each_part(measure: Callable[[Tensor], Tensor], rows: Rows) -> Tensor:
    """measure(h) + measure(r) + measure(t) for each part of the relation; without a relation, only the entities."""
    h, t = rows.numbers(rows.h), rows.numbers(rows.t)
    entities = measure(h) + measure(t)
    if not rows.r:
        return entities
    return torch.stack([entities + measure(rows.numbers(part).flatten()) for part in rows.r]).sum()


def _dura(rows: Rows, plain: float, turned: float) -> Tensor:
    assert rows.products is not None
    query, reverse = rows.products
    return plain * (square(rows.h) + square(rows.t)) + turned * (square(query) + square(reverse))


def _dura_i(rows: Rows, _: Options) -> Tensor:
    assert rows.products is not None
    return square(rows.products[0]) + square(rows.t)


def _dura_ii(rows: Rows, _: Options) -> Tensor:
    assert rows.products is not None
    return square(rows.products[1]) + square(rows.h)


def _dura2(rows: Rows, options: Options) -> Tensor:
    assert rows.apart is not None
    h, t, alone, time = (rows.numbers(row) for row in (rows.h, rows.t, *rows.apart))
    first = square(h.conj() * alone) + square(t * time)
    second = square(h.conj() * time) + square(t * alone)
    return options["lambda1"] * first + options["lambda2"] * second


def _reg_p1(rows: Rows, _: Options) -> Tensor:
    assert rows.products is not None
    query, reverse = rows.products
    return (query - rows.numbers(rows.t)).abs().sum() + (reverse - rows.numbers(rows.h)).abs().sum()


def _er(rows: Rows, options: Options) -> Tensor:
    """As published for σ = 1: ‖h‖² + ‖t‖² + ‖hR̄ ∓ tR̄‖², where σ < 1 mixes both signs so that they are 2σ apart."""
    assert rows.products is not None and rows.onward is not None
    query, h, t = rows.products[0], rows.numbers(rows.h), rows.numbers(rows.t)
    apart, size = float(square(h - t).detach()), float((square(h) + square(t)).detach())
    close = math.sqrt(apart) <= options["threshold"] * math.sqrt(size)
    less, more = square(query - rows.onward), square(query + rows.onward)
    near, far = (less, more) if close else (more, less)
    share = (1 + options["strength"]) / 2
    return options["lambda1"] * (square(h) + square(t)) + options["lambda2"] * (share * near + (1 - share) * far)


def _ivr(rows: Rows, options: Options) -> Tensor:
    assert rows.products is not None
    query, reverse = rows.products
    h, t, r = rows.numbers(rows.h), rows.numbers(rows.t), rows.numbers(torch.stack(rows.r).sum(0))

    def n(x: Tensor) -> Tensor:
        return (x.abs() ** options["power"]).sum()

    single = n(h) + n(t) + options["relation"] * n(r)
    paired = n(query) + n(reverse) + options["ends"] * n(t * h)
    return options["lambda1"] * single + options["lambda2"] * paired


PENALTIES: dict[str, Callable[[Rows, Options], Tensor]] = {
    "none": lambda rows, _: 0 * rows.h.sum(),
    "fro": lambda rows, _: _each_part(square, rows),
    "n3": lambda rows, _: _each_part(cube, rows),
    "dura": lambda rows, options: _dura(rows, options["lambda1"], options["lambda2"]),
    "dura-i": _dura_i,
    "dura-ii": _dura_ii,
    "dura1": lambda rows, options: _dura(rows, options["lambda3"], options["lambda4"]),
    "dura2": _dura2,
    "dura12": lambda rows, options: PENALTIES["dura1"](rows, options) + PENALTIES["dura2"](rows, options),
    "reg-p1": _reg_p1,
    "er": _er,
    "ivr": _ivr,
}
"""The penalty of one fact without the regularizer's weight, per regularizer, from its rows and the regularizer's options."""


def _binary(_: Any, positive: Tensor, negative: Tensor) -> Tensor:
    terms = [-torch.log(torch.sigmoid(positive)), *(-torch.log(1 - torch.sigmoid(s)) for s in negative)]
    return torch.stack(terms).mean()


def _margin(loss: Any, positive: Tensor, negative: Tensor) -> Tensor:
    hinges = [torch.clamp(loss.margin + s - positive, min=0) for s in negative]
    return torch.stack(hinges).mean() if hinges else 0 * positive


def _self_adversarial(loss: Any, positive: Tensor, negative: Tensor) -> Tensor:
    p = (loss.temperature * negative).exp().detach()
    p = p / p.sum()
    wrong = sum(
        (-w * torch.log(torch.sigmoid(-loss.margin - s)) for w, s in zip(p, negative, strict=True)), 0 * positive
    )
    return (-torch.log(torch.sigmoid(loss.margin + positive)) + wrong) / 2


LOSS_FORMS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "softmax": lambda _, positive, negative: torch.cat([positive[None], negative]).exp().sum().log() - positive,
    "binary": _binary,
    "margin": _margin,
    "self-adversarial": _self_adversarial,
}
"""The loss of one fact, per loss: from the loss (for its settings), the fact's score and the scores of its negatives [k].

Negatives that are left out are not among them, so k may be 0.
"""


def literal_smoothness(times: Tensor, p: int, over_complex: bool) -> Tensor:
    """1/(|T| − 1) Σ_l Σ_d |τ_{l+1} − τ_l|^p, without its weight; `times` without the row of no time."""
    total = torch.zeros((), dtype=torch.float64)
    for earlier, later in itertools.pairwise(times):
        step = as_complex_rows(later - earlier) if over_complex else later - earlier
        total = total + (step.abs() ** p).sum()
    return total / (len(times) - 1)


def literal_cross_entropy(scores: Tensor, answers: list[int], weights: list[float]) -> Tensor:
    """Σ w·(log Σ exp(s) − s_answer) / Σ w over facts; one row of scores a fact."""
    losses = [w * (torch.logsumexp(s, 0) - s[a]) for s, a, w in zip(scores, answers, weights, strict=True)]
    return torch.stack(losses).sum() / math.fsum(weights)


def literal_weights(answers: Array, entities: int, w0: float) -> Array:
    """w(t) = w0·#t/max# + (1 − w0)."""
    count = np.zeros(entities)
    for answer in answers:
        count[answer] += 1
    weights: Array = w0 * count / count.max() + (1 - w0)
    return weights
