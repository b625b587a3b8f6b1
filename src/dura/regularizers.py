"""Regularizers: one class a row of the table, each a sum over the facts of a batch divided by their number.

A regularizer sees `Factors`, never a model. To add one: a class whose constructor is its settings and a row in
`REGULARIZERS`, or an entry point of the group `dura.regularizers`. The class weight of the objective never applies here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from dura.registry import Registry
from dura.types import BadInput, Factors


class Regularizer(ABC):
    """λ times a sum over the facts of the batch, divided by their number. λ is `weight`."""

    needs_diagonal = False
    """True where the paper says "not applicable" to models whose relations are full matrices."""

    def __init__(self, weight: float) -> None:
        if not weight >= 0:
            raise BadInput(f"regularizer.weight is {weight}, but a weight is zero or more")
        self.weight = weight

    def check(self, name: str, model: str, diagonal: bool) -> None:
        """Refuse a model that this regularizer does not apply to."""
        if self.needs_diagonal and not diagonal:
            raise BadInput(
                f"the regularizer {name!r} is not applicable to {model!r}, whose relations are full matrices: "
                "it is defined for diagonal relations only; use 'dura', 'fro' or 'none'"
            )

    def __call__(self, factors: Factors) -> Tensor:
        """The penalty of a batch, weight included."""
        return self.total(factors) * (self.weight / factors.facts)

    @abstractmethod
    def total(self, factors: Factors) -> Tensor:
        """The sum over the facts of the batch, without the weight."""


class NoRegularizer(Regularizer):
    """Nothing."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def total(self, factors: Factors) -> Tensor:
        """0."""
        return factors.head.new_zeros(())


class Frobenius(Regularizer):
    """FRO: ‖h‖² + ‖r‖² + ‖t‖² a fact."""

    def __init__(self, weight: float = 1e-3) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Weighted by occurrence, as every row counts once a fact."""
        relation = squares(factors.relation.flatten(1), factors.relation_counts)
        return squares(factors.head, factors.counts) + relation + squares(factors.tail)


class N3(Regularizer):
    """Σ|h|³ + Σ|r|³ + Σ|t|³ a fact, moduli over complex numbers; diagonal relations only."""

    needs_diagonal = True

    def __init__(self, weight: float = 0.05) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """The nuclear 3-norm's variational form."""
        head = cubes(factors.head, factors.complex, factors.counts)
        relation = cubes(factors.relation, factors.complex, factors.relation_counts)
        return head + relation + cubes(factors.tail, factors.complex)


class DURA(Regularizer):
    """λ₁(‖h‖² + ‖t‖²) + λ₂(‖hR̄‖² + ‖tRᵀ‖²) a fact; λ₁ is `lambda1`, λ₂ is `lambda2`."""

    def __init__(self, weight: float = 0.02, lambda1: float = 0.5, lambda2: float = 1.5) -> None:
        super().__init__(weight)
        if not (lambda1 >= 0 and lambda2 >= 0):
            raise BadInput(f"regularizer.lambda1 and lambda2 are {lambda1} and {lambda2}, but weights are zero or more")
        self.lambda1, self.lambda2 = lambda1, lambda2

    def total(self, factors: Factors) -> Tensor:
        """Entities and products, each with its own weight."""
        head, query = squares(factors.head, factors.counts), squares(factors.query, factors.counts)
        return self.lambda1 * head + self.lambda2 * query + tail_squares(factors, self.lambda1, self.lambda2)


class DURAI(Regularizer):
    """DURA-I, the basic form: ‖hR̄‖² + ‖t‖² a fact."""

    def __init__(self, weight: float = 0.02) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Pulls tails of the same question together."""
        return squares(factors.query, factors.counts) + squares(factors.tail)


class DURAII(Regularizer):
    """DURA-II, the other direction: ‖tRᵀ‖² + ‖h‖² a fact."""

    def __init__(self, weight: float = 0.02) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """Pulls heads of the same question together."""
        return tail_squares(factors, 0.0, 1.0) + squares(factors.head, factors.counts)


class RegP1(Regularizer):
    """The appendix's p = 1 form: ‖hR̄ − t‖₁ + ‖tRᵀ − h‖₁ a fact, moduli over complex numbers."""

    def __init__(self, weight: float = 1e-3) -> None:
        super().__init__(weight)

    def total(self, factors: Factors) -> Tensor:
        """The dual distances themselves, not their expansion."""
        query, head = factors.query[factors.question], factors.head[factors.question]
        return moduli(query - factors.tail, factors.complex) + moduli(factors.reverse - head, factors.complex)


def tail_squares(factors: Factors, plain: float, turned: float) -> Tensor:
    """Σ plain·‖t‖² + turned·‖t·Rᵀ‖² over the facts."""
    short = factors.read_tail_squares(plain, turned)
    return plain * squares(factors.tail) + turned * squares(factors.reverse) if short is None else short


def squares(x: Tensor, counts: Tensor | None = None) -> Tensor:
    """Σ ‖x_i‖², each row taken `counts[i]` times; over complex numbers the same sum, re² + im²."""
    total: Tensor = _Squares.apply(x, counts)  # type: ignore[no-untyped-call]
    return total


class _Squares(torch.autograd.Function):
    """One pass forward, one backward (2·counts·x), where a product of x with itself would take three."""

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
    """Σ |x_id|; the gradient at zero is zero, over complex numbers too."""
    return (torch.view_as_complex(x.unflatten(-1, (-1, 2))) if over_complex else x).abs().sum()


def cubes(x: Tensor, over_complex: bool, counts: Tensor | None = None) -> Tensor:
    """Σ Σ_d |x_id|³, each row taken `counts[i]` times; |·| is the modulus where neighbouring reals are one number."""
    # (re² + im²)^1.5 has a finite gradient at zero; a square root followed by a cube has not.
    cubed = x.unflatten(-1, (-1, 2)).square().sum(-1).pow(1.5) if over_complex else x.abs().pow(3)
    rows: Tensor = cubed.sum(-1)
    return rows.sum() if counts is None else rows @ counts


REGULARIZERS: Registry[Regularizer] = Registry(
    "regularizer",
    "dura.regularizers",
    {
        "none": NoRegularizer,
        "fro": Frobenius,
        "n3": N3,
        "dura": DURA,
        "dura-i": DURAI,
        "dura-ii": DURAII,
        "reg-p1": RegP1,
    },
)
