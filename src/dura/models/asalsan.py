"""ASALSAN: alternating least squares for three-way DEDICOM with several relations.

X_jl is the matrix of the facts with relation j and time l: one for a fact, zero elsewhere. A sweep lowers

    Σ_jl ‖X_jl − A D_l R_j D_l Aᵀ‖² + ridge·(‖A‖² + Σ_j ‖R_j‖² + Σ_l ‖d_l‖²)

for the matrices R_j, then for the entities A, then for the diagonals d_l. No matrix over pairs of entities is made, and no sum runs
over pairs of relation and time: with G = AᵀA, sums over the relations and over the times are tables of d² × d² numbers for rank d.
A sweep takes O(|facts|·d² + (|R| + |T|)·d⁴ + d⁶) operations.

Four-way tables have the indices [ab, ce]. "Crossed", they have the indices [ac, be].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

LENGTHS = (0.0, *(2.0 ** (power / 2) for power in range(4, -60, -1)))
"""The lengths of a step that are tried first."""


@dataclass(frozen=True)
class Facts:
    """The ids of the facts [n], sorted by relation."""

    head: Tensor
    relation: Tensor
    tail: Tensor
    time: Tensor
    counts: list[int]
    """How many facts each relation has."""

    @classmethod
    def of(cls, facts: Tensor, relations: int) -> Facts:
        """Facts [n, 4], a row being (head, relation, tail, time)."""
        head, relation, tail, time = facts[torch.argsort(facts[:, 1], stable=True)].unbind(1)
        return cls(head, relation, tail, time, torch.bincount(relation, minlength=relations).tolist())


@dataclass(frozen=True)
class Point:
    """What is fitted: entities A [|E|, d], matrices R_j [|R|, d, d] and diagonals d_l [|T|, d]."""

    a: Tensor
    r: Tensor
    d: Tensor

    @property
    def gram(self) -> Tensor:
        """G = AᵀA."""
        return self.a.mT @ self.a

    def squares(self) -> Tensor:
        """‖A‖² + Σ‖R_j‖² + Σ‖d_l‖²."""
        return self.a.square().sum() + self.r.square().sum() + self.d.square().sum()


def eigenvectors(facts: Facts, a: Tensor, rounds: int = 20) -> Tensor:
    """The leading eigenvectors of Σ (X_jl + X_jlᵀ), by subspace iteration from `a`: where the published method starts."""
    for _ in range(rounds):
        product = torch.zeros_like(a).index_add_(0, facts.head, a[facts.tail]).index_add_(0, facts.tail, a[facts.head])
        a = torch.linalg.qr(product)[0]
    return a


def sweep(facts: Facts, at: Point, ridge: float, newton: int) -> Point:
    """One round over R, A and D, with `newton` steps for D. The error with its ridge never grows."""
    at = replace(at, r=best_relations(facts, at, ridge))
    at = replace(at, a=better_entities(facts, at, ridge))
    return replace(at, d=better_times(facts, at, ridge, newton))


def error(facts: Facts, at: Point) -> Tensor:
    """Σ_jl ‖X_jl − A D_l R_j D_l Aᵀ‖². The square of the fitted matrices is Σ_j <R_j, K R_j>."""
    r = at.r.flatten(1)
    return len(facts.head) - (pulled(facts, at) * at.a).sum() + ((r @ system(at)) * r).sum()


# -- relations ----------------------------------------------------------------------------------------------------------


def system(at: Point) -> Tensor:
    """K = Σ_l S_l ⊗ S_l with S_l = D_l G D_l. All relations share it. Row l of `w` is d_l ⊗ d_l."""
    w, g = outer(at.d), at.gram
    return torch.kron(g, g).mul_(w.mT @ w)


def best_relations(facts: Facts, at: Point, ridge: float) -> Tensor:
    """The R_j that fit best: (K + ridge) vec R_j = vec Σ_l D_l Aᵀ X_jl A D_l."""
    d = at.d[facts.time]
    heads, tails = (rows.split(facts.counts) for rows in (at.a[facts.head] * d, at.a[facts.tail] * d))
    right = torch.stack([h.mT @ t for h, t in zip(heads, tails, strict=True)])
    k = system(at)
    # K is singular if A or D have fewer independent columns than they could.
    k.diagonal().add_(ridge + 1e-12 * float(k.diagonal().mean()))
    return torch.cholesky_solve(right.flatten(1).mT, torch.linalg.cholesky(k)).mT.reshape(at.r.shape)


def outer(rows: Tensor, others: Tensor | None = None) -> Tensor:
    """x ⊗ y for each row x and the row y at its place [n, d²]."""
    return (rows[:, :, None] * (rows if others is None else others)[:, None, :]).flatten(1)


def crossed(table: Tensor, rank: int) -> Tensor:
    """[ab, ce] becomes [ac, be]."""
    return table.view(rank, rank, rank, rank).transpose(1, 2).reshape(rank * rank, rank * rank)


def second_moment(r: Tensor) -> Tensor:
    """Σ_j vec R_j vec R_jᵀ."""
    flat = r.flatten(1)
    return flat.mT @ flat


# -- entities -----------------------------------------------------------------------------------------------------------


def pulled(facts: Facts, at: Point) -> Tensor:
    """Σ_jl X_jl A M_jlᵀ + X_jlᵀ A M_jl with M_jl = D_l R_j D_l: what each entity's facts want its row to be [|E|, d]."""
    d, total = at.d[facts.time], torch.zeros_like(at.a)
    for mine, others, matrices in (
        (facts.head, facts.tail, at.r.mT),
        (facts.tail, facts.head, at.r),
    ):
        runs = (at.a[others] * d).split(facts.counts)
        turned = torch.cat([run @ r for run, r in zip(runs, matrices, strict=True)])
        total.index_add_(0, mine, turned.mul_(d))
    return total


