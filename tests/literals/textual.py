"""Textual models, one fact at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oracles import ROWS, SCORES, Rows, State


def _relations(state: State) -> int:
    return len(state["relations"]) // 2


def _gelu(x: Tensor) -> Tensor:
    """x·Φ(x), with the distribution function of the normal distribution."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def _star(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    head, tail = state["entity_text"][h], state["entity_text"][t]
    relation = state["relation_text"][r % _relations(state)] + state["relations"][r]
    hidden = _gelu(state["inner.weight"] @ torch.cat([head, relation]) + state["inner.bias"])
    x = head + state["outer.weight"] @ hidden + state["outer.bias"]
    x = (x - x.mean()) / torch.sqrt(((x - x.mean()) ** 2).mean() + 1e-5)
    u = x * state["norm.weight"] + state["norm.bias"]
    return ((state["product"] * u) * tail).sum() + (state["lean"] * tail).sum()


def _star_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity_text"][h], (state["relations"][r],), state["entity_text"][t])


SCORES |= {"star": _star}
ROWS |= {"star": _star_rows}
