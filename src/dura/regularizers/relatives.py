"""Relatives of DURA by other authors, as formulas over `Factors`: ER and IVR. DURA is a special case of both."""

from __future__ import annotations

import torch
from torch import Tensor

from dura.regularizers.forms import Regularizer, check_weights, squares
from dura.types import BadInput, Factors

LARGEST_POWER = 10.0


class ER(Regularizer):
    """λ₁(‖h‖² + ‖t‖²) + λ₂(‖hR̄‖² + ‖tR̄‖² − 2σs⟨hR̄, tR̄⟩) per fact, the equivariance regularizer.

    s is 1 if head and tail are close and −1 otherwise. With σ (`strength`) of 1 the last term is ‖hR̄ − tR̄‖² for close pairs and
    ‖hR̄ + tR̄‖² for others. Close means ‖h − t‖² ≤ ε²(‖h‖² + ‖t‖²), where ε is `threshold`: 1 is the distance of unrelated rows.
    With a strength of 0 and diagonal relations it is DURA.
    """

    needs_adjoint = True

    def __init__(
        self,
        weight: float = 0.05,
        lambda1: float = 1.0,
        lambda2: float = 1.0,
        threshold: float = 0.5,
        strength: float = 0.5,
    ) -> None:
        super().__init__(weight)
        self.lambda1, self.lambda2 = check_weights(lambda1=lambda1, lambda2=lambda2)
        if not threshold >= 0:
            raise BadInput(f"regularizer.threshold is {threshold}, but a distance is zero or more")
        self.threshold = threshold
        if not 0 <= strength <= 1:
            raise BadInput(f"regularizer.strength is {strength}, but it is 0 to 1")
        self.strength = strength

    def total(self, factors: Factors) -> Tensor:
        """Both ends, what the relation makes of both ends, and how these two meet."""
        ends = squares(factors.head, factors.counts) + squares(factors.tail)
        turned = squares(factors.query, factors.counts) + squares(factors.onward)
        total = self.lambda1 * ends + self.lambda2 * turned
        if not self.strength:
            return total
        met: Tensor = torch.linalg.vecdot(factors.query[factors.question], factors.onward)
        return total - (2 * self.lambda2 * self.strength) * (met @ self.signs(factors))

    @torch.no_grad()
    def signs(self, factors: Factors) -> Tensor:
        """1 for each fact whose head and tail are close, −1 for the others. The sign has no slope."""
        h, t = factors.head, factors.tail
        both = torch.linalg.vecdot(h, h)[factors.question] + torch.linalg.vecdot(t, t)
        apart = both - 2 * torch.linalg.vecdot(h[factors.question], t)
        return torch.where(apart <= self.threshold**2 * both, 1.0, -1.0).to(h.dtype)


class IVR(Regularizer):
    """λ₁(n(h) + n(t) + ρ·n(r)) + λ₂(n(h∘r) + n(r∘t) + η·n(t∘h)) per fact, with n(x) = Σ|x|^a; the intermediate variables' norms.

    a is `power`, ρ is `relation` and η is `ends`. With a = 2 and ρ = η = 0 it is DURA; with a = 3, ρ = 1, λ₁ = 1 and λ₂ = 0 it is
    N3. If a relation is a sum of parts, the sum is r.
    """

    needs_adjoint = needs_diagonal = True

    def __init__(
        self,
        weight: float = 0.05,
        lambda1: float = 0.1,
        lambda2: float = 1.0,
        power: float = 2.25,
        relation: float = 1.0,
        ends: float = 1.0,
    ) -> None:
        super().__init__(weight)
        self.lambda1, self.lambda2, self.relation, self.ends = check_weights(
            lambda1=lambda1, lambda2=lambda2, relation=relation, ends=ends
        )
        if not 2 <= power <= LARGEST_POWER:
            raise BadInput(
                f"regularizer.power is {power}, but it is 2 to {LARGEST_POWER:g}: below 2 there is no slope at zero"
            )
        self.power = power

    def total(self, factors: Factors) -> Tensor:
        """Each factor by itself, then each two of them together. What has no weight is not computed."""
        total, a, i = factors.head.new_zeros(()), self.power, factors.complex
        head, tail = powers(factors.head, a, i), powers(factors.tail, a, i)
        if self.lambda1:
            total = total + self.lambda1 * (head.sum(1) @ factors.counts + tail.sum())
        if self.lambda1 * self.relation:
            rows = powers(sum(factors.relation[1:], start=factors.relation[0]), a, i)
            total = total + self.lambda1 * self.relation * (rows.sum(1) @ factors.relation_counts)
        if self.lambda2:
            turned = powers(factors.query, a, i).sum(1) @ factors.counts + powers(factors.reverse, a, i).sum()
            total = total + self.lambda2 * turned
        if self.lambda2 * self.ends:
            by_question = torch.zeros_like(head).index_add(0, factors.question, tail)
            total = total + self.lambda2 * self.ends * (head.flatten() @ by_question.flatten())
        return total


def powers(x: Tensor, power: float, over_complex: bool) -> Tensor:
    """|x|^power of each number; |·| is the modulus if neighbouring reals are one number."""
    # |x|² has a slope at zero, unlike |x|.
    squared = x.unflatten(-1, (-1, 2)).square().sum(-1) if over_complex else x.square()
    return squared if power == 2 else squared.pow(power / 2)