def entity_system(at: Point) -> Tensor:
    """Q = Σ_jl vec M_jl vec M_jlᵀ, crossed."""
    w = outer(at.d)
    return crossed((w.mT @ w).mul_(second_moment(at.r)), at.a.shape[1])


def weights(q: Tensor, g: Tensor) -> Tensor:
    """B = Σ_jl M_jl G M_jlᵀ + M_jlᵀ G M_jl for the gram matrix G."""
    flat = g.flatten()
    return (q @ flat + q.mT @ flat).view_as(g)


def wanted_entities(facts: Facts, at: Point, ridge: float) -> Tensor:
    """The closed form A = (Σ X A Mᵀ + Xᵀ A M)(B + ridge)⁻¹: best if the other side's A stays as it is."""
    return _wanted(pulled(facts, at), weights(entity_system(at), at.gram), ridge)


def _wanted(pull: Tensor, b: Tensor, ridge: float) -> Tensor:
    b = b + (ridge + 1e-12 * float(b.diagonal().mean())) * torch.eye(len(b), dtype=b.dtype, device=b.device)
    solved: Tensor = torch.linalg.solve(b, pull, left=False)
    return solved


def better_entities(facts: Facts, at: Point, ridge: float) -> Tensor:
    """A step towards the closed form, which is a direction of descent. The error is a quartic of the step's length."""
    pull, q, g = pulled(facts, at), entity_system(at), at.gram
    b = weights(q, g)
    move = _wanted(pull, b, ridge) - at.a
    both, moved = at.a.mT @ move, move.mT @ move
    g1 = both + both.mT
    b1, b2 = weights(q, g1), weights(q, moved)
    slopes = [
        (b * g1).sum() - 2 * (pull * move).sum() + 2 * ridge * (at.a * move).sum(),
        (b * moved).sum() + (b1 * g1).sum() / 2 + ridge * move.square().sum()
        - (pulled(facts, replace(at, a=move)) * move).sum(),
        (b1 * moved).sum(),
        (b2 * moved).sum() / 2,
    ]  # fmt: skip
    return at.a + lowest(torch.stack(slopes)) * move


# -- times --------------------------------------------------------------------------------------------------------------


