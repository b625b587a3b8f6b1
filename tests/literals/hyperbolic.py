"""MuRE and MuRP, one fact at a time.

Near the edge of the ball 1 − ‖x‖² has few correct digits if it is computed from x. So a point is written as (x, 1 − ‖x‖²), and each
step says what becomes of both. `plain` is the formula of the paper, for points that are not near the edge.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oracles import ROWS, SCORES, Rows, State

Point = tuple[Tensor, Tensor]


def exp(x: Tensor) -> Point:
    """The point of a tangent vector."""
    return torch.tanh(x.norm()) * x / x.norm(), 1 / torch.cosh(x.norm()) ** 2


def plus(one: Point, other: Point) -> Point:
    """The sum of Möbius: 1 − ‖x ⊕ y‖² is (1 − ‖x‖²)(1 − ‖y‖²) divided by the same number."""
    (x, room), (y, other_room) = one, other
    below = 1 + 2 * x.dot(y) + x.dot(x) * y.dot(y)
    return ((1 + 2 * x.dot(y) + y.dot(y)) * x + room * y) / below, room * other_room / below


def distance(one: Point, other: Point) -> Tensor:
    """2 artanh ‖−x ⊕ y‖, where artanh n = ln(1 + n) − ½ ln(1 − n²)."""
    gap, room = plus((-one[0], one[1]), other)
    return 2 * torch.log(1 + gap.norm()) - torch.log(room)


def plain(u: Tensor, v: Tensor, r: Tensor) -> Tensor:
    """d(u, v ⊕ r) of three tangent vectors, with nothing but the formulas of the paper."""

    def point(x: Tensor) -> Tensor:
        return exp(x)[0]

    def mobius(x: Tensor, y: Tensor) -> Tensor:
        top = (1 + 2 * x.dot(y) + y.dot(y)) * x + (1 - x.dot(x)) * y
        return top / (1 + 2 * x.dot(y) + x.dot(x) * y.dot(y))

    return 2 * torch.atanh(mobius(-point(u), mobius(point(v), point(r))).norm())


def _mure(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    scale, shift = state["relations"][r].chunk(2)
    head, tail = state["entity"][h][:-1], state["entity"][t][:-1]
    return -(head * scale - (tail + shift)).square().sum() + state["head_bias"][h, 0] + state["entity"][t, -1]


def _murp(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    scale, shift = state["relations"][r].chunk(2)
    apart = distance(exp(scale * state["entity"][h][:-1]), plus(exp(state["entity"][t][:-1]), exp(shift)))
    return -(apart**2) + state["head_bias"][h, 0] + state["entity"][t, -1]


def _rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h][:-1], (state["relations"][r],), state["entity"][t])


SCORES |= {"mure": _mure, "murp": _murp}
ROWS |= {"mure": _rows, "murp": _rows}
