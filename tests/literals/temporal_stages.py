"""DEDICOM and RTFE, one fact at a time, straight from the papers."""

from __future__ import annotations

import torch
from torch import Tensor

from literals.distance import turned
from oracles import ROWS, SCORES, Rows, State


def _middle(state: State, r: int, time: int) -> Tensor:
    """D R D, or D Rᵀ D for a reciprocal."""
    own, sign = turned(r)
    matrix = state["relations"][own]
    diagonal = torch.diag(state["times"][time])
    return diagonal @ (matrix if sign > 0 else matrix.T) @ diagonal


def _dedicom(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    return state["entity"][h] @ _middle(state, r, time) @ state["entity"][t]


def _dedicom_rows(state: State, h: int, r: int, t: int, time: int) -> Rows:
    head, tail, middle = state["entity"][h], state["entity"][t], _middle(state, r, time)
    own = middle if r == turned(r)[0] else middle.T
    return Rows(head, (own,), tail, products=(head @ middle, tail @ middle.T))


SCORES |= {"dedicom": _dedicom}
ROWS |= {"dedicom": _dedicom_rows}