def time_pull(facts: Facts, at: Point) -> Tensor:
    """C_l + C_lᵀ with C_l = Σ (a_h a_tᵀ)∘R_j over the facts at time l: what the facts add to the error is −dᵀ(C + Cᵀ)d."""
    order = torch.argsort(facts.time, stable=True)
    counts = torch.bincount(facts.time, minlength=len(at.d)).tolist()
    total = at.d.new_zeros(len(at.d), *at.r.shape[1:])
    for c, facts_then in zip(total, order.split(counts), strict=True):
        heads, tails = at.a[facts.head[facts_then]], at.a[facts.tail[facts_then]]
        c.copy_(torch.einsum("na,nab,nb->ab", heads, at.r[facts.relation[facts_then]], tails))
    return total + total.mT


def better_times(facts: Facts, at: Point, ridge: float, newton: int) -> Tensor:
    """Steps of Newton's method for all d_l at once, each with the best length. Directions of ascent are turned round."""
    g, rank = at.gram, at.a.shape[1]
    z = torch.kron(g, g).mul_(second_moment(at.r))
    pull, cross = time_pull(facts, at), crossed(z, rank)
    twisted = z.view(rank, rank, rank, rank).permute(0, 3, 1, 2).reshape(rank * rank, rank * rank)
    d = at.d
    for _ in range(newton):
        slope, curve = _derivatives(d, pull, z, cross, twisted, ridge)
        sizes, axes = torch.linalg.eigh(curve)
        sizes = sizes.abs().clamp(min=1e-9 * float(sizes.abs().max()) + 1e-30)
        move = -(axes @ ((axes.mT @ slope[:, :, None]) / sizes[:, :, None])).squeeze(2)
        d = d + lowest(_quartic(d, move, pull, z, ridge))[:, None] * move
    return d


def _derivatives(
    d: Tensor, pull: Tensor, z: Tensor, cross: Tensor, twisted: Tensor, ridge: float
) -> tuple[Tensor, Tensor]:
    """Gradient and Hessian of −dᵀ pull d + (d ⊗ d)ᵀ Z (d ⊗ d) + ridge·‖d‖² for each time."""
    w, shape = outer(d), pull.shape
    y, t = (w @ z).view(shape), (w @ twisted.mT).view(shape)
    y = y + y.mT
    inner = 2 * (y - pull)
    inner.diagonal(dim1=1, dim2=2).add_(2 * ridge)
    terms = (w @ cross.mT + w @ cross).view(shape) + t + t.mT
    return (inner @ d[:, :, None]).squeeze(2), inner + 2 * terms


def _quartic(d: Tensor, move: Tensor, pull: Tensor, z: Tensor, ridge: float) -> Tensor:
    """How the error of each time changes with the length of its step: the coefficients of α, α², α³ and α⁴ [4, |T|]."""
    w, w1, w2 = outer(d), outer(d, move) + outer(move, d), outer(move)
    zw, zw1, zw2 = w @ z, w1 @ z, w2 @ z

    def dot(x: Tensor, y: Tensor) -> Tensor:
        product: Tensor = torch.linalg.vecdot(x, y)
        return product

    by_move = (pull @ move[:, :, None]).squeeze(2)
    return torch.stack([
        2 * dot(zw, w1) - 2 * dot(by_move, d) + 2 * ridge * dot(d, move),
        2 * dot(zw, w2) + dot(zw1, w1) - dot(by_move, move) + ridge * dot(move, move),
        2 * dot(zw1, w2),
        dot(zw2, w2),
    ])  # fmt: skip


def lowest(slopes: Tensor, rounds: int = 10) -> Tensor:
    """The α ≥ 0 with nearly the lowest c₁α + c₂α² + c₃α³ + c₄α⁴, for coefficients [4, ...]. At worst it is 0."""
    c1, c2, c3, c4 = slopes

    def pick(tried: Tensor) -> Tensor:
        return tried.gather(0, (tried * (c1 + tried * (c2 + tried * (c3 + tried * c4)))).argmin(0, keepdim=True))[0]

    best = pick(torch.stack([torch.full_like(c1, length) for length in LENGTHS]))
    width = best / 2
    for _ in range(rounds):
        best = pick(torch.stack([best, *(best + part / 8 * width for part in range(-8, 9))]))
        width = width / 8
    return best
