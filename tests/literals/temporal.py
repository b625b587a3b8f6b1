"""Temporal models that are not semantic matching, one fact at a time, straight from the papers."""

from __future__ import annotations

import torch
from torch import Tensor

from literals.distance import turned
from oracles import ROWS, SCORES, Rows, State


def _ttranse(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    shift = state["shifts"][own] + state["times"][time]
    return -(state["entity"][h] + sign * shift - state["entity"][t]).abs().sum()


def _lstm_step(state: State, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    gates = (
        state["cell.weight_ih"] @ x + state["cell.bias_ih"] + state["cell.weight_hh"] @ hidden + state["cell.bias_hh"]
    )
    enter, keep, new, leave = gates.chunk(4)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def _tatranse(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    hidden = cell = torch.zeros_like(state["relations"][own])
    for x in [state["relations"][own], *(state["words"][token] for token in state["tokens"][time])]:
        hidden, cell = _lstm_step(state, x, hidden, cell)
    return -(state["entity"][h] + sign * hidden - state["entity"][t]).abs().sum()


def _hyte(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    w = state["times"][time] / torch.sqrt((state["times"][time] ** 2).sum())
    head, shift, tail = (x - (w @ x) * w for x in (state["entity"][h], sign * state["shifts"][own], state["entity"][t]))
    return -torch.sqrt(((head + shift - tail) ** 2).sum())


def _signed(state: State, h: int, r: int, t: int, _: int) -> Rows:
    own, sign = turned(r)
    return Rows(state["entity"][h], (sign * state["shifts"][own],), state["entity"][t])


def _plain(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][turned(r)[0]],), state["entity"][t])


SCORES |= {"ttranse": _ttranse, "tatranse": _tatranse, "hyte": _hyte}
ROWS |= {"ttranse": _signed, "tatranse": _plain, "hyte": _signed}
