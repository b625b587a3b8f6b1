"""Distances in polar coordinates: moduli and phases apart."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.models.comparators.base import Comparator, root
from dura.tables import Collector


class Polar(Comparator):
    """−λ·‖m − c∘t‖ − μ·Σ|sin(rate·(p − s))| for the query [m, c, p, λ, μ] and the target [t, s] of moduli t and phases s.

    The moduli meet in two matrix products. The phases are compared one by one, as products of sines and cosines that are computed
    once per row: sin(a − b) = sin a·cos b − cos a·sin b.
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """Two numbers per phase."""
        return targets.shape[-1]

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """The formula as it is; the gradient of the modulus part at zero is zero."""
        m, c, p, weight, turn = _parts(query)
        moduli, phases = targets.chunk(2, -1)
        apart: Tensor = torch.linalg.vector_norm(m - c * moduli, dim=-1)
        return -weight * apart - turn * torch.sin(self.rate * (p - phases)).abs().sum(-1)

    def _block(self, query: Tensor, targets: Tensor) -> Tensor:
        _, _, p, weight, turn = _parts(query)
        moduli, phases = targets.chunk(2, -1)
        sines = _sines(*self._angles(p, phases)).abs().sum(-1)
        return -weight[:, None] * _apart(query, moduli) - turn[:, None] * sines

    def pull(self, slopes: Tensor, query: Tensor, targets: Collector, scale: Tensor | None = None) -> Tensor:
        """A block of targets at a time. Only the moduli use autograd, through their two products."""
        if scale is not None:
            slopes.mul_(scale[:, None])
        by_query, rows, gradient = torch.zeros_like(query), targets.rows, targets.gradient()
        width = targets.rows.shape[1] // 2
        for part in self._parts(query, rows):
            with torch.enable_grad():
                q, t = query.detach().requires_grad_(), rows[part, :width].detach().requires_grad_()
                one, two = torch.autograd.grad(-q[:, -2, None] * _apart(q, t), (q, t), slopes[:, part])
            by_query += one
            gradient[part, :width] += two
            gradient[part, width:] += self._pull_phases(slopes[:, part], query, rows[part, width:], by_query)
        targets.mark()
        return by_query

    def _pull_phases(self, slopes: Tensor, query: Tensor, phases: Tensor, by_query: Tensor) -> Tensor:
        """The gradient of −μ·Σ|sin| by the targets' phases. That by the phases of the queries and by μ is added to `by_query`."""
        _, _, p, _, turn = _parts(query)
        angles, width = self._angles(p, phases), phases.shape[1]
        sines = _sines(*angles)
        cosines = _cosines(*angles).mul_(sines.sign())
        by_query[:, -1] -= torch.bmm(slopes[:, None], sines.abs_())[:, 0].sum(1)
        weights = slopes * (self.rate * turn)[:, None]
        by_query[:, 2 * width : 3 * width] -= torch.bmm(weights[:, None], cosines)[:, 0]
        return cosines.mul_(weights[:, :, None]).sum(0)

    def pull_pairs(self, slopes: Tensor, query: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """−λ·z/‖z‖ for z = m − c∘t, and −μ·rate·cos with the sign of the sine."""
        m, c, p, weight, turn = _parts(query)
        moduli, phases = targets.chunk(2, -1)
        z, angle = m - c * moduli, (p - phases).mul_(self.rate)
        apart = torch.linalg.vector_norm(z, dim=-1)
        by_z = z.mul_((-weight * slopes / torch.where(apart > 0, apart, 1))[..., None])
        sine = torch.sin(angle)
        by_p = angle.cos_().mul_(sine.sign()).mul_((-self.rate * turn * slopes)[..., None])
        own = [by_z, -by_z * moduli, by_p, -(slopes * apart)[..., None], -(slopes * sine.abs_().sum(-1))[..., None]]
        lead = query.shape[:-1]
        by_query = torch.cat([part.sum_to_size(*lead, part.shape[-1]) for part in own], -1)
        return by_query, torch.cat([-by_z * c, by_p.neg_()], -1)

    def _angles(self, p: Tensor, phases: Tensor) -> tuple[Tensor, Tensor]:
        """The angles of the queries [m, 1, d] and of the targets [n, d]."""
        return (p * self.rate)[:, None], phases * self.rate


def _parts(query: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Moduli, factors of the targets' moduli, phases, and the two weights."""
    m, c, p = query[..., :-2].chunk(3, -1)
    return m, c, p, query[..., -2], query[..., -1]


def _apart(query: Tensor, moduli: Tensor) -> Tensor:
    """‖m − c∘t‖ [m, n] as √(‖m‖² − 2<c∘m, t> + <c∘c, t∘t>)."""
    m, c, *_ = _parts(query)
    squares = torch.addmm(m.square().sum(1)[:, None], c * m, moduli.mT, alpha=-2)
    return root(squares + torch.mm(c.square(), moduli.square().mT))


def _sines(one: Tensor, other: Tensor) -> Tensor:
    """sin(one − other) [m, n, d]."""
    return torch.addcmul(one.sin() * other.cos(), one.cos(), other.sin(), value=-1)


def _cosines(one: Tensor, other: Tensor) -> Tensor:
    """cos(one − other) [m, n, d]."""
    return torch.addcmul(one.cos() * other.cos(), one.sin(), other.sin())
