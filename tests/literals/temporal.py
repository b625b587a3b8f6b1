"""Temporal models that are not semantic matching, one fact at a time, straight from the papers."""

from __future__ import annotations

import torch
from torch import Tensor

from literals.distance import turned
from oracles import ROWS, SCORES, Rows, State


def _ttranse(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    shift = state["shifts"][own] + state["times"][time]
    return -torch.sqrt(((state["entity"][h] + sign * shift - state["entity"][t]) ** 2).sum())


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
    return -torch.sqrt(((state["entity"][h] + sign * hidden - state["entity"][t]) ** 2).sum())


def _hyte(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    w = state["times"][time] / torch.sqrt((state["times"][time] ** 2).sum())
    head, shift, tail = (x - (w @ x) * w for x in (state["entity"][h], sign * state["shifts"][own], state["entity"][t]))
    return -torch.sqrt(((head + shift - tail) ** 2).sum())


def _from_box(point: Tensor, centre: Tensor, width: Tensor, scale: Tensor) -> Tensor:
    mean = torch.prod(width.abs()) ** (1 / len(width))
    half = width / mean * (scale + 1 if scale > 0 else torch.exp(scale))
    total = torch.zeros(()).double()
    for x, one, other in zip(point, torch.tanh(centre - half), torch.tanh(centre + half), strict=True):
        low, high = min(one, other), max(one, other)
        middle, wide = (low + high) / 2, high - low + 1
        far = abs(x - middle)
        far = far / wide if low <= x <= high else far * wide - (wide - 1) * (wide - 1 / wide) / 2
        total = total + far**2
    return torch.sqrt(total)


def _boxte(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    own, sign = turned(r)
    if sign < 0:
        h, t = t, h
    rank = state["entity"].shape[1] // 2
    move = sum(
        factor * state["times"][time][i * rank : (i + 1) * rank] for i, factor in enumerate(state["weights"][own])
    )
    (base_h, bump_h), (base_t, bump_t) = (state["entity"][e].chunk(2) for e in (h, t))
    points = torch.tanh(base_h + bump_t + move), torch.tanh(base_t + bump_h + move)
    centres, widths = state["centres"][own].chunk(2), state["widths"][own].chunk(2)
    head, tail = (_from_box(points[i], centres[i], widths[i], state["scales"][own, i]) for i in (0, 1))
    return -head - tail


def _boxed(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["centres"][turned(r)[0]],), state["entity"][t])


def _cont(state: State, h: int, r: int, t: int, time: int) -> Tensor:
    head, relation, tail = state["entity"][h], state["relations"][r], state["entity"][t]
    core = state["cores"][time].reshape(len(head), len(head), len(head))
    return torch.einsum("a,b,c,abc->", head, relation, tail, core)


def _own(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][r],), state["entity"][t])


def _signed(state: State, h: int, r: int, t: int, _: int) -> Rows:
    own, sign = turned(r)
    return Rows(state["entity"][h], (sign * state["shifts"][own],), state["entity"][t])


def _plain(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][turned(r)[0]],), state["entity"][t])


SCORES |= {"ttranse": _ttranse, "tatranse": _tatranse, "hyte": _hyte, "boxte": _boxte, "cont": _cont}
ROWS |= {"ttranse": _signed, "tatranse": _plain, "hyte": _signed, "boxte": _boxed, "cont": _own}
