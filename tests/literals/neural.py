"""Neural models in evaluation mode, one fact and one number at a time, straight from the papers."""

from __future__ import annotations

import torch
from torch import Tensor

from literals.distance import RELATIONS
from oracles import ROWS, SCORES, Rows, State

EPS = 1e-5


def normed(state: State, name: str, x: Tensor, channel: int | slice = slice(None)) -> Tensor:
    """Batch norm by the running mean and variance of one channel, or of each number's own."""
    mean, var, weight, bias = (
        state[f"{name}.{part}"][channel] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(var + EPS) * weight + bias


def positive(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.0)


def ended(state: State, places: list[Tensor], t: int) -> Tensor:
    """From what all filters see at each place to the score. The linear layer takes filter by filter, place by place."""
    seen = torch.stack([positive(normed(state, "norm_features", x)) for x in places], 1).flatten()
    hidden = positive(normed(state, "norm_hidden", state["linear.weight"] @ seen + state["linear.bias"]))
    return (hidden * state["entity"][t, :-1]).sum() + state["entity"][t, -1]


def _conve(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    """Rank 4 is a picture of 4 rows and 2 columns."""
    numbers = torch.cat([state["entity"][h, :-1], state["relations"][r]])
    picture = normed(state, "norm_input", numbers, 0).reshape(4, 2)
    kernel, bias = state["convolution.weight"][:, 0], state["convolution.bias"]
    rows, columns = kernel.shape[1:]
    return ended(
        state,
        [
            sum((kernel[:, a, b] * picture[i + a, j + b] for a in range(rows) for b in range(columns)), bias)
            for i in range(4 - rows + 1)
            for j in range(2 - columns + 1)
        ],
        t,
    )


def _interacte(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    """Rank 4 is a picture of 2 rows and 4 columns per permutation, which wraps around."""
    numbers = torch.cat([state["entity"][h, :-1], state["relations"][r]])
    kernel, bias = state["convolution.weight"][:, 0], state["convolution.bias"]
    rows, columns = kernel.shape[1:]
    places = []
    pictures = [normed(state, "norm_input", numbers[order], p).reshape(2, 4) for p, order in enumerate(state["order"])]
    for i in range(2):
        for j in range(4):
            seen = [
                sum(
                    (
                        kernel[:, a, b] * picture[(i + a - rows // 2) % 2, (j + b - columns // 2) % 4]
                        for a in range(rows)
                        for b in range(columns)
                    ),
                    bias,
                )
                for picture in pictures
            ]
            places.append(torch.cat(seen))
    return ended(state, places, t)


def _tucker(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    x, relation = normed(state, "norm_input", state["entity"][h]), state["relations"][r]
    slices = [relation[k] * x[i] * state["core"][k, i] for k in range(len(relation)) for i in range(len(x))]
    return (normed(state, "norm_hidden", torch.stack(slices).sum(0)) * state["entity"][t]).sum()


def _convkb(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    """A reciprocal asks for the head of the same fact."""
    if r >= RELATIONS:
        h, r, t = t, r - RELATIONS, h
    (a, b, c), bias, weights = state["decoder.kernels"], state["decoder.bias"], state["decoder.weight"]
    score = torch.zeros_like(bias[0])
    for i, (x, y, z) in enumerate(zip(state["entity"][h], state["relations"][r], state["entity"][t], strict=True)):
        score = score + (weights[:, i] * positive(a * x + b * y + c * z + bias)).sum()
    return score


def encoded(state: State, e: int) -> Tensor:
    """The row of an entity behind the encoder: what neighbours said is a buffer."""
    row = state["entity"][e] @ state["by_entity"] + state["heard"][e]
    return row / torch.sqrt((row * row).sum())


def _kbgat(state: State, h: int, r: int, t: int, _: int) -> Tensor:
    """The first stage, in which a model begins."""
    assert not state["stage"]
    if r >= RELATIONS:
        h, r, t = t, r - RELATIONS, h
    return -(encoded(state, h) + state["relations"][r] @ state["by_relation"] - encoded(state, t)).abs().sum()


def _kbgat_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    g = state["relations"][r % RELATIONS] @ state["by_relation"]
    return Rows(encoded(state, h), (g,), encoded(state, t))


def _biased_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h, :-1], (state["relations"][r],), state["entity"][t])


def _plain_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][r],), state["entity"][t])


def _shared_rows(state: State, h: int, r: int, t: int, _: int) -> Rows:
    return Rows(state["entity"][h], (state["relations"][r % RELATIONS],), state["entity"][t])


SCORES |= {"conve": _conve, "interacte": _interacte, "tucker": _tucker, "convkb": _convkb, "kbgat": _kbgat}
ROWS |= {
    "conve": _biased_rows,
    "interacte": _biased_rows,
    "tucker": _plain_rows,
    "convkb": _shared_rows,
    "kbgat": _kbgat_rows,
}
