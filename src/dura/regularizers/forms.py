"""The regularizers, as formulas over `Factors`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from dura.types import BadInput, Factors, Traits


class Regularizer(ABC):
    """λ times a sum over the facts of a batch, divided by their number. λ is `weight`."""

    needs_time = False
    """True if it is defined for dated facts only."""
    needs_diagonal = False
    """True if it is not defined for relations that are full matrices."""
    needs_adjoint = False
    """True if it uses the reverse queries t·Rᵀ, which only semantic matching models have."""
    reads_tails = True
    """False if it never looks at the rows of answers. They then need not travel between processes."""
    needs_apart = False
    """True if it uses the rows of relation and time separately, and these must be the whole relation."""

    def __init__(self, weight: float) -> None:
        if not weight >= 0:
            raise BadInput(f"regularizer.weight is {weight}, but a weight is zero or more")
        self.weight = weight

    def check(self, name: str, model: str, traits: Traits) -> None:
        """Refuse a model that this regularizer is not defined for."""
        other = "dura1" if traits.temporal else "dura"
        if self.needs_time and not traits.temporal:
            raise BadInput(
                f"the regularizer {name!r} needs facts with times, and {model!r} is static: use 'dura', or a temporal model"
            )
        if self.needs_adjoint and not traits.adjoint:
            raise BadInput(
                f"the regularizer {name!r} needs a semantic matching model such as 'complex' or 'rescal', not {model!r}: "
                "use 'fro' or 'none'"
            )
        if self.needs_diagonal and not traits.diagonal:
            raise BadInput(
                f"the regularizer {name!r} needs relations that act element by element, unlike those of {model!r}: "
                + (f"use {other!r}, 'fro' or 'none'" if traits.adjoint else "use 'fro' or 'none'")
            )
        if self.needs_apart and not traits.apart:
            raise BadInput(
                f"the regularizer {name!r} would leave a part of the relations of {model!r} without any penalty: "
                "use 'dura1' or 'dura12'"
            )

    def __call__(self, factors: Factors) -> Tensor:
        """The penalty of a batch, weight included."""
        return self.total(factors) * (self.weight / factors.facts)

    @abstractmethod
    def total(self, factors: Factors) -> Tensor:
        """The sum over the facts of the batch, without the weight."""


class NoRegularizer(Regularizer):
    """Nothing."""

    reads_tails = False

    def __init__(self) -> None:
        super().__init__(0.0)

    def total(self, factors: Factors) -> Tensor:
        """0."""
        return factors.head.new_zeros(())


class Frobenius(Regularizer):
    """FRO: ‖h‖² + ‖r‖² + ‖t‖² per fact. If a relation is a sum of parts, this counts for each part."""

    def __init__(self, weight: float = 1e-3) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Weighted by occurrence: a row counts once for each of its facts."""
        entities = squares(factors.head, factors.counts) + squares(factors.tail)
        parts = [squares(part.flatten(1), factors.relation_counts) for part in factors.relation]
        return torch.stack(parts).sum() + len(parts) * entities if parts else entities


class N3(Regularizer):
    """Σ|h|³ + Σ|r|³ + Σ|t|³ per fact, with moduli over complex numbers; diagonal relations only.

    If a relation is a sum of parts, this counts for each part: TNTComplEx has 2|h|³ + |r∘τ|³ + |r′|³ + 2|t|³, as published.
    """

    needs_diagonal = True

    def __init__(self, weight: float = 0.05) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """The nuclear 3-norm's variational form."""
        entities = cubes(factors.head, factors.complex, factors.counts) + cubes(factors.tail, factors.complex)
        parts = [cubes(part, factors.complex, factors.relation_counts) for part in factors.relation]
        return torch.stack(parts).sum() + len(parts) * entities if parts else entities


class DURA(Regularizer):
    """λ₁(‖h‖² + ‖t‖²) + λ₂(‖hR̄‖² + ‖tRᵀ‖²) per fact; λ₁ is `lambda1`, λ₂ is `lambda2`."""

    needs_adjoint = True

    def __init__(self, weight: float = 0.02, lambda1: float = 0.5, lambda2: float = 1.5) -> None:
        super().__init__(weight)
        self.lambda1, self.lambda2 = check_weights(lambda1=lambda1, lambda2=lambda2)

    def total(self, factors: Factors) -> Tensor:
        """Entities and products, each with its own weight."""
        return both_squares(factors, self.lambda1, self.lambda2)


class DURAI(Regularizer):
    """DURA-I, the basic form: ‖hR̄‖² + ‖t‖² per fact."""

    needs_adjoint = True

    def __init__(self, weight: float = 0.02) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Pulls tails of the same question together."""
        return squares(factors.query, factors.counts) + squares(factors.tail)


class DURAII(Regularizer):
    """DURA-II, the other direction: ‖tRᵀ‖² + ‖h‖² per fact."""

    needs_adjoint = True

    def __init__(self, weight: float = 0.02) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Pulls heads of the same question together."""
        return tail_squares(factors, 0.0, 1.0) + squares(factors.head, factors.counts)


class DURA1(Regularizer):
    """DURA of dated facts: λ₃(‖h‖² + ‖t‖²) + λ₄(‖h̄ρ‖² + ‖tρᵀ‖²) per fact, where ρ is the relation at the fact's time."""

    needs_time = needs_adjoint = True

    def __init__(self, weight: float = 0.003, lambda3: float = 1e-3, lambda4: float = 100.0) -> None:
        super().__init__(weight)
        self.lambda3, self.lambda4 = check_weights(lambda3=lambda3, lambda4=lambda4)

    def total(self, factors: Factors) -> Tensor:
        """The form of DURA with the relation at its time."""
        return both_squares(factors, self.lambda3, self.lambda4)


