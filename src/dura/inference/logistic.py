"""Logistic regression, also for examples of which many look false though they are true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dura.inference.calibration import CLOSEST
from dura.types import FloatArray

FLATTEST = 0.01
"""The smallest slope: the order of answers must never change."""
PENALTY = 0.01
"""The weight of the squares of weights in a fit."""


def logistic(
    x: NDArray[Any],
    y: NDArray[np.bool_],
    *,
    weight: FloatArray | None = None,
    hidden: FloatArray | None = None,
    slopes: tuple[int, ...] = (),
) -> list[float]:
    """Intercept and weights of a logistic regression. Those in `slopes` are at least FLATTEST.

    For each true example, `hidden` examples are true but look false: a true example looks true with probability 1 / (1 + hidden).
    The penalty is so small that it only keeps weights finite if the examples can be separated.
    """
    if y.all() or not y.any():  # nothing to tell apart: the smoothed share of true examples
        share = (y.sum() + 1) / (len(y) + 2)
        return [float(np.log(share / (1 - share))), *(FLATTEST if i in slopes else 0.0 for i in range(x.shape[1]))]
    weight = np.ones(len(y)) if weight is None else weight
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    found = _solve((x - mean) / spread, y, weight)
    if hidden is not None and hidden.any():
        found = _solve_hidden((x - mean) / spread, y, weight, np.log1p(hidden), found)
    found[1:] /= spread
    for i in slopes:
        found[1 + i] = max(found[1 + i], FLATTEST)
    return [float(found[0] - found[1:] @ mean), *found[1:].tolist()]


def _solve(x: NDArray[Any], y: NDArray[np.bool_], weight: FloatArray) -> FloatArray:
    """Intercept and weights by scikit-learn."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    fitted = LogisticRegression(C=1 / PENALTY, max_iter=1000).fit(x, y, weight)
    return np.append(fitted.intercept_, fitted.coef_[0])


def _solve_hidden(
    x: NDArray[Any], y: NDArray[np.bool_], weight: FloatArray, log_ratio: FloatArray, start: FloatArray
) -> FloatArray:
    """The same if only one of exp(log_ratio) true examples looks true: the likelihood of p / exp(log_ratio), from a first fit."""
    from scipy.optimize import minimize

    ones = np.column_stack([np.ones(len(x)), x])
    sign = np.where(y, -1.0, 1.0)

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        z = ones @ w
        log_p = -np.logaddexp(0.0, -z)
        log_seen = np.minimum(log_p - log_ratio, CLOSEST)
        seen = np.exp(log_seen)
        each = np.where(y, -log_seen, -np.log1p(-seen))
        slope = np.where(y, 1.0, seen / (1 - seen)) * sign * -np.expm1(log_p)
        gradient = ones.T @ (weight * slope)
        gradient[1:] += PENALTY * w[1:]
        return float(weight @ each + 0.5 * PENALTY * (w[1:] @ w[1:])), gradient

    found = start.copy()
    found[0] += float(np.average(log_ratio, weights=weight * y))  # as if no example were hidden
    return np.asarray(minimize(loss, found, jac=True, method="L-BFGS-B").x)
