"""DEDICOM and RTFE, one fact at a time, straight from the papers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from literals.distance import RELATIONS, turned
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
    return Rows(head, (own,), tail, products=(head @ middle, tail @ middle.T), onward=tail @ middle)


def _slot(state: State, time: int) -> int:
    """Which parameters answer at a time: its own, or the last ones that were trained."""
    return min(time + 1, int(state["filled"]))


PACE = 0.1
"""The default of model.pace: rows of spans are stored divided by it."""


def _row(state: State, table: str, rows: int, row: int, time: int) -> Tensor:
    slot = _slot(state, time)
    return state[table][slot * rows + row] * (PACE if slot else 1)


def _rtfe_rows(state: State, h: int, r: int, t: int, time: int) -> Rows:
    entities = len(state["entity"]) // len(state["weights"])
    relation = _row(state, "relations", RELATIONS, turned(r)[0], time)
    head, tail = (_row(state, "entity", entities, entity, time) for entity in (h, t))
    return Rows(head, (relation,), tail)


def _rtfe(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    rows = _rtfe_rows(state, *((h, r, t) if r < RELATIONS else (t, r, h)), time)
    width = len(rows.h) // 2
    scale, bias, turn = rows.r[0][:width].abs(), rows.r[0][width : 2 * width], rows.r[0][2 * width :]
    bias = torch.maximum(torch.minimum(bias, torch.ones_like(bias)), -scale)
    apart = rows.h[:width] * (scale + bias) - rows.t[:width] * (1 - bias)
    angle = (rows.h[width:] + turn - rows.t[width:]) * math.pi / (8 / width)
    weight, phase_weight = _row(state, "weights", 1, 0, time)
    score: Tensor = -weight * torch.sqrt((apart**2).sum()) - phase_weight * torch.sin(angle / 2).abs().sum()
    return score


SCORES |= {"dedicom": _dedicom, "rtfe": _rtfe}
ROWS |= {"dedicom": _dedicom_rows, "rtfe": _rtfe_rows}