class DURA2(Regularizer):
    """λ₁(‖h̄r‖² + ‖tτ‖²) + λ₂(‖h̄τ‖² + ‖tr‖²) per fact; diagonal relations only.

    It is refused for TNTComplEx, whose relations have a part without a time that no term would reach.
    """

    needs_time = needs_adjoint = needs_diagonal = needs_apart = True

    def __init__(self, weight: float = 0.1, lambda1: float = 0.1, lambda2: float = 0.03) -> None:
        super().__init__(weight)
        self.lambda1, self.lambda2 = check_weights(lambda1=lambda1, lambda2=lambda2)

    def total(self, factors: Factors) -> Tensor:
        """Relation and time separately."""
        assert factors.read_apart is not None
        head_relation, tail_relation = factors.read_apart("relation")
        head_time, tail_time = factors.read_apart("time")
        first = squares(head_relation, factors.counts) + tail_time
        second = squares(head_time, factors.counts) + tail_relation
        return self.lambda1 * first + self.lambda2 * second


class DURA12(Regularizer):
    """All four terms, DURA1 and DURA2 together; diagonal relations only."""

    needs_time = needs_adjoint = needs_diagonal = True

    def __init__(
        self,
        weight: float = 0.01,
        lambda1: float = 0.1,
        lambda2: float = 0.03,
        lambda3: float = 1e-3,
        lambda4: float = 1.0,
    ) -> None:
        super().__init__(weight)
        self.one, self.two = DURA1(1.0, lambda3, lambda4), DURA2(1.0, lambda1, lambda2)

    def total(self, factors: Factors) -> Tensor:
        """The sum of both forms."""
        return self.one.total(factors) + self.two.total(factors)


class RegP1(Regularizer):
    """The p = 1 form of the paper's appendix: ‖hR̄ − t‖₁ + ‖tRᵀ − h‖₁ per fact, with moduli over complex numbers."""

    needs_adjoint = True

    def __init__(self, weight: float = 1e-3) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """The dual distances themselves, not their expansion."""
        query, head = factors.query[factors.question], factors.head[factors.question]
        return moduli(query - factors.tail, factors.complex) + moduli(factors.reverse - head, factors.complex)


def both_squares(factors: Factors, plain: float, turned: float) -> Tensor:
    """Σ plain·(‖h‖² + ‖t‖²) + turned·(‖hR̄‖² + ‖tRᵀ‖²) over the facts."""
    head, query = squares(factors.head, factors.counts), squares(factors.query, factors.counts)
    return plain * head + turned * query + tail_squares(factors, plain, turned)


def tail_squares(factors: Factors, plain: float, turned: float) -> Tensor:
    """Σ plain·‖t‖² + turned·‖t·Rᵀ‖² over the facts."""
    short = factors.read_tail_squares(plain, turned)
    return plain * squares(factors.tail) + turned * squares(factors.reverse) if short is None else short


def check_weights(**weights: float) -> tuple[float, ...]:
    """The weights, if none is negative."""
    for name, value in weights.items():
        if not value >= 0:
            raise BadInput(f"regularizer.{name} is {value}, but a weight is zero or more")
    return tuple(weights.values())


def squares(x: Tensor, counts: Tensor | None = None) -> Tensor:
    """Σ ‖x_i‖², with each row counted `counts[i]` times. Over complex numbers it is the same sum, re² + im²."""
    total: Tensor = _Squares.apply(x, counts)  # type: ignore[no-untyped-call]
    return total


class _Squares(torch.autograd.Function):
    """One pass forward and one backward (2·counts·x). A product of x with itself would take three."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, counts)
        if counts is None:
            flat = x.flatten()
            return flat @ flat
        rows: Tensor = torch.linalg.vecdot(x, x)
        return rows @ counts

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, counts = ctx.saved_tensors
        factor = 2 * gradients[0]
        return x * (factor if counts is None else (factor * counts)[:, None]), None


def moduli(x: Tensor, over_complex: bool) -> Tensor:
    """Σ |x_id|. The gradient at zero is zero, also over complex numbers."""
    return (torch.view_as_complex(x.unflatten(-1, (-1, 2))) if over_complex else x).abs().sum()


def cubes(x: Tensor, over_complex: bool, counts: Tensor | None = None) -> Tensor:
    """Σ Σ_d |x_id|³, with each row counted `counts[i]` times. |·| is the modulus if neighbouring reals are one number."""
    total: Tensor = _Cubes.apply(x, over_complex, counts)  # type: ignore[no-untyped-call]
    return total


class _Cubes(torch.autograd.Function):
    """The gradient is 3·|x|·x, which is finite at zero. The moduli are computed once, and no power is taken."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, over_complex: bool, counts: Tensor | None) -> Tensor:
        square = x * x
        if over_complex:
            square = square[..., 0::2] + square[..., 1::2]
        moduli = square.sqrt()
        ctx.save_for_backward(x, moduli, counts)
        rows: Tensor = torch.linalg.vecdot(square, moduli)
        return rows.sum() if counts is None else rows @ counts

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        x, moduli, counts = ctx.saved_tensors
        factor = 3 * gradients[0]
        slopes = moduli * (factor if counts is None else (factor * counts)[:, None])
        gradient = x.unflatten(-1, (moduli.shape[-1], -1)) * slopes[..., None]
        return gradient.flatten(-2), None, None
