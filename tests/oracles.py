"""Literal float64 formulas, one fact at a time, straight from the paper: slow, plain, and written without the code they check.

Complex rows are Python complex arrays here; `as_complex_rows` reads the interleaved reals of a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


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
    raise NotImplementedError(f"write the literal score of {model!r} here")


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
    raise NotImplementedError(f"write the literal products of {model!r} here")


def literal_penalty(
    name: str,
    model: str,
    h: Tensor,
    r: Tensor,
    t: Tensor,
    options: dict[str, float],
    apart: tuple[Tensor, Tensor] | None = None,
    untimed: Tensor | None = None,
) -> Tensor:
    """The regularizer of one fact, without its weight.

    `apart` are the rows of relation and time where there are times, `untimed` TNTComplEx's other row of the relation.
    """
    query, reverse = literal_products(model, h, r, t)
    alone, time = apart or (r, r)
    if STATIC.get(model, model) == "complex":
        h, r, t, alone, time = (as_complex_rows(row) for row in (h, r, t, alone, time))
    tnt = None if untimed is None else (alone * time, as_complex_rows(untimed))

    def square(x: Tensor) -> Tensor:
        return (x.conj() * x).real.sum()

    def cube(x: Tensor) -> Tensor:
        return (x.abs() ** 3).sum()

    def l1(x: Tensor) -> Tensor:
        return x.abs().sum()

    forms: dict[str, Callable[[], Tensor]] = {
        "none": lambda: torch.zeros((), dtype=torch.float64),
        "fro": lambda: (
            square(h) + square(r.flatten()) + square(t)
            if tnt is None
            else 2 * square(h) + square(tnt[0]) + square(tnt[1]) + 2 * square(t)
        ),
        "n3": lambda: (
            cube(h) + cube(r) + cube(t) if tnt is None else 2 * cube(h) + cube(tnt[0]) + cube(tnt[1]) + 2 * cube(t)
        ),
        "dura-i": lambda: square(query) + square(t),
        "dura-ii": lambda: square(reverse) + square(h),
        "dura": lambda: (
            options["lambda1"] * (square(h) + square(t)) + options["lambda2"] * (square(query) + square(reverse))
        ),
        "dura1": lambda: (
            options["lambda3"] * (square(h) + square(t)) + options["lambda4"] * (square(query) + square(reverse))
        ),
        "dura2": lambda: (
            options["lambda1"] * (square(h.conj() * alone) + square(t * time))
            + options["lambda2"] * (square(h.conj() * time) + square(t * alone))
        ),
        "dura12": lambda: forms["dura1"]() + forms["dura2"](),
        "reg-p1": lambda: l1(query - t) + l1(reverse - h),
    }
    if name not in forms:
        raise NotImplementedError(f"write the literal form of {name!r} here")
    return forms[name]()


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
