"""TransH, TransD, SE and HAKE, one fact at a time, straight from the papers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from literals.distance import RELATIONS, turned
from oracles import ROWS, SCORES, Rows, State


def as_asked(h: int, r: int, t: int) -> tuple[int, int, int]:
    """The fact itself: a reciprocal asks it backwards."""
    return (h, r, t) if r < RELATIONS else (t, r - RELATIONS, h)


def _transh(state: State, *fact: int) -> Tensor:
    h, r, t = as_asked(*fact[:3])
    d, w = state["relations"][r].chunk(2)
    w = w / torch.sqrt((w * w).sum())
    head, tail = (state["entity"][e] - (w @ state["entity"][e]) * w for e in (h, t))
    score: Tensor = -(head + d - tail).square().sum()
    return score


def _transd(state: State, *fact: int) -> Tensor:
    h, r, t = as_asked(*fact[:3])
    shift, push = state["relations"][r].chunk(2)
    moved = []
    for e in (h, t):
        row, own = state["entity"][e].chunk(2)
        matrix = torch.outer(push, own) + torch.eye(len(row)).to(row)
        new = matrix @ row
        moved.append(new if new.norm() <= 1 else new / new.norm())
    return -(moved[0] + shift - moved[1]).square().sum()


def _se(state: State, *fact: int) -> Tensor:
    h, r, t = as_asked(*fact[:3])
    left, right = state["relations"][r], state["relations"][r + RELATIONS]
    return -(left @ state["entity"][h] - right @ state["entity"][t]).abs().sum()


def _hake(state: State, *fact: int) -> Tensor:
    h, r, t = as_asked(*fact[:3])
    (head, head_phase), (tail, tail_phase) = (state["entity"][e].chunk(2) for e in (h, t))
    modulus, bias, phase = state["relations"][r].chunk(3)
    modulus = modulus.abs()
    bias = torch.minimum(bias, torch.ones_like(bias))
    bias = torch.where(bias < -modulus, -modulus, bias)
    apart = torch.sqrt((head * (modulus + bias) - tail * (1 - bias)).square().sum())
    angle = (head_phase + phase - tail_phase) * math.pi / (8 / len(head))
    return -state["weights"][0] * apart - state["weights"][1] * torch.sin(angle / 2).abs().sum()


def _own(state: State, h: int, r: int, t: int, _: int) -> Rows:
    """Rows as they are stored; a reciprocal has those of its relation."""
    return Rows(state["entity"][h], (state["relations"][turned(r)[0]],), state["entity"][t])


def _transd_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    row, own = state["entity"][t].chunk(2)
    return Rows(state["entity"][h], (state["relations"][turned(r)[0]],), torch.cat([row, (row @ own)[None]]))


def _se_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    other = (r + RELATIONS) % (2 * RELATIONS)
    return Rows(state["entity"][h], (state["relations"][r],), state["relations"][other] @ state["entity"][t])


SCORES |= {"transh": _transh, "transd": _transd, "se": _se, "hake": _hake}
ROWS |= {
    "transh": _own,
    "hake": _own,
    "transd": _transd_rows,
    "se": _se_rows,
}
