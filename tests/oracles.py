"""Literal float64 formulas, one fact at a time, straight from the paper: slow, plain, and written without the code they check.

Complex rows are Python complex arrays here; `as_complex_rows` reads the interleaved reals of a table.
"""

from __future__ import annotations

import math
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


def literal_score(model: str, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """The score of one fact from its three rows, as in the table of models."""
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
    if model in ("cp", "distmult"):
        return h * r, t * r
    if model == "complex":
        h, r, t = as_complex_rows(h), as_complex_rows(r), as_complex_rows(t)
        return h * r.conj(), t * r
    if model == "rescal":
        return h @ r, t @ r.T
    raise NotImplementedError(f"write the literal products of {model!r} here")


def literal_penalty(name: str, model: str, h: Tensor, r: Tensor, t: Tensor, options: dict[str, float]) -> Tensor:
    """The regularizer of one fact, without its weight."""
    query, reverse = literal_products(model, h, r, t)
    if model == "complex":
        h, r, t = as_complex_rows(h), as_complex_rows(r), as_complex_rows(t)

    def square(x: Tensor) -> Tensor:
        return (x.conj() * x).real.sum()

    def cube(x: Tensor) -> Tensor:
        return (x.abs() ** 3).sum()

    def l1(x: Tensor) -> Tensor:
        return x.abs().sum()

    forms = {
        "none": lambda: torch.zeros((), dtype=torch.float64),
        "fro": lambda: square(h) + square(r.flatten()) + square(t),
        "n3": lambda: cube(h) + cube(r) + cube(t),
        "dura-i": lambda: square(query) + square(t),
        "dura-ii": lambda: square(reverse) + square(h),
        "dura": lambda: (
            options["lambda1"] * (square(h) + square(t)) + options["lambda2"] * (square(query) + square(reverse))
        ),
        "reg-p1": lambda: l1(query - t) + l1(reverse - h),
    }
    if name not in forms:
        raise NotImplementedError(f"write the literal form of {name!r} here")
    return forms[name]()


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
