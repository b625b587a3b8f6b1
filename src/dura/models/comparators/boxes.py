"""Boxes: how far two points, which the target moves, are from the boxes of a query.

The point of a target is x = tanh(u + t). With z = (1 − x)/2 = 1/(1 + e^{2u}·e^{2t}), both exponentials are computed once per row,
and what is left for each pair of rows is a product and a reciprocal: twenty times as fast as a hyperbolic tangent. The distance is
a piecewise linear function of z with three pieces. Blocks of pairs stay near the processor, and the gradient is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dura.models.comparators import base
from dura.models.comparators.base import Comparator
from dura.tables import Collector, Packed

FAR = 20.0
"""tanh is 1 beyond this. The product of two exponentials up to e^{2·FAR} does not overflow in 32 bits."""
TOGETHER = 8
"""How many queries a block has, if it has many targets."""


class _Lines(NamedTuple):
    """The three pieces of the signed distance of z from each box: `start` − `steep`·z + `bend`·clamp(z, `low`, `high`)."""

    start: Tensor
    steep: Tensor
    bend: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, one: Tensor, other: Tensor) -> _Lines:
        """From two opposite corners of the boxes."""
        low, high = torch.minimum(one, other), torch.maximum(one, other)
        width = high - low + 1
        start = (1 - (low + high) / 2) / width
        return cls(start, 2 * width, 2 * (width - 1 / width), (1 - high) / 2, (1 - low) / 2)

    def take(self, part: slice) -> _Lines:
        """Those of some queries, which meet many targets."""
        return _Lines(*(line[part, None] for line in self))


class Boxes(Comparator):
    """−‖d₁‖ − ‖d₂‖, where d₁ and d₂ are the distances of the points tanh(u₁ + t₁) and tanh(u₂ + t₂) from a box each.

    The query is [u₁, u₂, a₁, a₂, b₁, b₂]: a and b are opposite corners of the two boxes. The target is [t₁, t₂]. In each dimension
    a box from l to h has the centre m and W = h − l + 1. A point x is |x − m|/W away if it is inside, and else
    |x − m|·W − ½(W − 1)(W − 1/W), as in BoxE: inside counts little, outside much, and both agree at the wall.
    """

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """A block is cut for about four rows per pair; those of the gradient then still fit in the cache of the last level."""
        return 4 * targets.shape[-1]

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The formula; in blocks if no one needs autograd."""
        if _differentiable(query, targets) or not _one_by_many(query, targets):
            u, one, other = query.chunk(3, -1)
            return -_norms(_distances(_Lines.of(one, other), _power(u), _power(targets))[0]).sum(-1)
        flat = query.dim() == 2
        query, targets = (rows[:, None] if flat else rows for rows in (query, targets))
        u, one, other = query[:, 0].chunk(3, -1)
        lines, power, scores = _Lines.of(one, other), _power(u), query.new_empty(targets.shape[:2])
        for part in self._facts(query, targets):
            found, _, _ = _distances(lines.take(part), power[part, None], _power(targets[part]))
            torch.sum(_norms(found), -1, out=scores[part])
        return scores.neg_()[:, 0] if flat else scores.neg_()

    def scores(self, query: Tensor, targets: Tensor | Packed, out: Tensor | None = None) -> Tensor:
        """Blocks of a few queries and as many targets as stay near the processor."""
        if isinstance(targets, Packed) or _differentiable(query, targets):
            return super().scores(query, targets, out)
        scores = query.new_empty(len(query), len(targets)) if out is None else out
        u, one, other = query.chunk(3, -1)
        lines, power, powers = _Lines.of(one, other), _power(u), _power(targets)
        for mine, part in self._squares(query, targets):
            found, _, _ = _distances(lines.take(mine), power[mine, None], powers[part])
            scores[mine, part] = _norms(found).sum(-1).neg_()
        return scores

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """The gradient by hand, over the same blocks as `scores`."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        rows, gradient, by_u = targets.rows, targets.gradient(), torch.zeros_like(query.chunk(3, -1)[0])
        u, one, other = query.chunk(3, -1)
        lines, power, powers = _Lines.of(one, other), _power(u), _power(rows)
        by_lines = _Lines(*(torch.zeros_like(u) for _ in lines))
        for mine, part in self._squares(query, rows):
            by_rows = _slopes(lines.take(mine), power[mine, None], powers[part], slopes[mine, part], by_lines, mine)
            by_u[mine] += by_rows.sum(1)
            gradient[part] += by_rows.sum(0)
        targets.mark()
        return torch.cat([by_u, _by_corners(one, other, by_lines)], 1)

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The same gradient, for the targets of each query."""
        if not _one_by_many(query, targets):
            return super().pull_pairs(slopes, query, targets)
        if query.dim() == 2:
            by_query, by_targets = self.pull_pairs(slopes[:, None], query[:, None], targets[:, None])
            return by_query[:, 0], by_targets[:, 0]
        u, one, other = query[:, 0].chunk(3, -1)
        lines, power = _Lines.of(one, other), _power(u)
        by_lines, by_u, by_targets = (
            _Lines(*map(torch.zeros_like, lines)),
            torch.empty_like(u),
            torch.empty_like(targets),
        )
        for part in self._facts(query, targets):
            by_rows = _slopes(lines.take(part), power[part, None], _power(targets[part]), slopes[part], by_lines, part)
            by_targets[part] = by_rows
            torch.sum(by_rows, 1, out=by_u[part])
        return torch.cat([by_u, _by_corners(one, other, by_lines)], 1)[:, None], by_targets

    def _facts(self, query: Tensor, targets: Tensor) -> Iterator[slice]:
        """Slices of the queries, each with all of its own targets."""
        size = max(1, base.PART // max(1, targets.shape[1] * self.numbers(query, targets)))
        return (slice(a, a + size) for a in range(0, len(query), size))

    def _squares(self, query: Tensor, targets: Tensor) -> Iterator[tuple[slice, slice]]:
        """A few queries, and the targets that they meet at a time."""
        size = max(1, base.PART // (TOGETHER * self.numbers(query, targets)))
        for a in range(0, len(query), TOGETHER):
            for b in range(0, len(targets), size):
                yield slice(a, a + TOGETHER), slice(b, b + size)

    def bound(self, query: float, targets: float) -> float:
        """‖W∘(x − m)‖ twice, with |W| ≤ 1 + 2‖q‖, ‖x‖ ≤ ‖q‖ + ‖t‖ and ‖m‖ ≤ ‖q‖."""
        return 2 * (1 + 2 * query) * (2 * query + targets)


def _differentiable(query: Tensor, targets: Tensor) -> bool:
    return torch.is_grad_enabled() and (query.requires_grad or targets.requires_grad)


def _one_by_many(query: Tensor, targets: Tensor) -> bool:
    """True for pairs of rows, and for queries that have several targets of their own each."""
    if query.dim() != targets.dim() or len(query) != len(targets):
        return False
    return query.dim() == 2 or (query.dim() == 3 and query.shape[1] == 1)


def _power(rows: Tensor) -> Tensor:
    """e^{2x}."""
    return rows.clamp(-FAR, FAR).mul_(2).exp_()


def _norms(distances: Tensor) -> Tensor:
    """The norms of the two halves of rows, which may be overwritten."""
    halves = distances.unflatten(-1, (2, -1))
    if halves.requires_grad:
        norms: Tensor = torch.linalg.vector_norm(halves, dim=-1)
        return norms
    squares: Tensor = halves.square_().sum(-1)  # in two passes, which torch vectorizes better
    return squares.sqrt_()


def _distances(lines: _Lines, power: Tensor, powers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The signed distances, z, and z clamped to the boxes. In place where autograd allows it."""
    z = torch.addcmul(powers.new_ones(()), power, powers).reciprocal_()
    inside = torch.clamp(z, lines.low, lines.high)
    found = torch.addcmul(lines.start, inside, lines.bend)
    return found.addcmul_(z, lines.steep, value=-1), z, inside


def _slopes(lines: _Lines, power: Tensor, powers: Tensor, slopes: Tensor, by_lines: _Lines, at: slice) -> Tensor:
    """The gradient by u + t of each pair of a block. That by the lines is added to `by_lines[at]`."""
    found, z, inside = _distances(lines, power, powers)
    norms = _norms(found.clone())
    weights = (-slopes[..., None] / norms).masked_fill_(norms == 0, 0)
    found.unflatten(-1, (2, -1)).mul_(weights[..., None])
    by_lines.start[at] += found.sum(1)
    room = found * z
    by_lines.steep[at] -= room.sum(1)
    by_lines.bend[at] += torch.mul(found, inside, out=room).sum(1)
    side = torch.sub(z, inside, out=inside).sign_()  # −1 below the box, 0 inside, 1 above
    signed = torch.mul(found, side, out=room).sum(1)
    outside = room.mul_(side)
    total, bend = outside.sum(1), lines.bend[:, 0]
    by_lines.low[at] += bend * (total - signed) / 2
    by_lines.high[at] += bend * (total + signed) / 2
    by_z = found.mul_(lines.bend - lines.steep).addcmul_(outside, lines.bend, value=-1)
    return by_z.mul_(torch.addcmul(z, z, z, value=-1).mul_(-2))  # dz/d(u + t) = −2z(1 − z)


def _by_corners(one: Tensor, other: Tensor, by_lines: _Lines) -> Tensor:
    """From the gradient by the lines to that by the corners."""
    with torch.enable_grad():
        one, other = one.detach().requires_grad_(), other.detach().requires_grad_()
        return torch.cat(torch.autograd.grad(_Lines.of(one, other), (one, other), by_lines), -1)
