"""The formulas of this package, one fact at a time and straight from their definitions, for dura's laws to compare with."""

from __future__ import annotations

import torch
from torch import Tensor

from dura_extras.losses import SquaredHinge
from oracles import LOSS_FORMS, PENALTIES, ROWS, SCORES, Rows, State


def _shift(state: State, r: int) -> Tensor:
    relations = len(state["shifts"])
    return state["shifts"][r] if r < relations else -state["shifts"][r - relations]


def shift(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    return -sum((abs(x) for x in state["entity"][h] + _shift(state, r) - state["entity"][t]), torch.zeros(()))


def mlp(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    x = state["layer.weight"] @ torch.cat([state["entity"][h, :-1], state["relations"][r]]) + state["layer.bias"]
    x = torch.clamp(x, min=0)
    x = (x - state["norm.running_mean"]) / torch.sqrt(state["norm.running_var"] + 1e-5)
    x = x * state["norm.weight"] + state["norm.bias"]
    return x @ state["entity"][t, :-1] + state["entity"][t, -1]


def squared_hinge(loss: SquaredHinge, positive: Tensor, negative: Tensor) -> Tensor:
    hinges = [torch.clamp(loss.margin + score - positive, min=0) ** 2 for score in negative]
    return torch.stack(hinges).mean() if hinges else 0 * positive


SCORES |= {"shift": shift, "mlp": mlp}
ROWS["shift"] = lambda state, h, r, t, _: Rows(state["entity"][h], (_shift(state, r),), state["entity"][t])
ROWS["mlp"] = lambda state, h, r, t, _: Rows(state["entity"][h, :-1], (state["relations"][r],), state["entity"][t])
PENALTIES["l1"] = lambda rows, _: rows.h.abs().sum() + rows.t.abs().sum()
LOSS_FORMS["squared-hinge"] = squared_hinge
