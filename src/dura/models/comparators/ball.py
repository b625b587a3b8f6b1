"""Hyperbolic distances, in the Poincaré ball."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dura.models.comparators.base import Comparator, inner, root

EDGE = 1 - 1e-5
"""How far from the middle of the ball a point may be. At distance 1 hyperbolic distances are infinite."""
LONGEST = math.atanh(EDGE)


class Poincare(Comparator):
    """−d(u, v ⊕ r)², the hyperbolic distance, for the query [u, r] and the target v. All three are tangent vectors.

    exp₀ maps them to points of the ball: x becomes tanh(‖x‖)·x/‖x‖. ⊕ is the sum of Möbius. The distance follows from the inner
    products <u, v> and <r, v>, so v ⊕ r is never computed for a table of targets.
    """

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """Two products and what is made of them."""
        return 16

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """−arcosh(1 + z)² with z = 2‖u − (v ⊕ r)‖² / ((1 − ‖u‖²)(1 − ‖v ⊕ r‖²)), written without the division in v ⊕ r."""
        u, r = query.chunk(2, -1)
        (by_u, uu, in_u), (by_r, rr, in_r), (by_v, vv, in_v) = _point(u), _point(r), _point(targets)
        rv = by_r * by_v * inner(r, targets)
        uv = by_u * by_v * inner(u, targets)
        ur = by_u * by_r * inner(u, r)
        gap = uu * (1 + 2 * rv + rr * vv) - 2 * ((1 + 2 * rv + rr) * uv + in_v * ur) + vv + 2 * rv + rr
        z = 2 * gap.clamp(min=0) / (in_u * in_r * in_v)
        score: Tensor = _SquaredArcosh.apply(z)  # type: ignore[no-untyped-call]
        return -score

    def bound(self, query: float, targets: float) -> float:
        """No two points are farther apart than 2·artanh of the edge for each of the three vectors. Squares must not overflow."""
        return (6 * LONGEST) ** 2 + query**2 + targets**2


def _point(tangent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factor that maps a tangent vector x to a point p of the ball, ‖p‖² and 1 − ‖p‖², which is exact near the edge too."""
    length = root(tangent.square().sum(-1))
    kept = length.clamp(max=LONGEST)
    distance = torch.tanh(kept)
    factor = torch.where(length > 0, distance / torch.where(length > 0, length, 1), 1)
    return factor, distance.square(), torch.cosh(kept).square().reciprocal()


class _SquaredArcosh(torch.autograd.Function):
    """arcosh(1 + z)² for z ≥ 0. Its derivative at zero is 2; that of arcosh is infinite."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        sine = (z * (z + 2)).sqrt()
        arcosh = torch.log1p(z + sine)
        ctx.save_for_backward(arcosh, sine)
        return arcosh.square()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        arcosh, sine = ctx.saved_tensors
        ratio = torch.where(sine > 0, arcosh / torch.where(sine > 0, sine, 1), 1)
        return gradients[0] * 2 * ratio
