"""Distance models, one fact at a time, straight from the papers."""

from __future__ import annotations

import torch
from torch import Tensor

from oracles import ROWS, SCORES, Rows, State

RELATIONS = 3
"""How many relations the graphs of the laws have; the ids above are reciprocals."""


def turned(r: int) -> tuple[int, int]:
    """The relation itself, and −1 if it is asked backwards."""
    return (r, 1) if r < RELATIONS else (r - RELATIONS, -1)


def _transe(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    own, sign = turned(r)
    return -(state["entity"][h] + sign * state["shifts"][own] - state["entity"][t]).abs().sum()


def _rotate(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    own, sign = turned(r)
    head, tail = (torch.complex(*state["entity"][e].chunk(2)) for e in (h, t))
    angle = state["angles"][own]
    moved = head * torch.complex(torch.cos(angle), sign * torch.sin(angle))
    return -torch.stack([torch.sqrt(x.real**2 + x.imag**2) for x in moved - tail]).sum()


def _mode(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    return -(state["entity"][h] * state["relations"][r] - state["entity"][t]).abs().sum()


def _shifted(state: State, h: int, r: int, t: int, _: int) -> Rows:
    own, sign = turned(r)
    return Rows(state["entity"][h], (sign * state["shifts"][own],), state["entity"][t])


def _alone(state: State, h: int, _r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (), state["entity"][t])


def _plain(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][r],), state["entity"][t])


SCORES |= {"transe": _transe, "rotate": _rotate, "mode": _mode}
ROWS |= {"transe": _shifted, "rotate": _alone, "mode": _plain}
