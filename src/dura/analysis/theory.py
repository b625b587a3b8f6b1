"""Theory: the paper's Theorems 1 to 3 checked numerically, in float64.

Three things are checked for each statement (see `statements`):

- The value of a random decomposition is never below its bound, Σ_d of the products of its columns' norms. Rescaling does not change
  this bound (`ratios`).
- Rescaled to the stated minimizer, the decomposition attains the bound, and no score changes (`gap`, `moved`).
- Longer decompositions of a tensor with a known nuclear 2-norm never have a value below that norm. If they are minimised over the
  splits and scales of columns, they end at the norm and meet the conditions for minimizers (`paths`, `conditions`).

In general it is NP-hard to compute the nuclear 2-norm of a tensor X. It is known if the head columns are orthogonal and the tail
columns too: then it is Σ_d of the products of the columns' norms. (Let Y be the same sum with all columns scaled to length 1. Its
spectral norm is 1, and <X, Y> is that Σ_d.)
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from dura.analysis.statements import Decomposition, Statement
from dura.types import BadInput, DuraError

EXACT = 1e-10
"""A rescaling attains a bound if its relative distance is below this."""
CONVERGED = 1e-8
"""A minimisation ends at a bound if its relative distance is below this; most reach 1e-15."""
ROUNDING = 1e-12
"""Rounding alone may bring a ratio this far below 1."""
STEPS = 200
"""The most values that a minimisation may compute."""
LONGEST = 1.5
"""Standard deviation of the logarithm of a random column's length."""

STATEMENTS = (
    Statement("Theorem 1", "dura", "cp", lambdas=(1.0, 1.0)),
    Statement("Theorem 1, complex", "dura", "complex", real=False, lambdas=(1.0, 1.0)),
    Statement("Theorem 1, weighted", "dura", "cp", lambdas=(0.5, 1.5)),
    Statement("Theorem 1, first half", "dura-i", "cp"),
    Statement("Theorem 1, second half", "dura-ii", "cp"),
    Statement("Theorem 2", "dura1", "tcomplex", lambdas=(1.0, 1.0)),
    Statement("Theorem 2, complex", "dura1", "tcomplex", real=False, lambdas=(1.0, 1.0)),
    Statement("Theorem 2, weighted", "dura1", "tcomplex", lambdas=(0.5, 1.5)),
    Statement("Theorem 3", "dura2", "tcomplex", lambdas=(1.0, 1.0)),
    Statement("Theorem 3, complex", "dura2", "tcomplex", real=False, lambdas=(1.0, 1.0)),
    Statement("Theorem 3, weighted", "dura2", "tcomplex", lambdas=(0.1, 0.03)),
    Statement("p = 1 instead of 2", "reg-p1", "cp", bounded=False),
)
"""The theorems as stated (real numbers, weights 1), in complex form, with other weights (ours), and the appendix's p = 1."""


@dataclass(frozen=True)
class Verdict:
    """The results for one statement. A ratio is a value divided by its bound. A gap is |ratio − 1|."""

    statement: Statement
    ratios: tuple[float, ...]
    """The ratios of random decompositions to their bounds, ascending."""
    gap: float | None
    """The largest gap at the stated minimizers; None if the statement has no minimizers."""
    moved: float | None
    """The largest change of a score when rescaled to the minimizers, relative to the largest score."""
    paths: tuple[tuple[float, ...], ...]
    """The ratios of longer decompositions to the nuclear 2-norm, at each step of their minimisation."""
    conditions: float | None
    """The largest relative error of the stated conditions at the ends of the minimisations."""

    @property
    def lowest(self) -> float:
        """The smallest ratio during the minimisations."""
        return min(map(min, self.paths))

    @property
    def ends(self) -> float:
        """The largest gap at the end of a minimisation."""
        return max(abs(min(path) - 1) for path in self.paths)

    @property
    def holds(self) -> bool:
        """True if the paper's statement agrees with what was found."""
        least = min(self.ratios[0], self.lowest)
        if self.gap is None or self.moved is None or self.conditions is None:
            return least < 1 - CONVERGED
        attained = max(self.gap, self.moved) < EXACT and self.ends < CONVERGED
        return least > 1 - ROUNDING and attained and self.conditions < 10 * math.sqrt(CONVERGED)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        said = self.statement
        return {
            "statement": said.name,
            "regularizer": said.regularizer,
            "lambdas": said.lambdas,
            "model": said.model,
            "numbers": "real" if said.real else "complex",
            "bounded": said.bounded,
            "ratios": list(self.ratios),
            "gap": self.gap,
            "moved": self.moved,
            "paths": [list(path) for path in self.paths],
            "lowest": self.lowest,
            "ends": self.ends,
            "conditions": self.conditions,
            "holds": self.holds,
        }


def check(
    statements: Sequence[Statement] = STATEMENTS,
    *,
    draws: int = 200,
    starts: int = 5,
    size: int = 6,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Verdict]:
    """Check every statement with `draws` random decompositions and `starts` minimisations.

    Each draw has 1 to `size` entities, relations, times and columns, all random. `progress` is called with (done, in all).

    >>> [verdict.holds for verdict in check(STATEMENTS[:1], draws=5, starts=1)]
    [True]
    """
    for name, number in (("draws", draws), ("starts", starts), ("size", size)):
        if number < 1:
            raise BadInput(f"{name} is {number}, but at least 1 is needed")
    verdicts = []
    for done, statement in enumerate(statements):
        # Each statement has its own draws, seeded by its name: leaving one out changes no other.
        chance = Generator().manual_seed(seed + zlib.crc32(statement.name.encode()))
        verdicts.append(_check(statement, draws, starts, size, chance))
        if progress is not None:
            progress(done + 1, len(statements))
    return verdicts


def _check(statement: Statement, draws: int, starts: int, size: int, chance: Generator) -> Verdict:
    ratios, gaps, moved = [], [], []
    for _ in range(draws):
        near = columns = _draw(statement, size, chance)
        if statement.bounded:
            near = statement.minimizer(columns)
            gaps.append(abs(_ratio(statement, near, columns.bound()) - 1))
            before, after = statement.scores(columns), statement.scores(near)
            moved.append(float((after - before).abs().max() / before.abs().max()))
        # From very near to the minimizers to far away.
        distance = 10 ** (4.5 * float(torch.rand((), generator=chance)) - 4)
        drawn = near.scaled((distance * _normal(near.norms().shape, chance)).exp())
        ratios.append(_ratio(statement, drawn, drawn.bound()))
    if not statement.bounded:  # a tensor of ones is the simplest counterexample: all distances are 0
        ones = Decomposition(*(torch.ones(size, 1, dtype=torch.float64) for _ in range(3)))
        ratios.append(_ratio(statement, ones, ones.bound()))
    paths, conditions = [], []
    for _ in range(starts):
        path, end = _minimise(statement, _draw(statement, size, chance, orthogonal=True), chance)
        paths.append(tuple(path))
        conditions.append(statement.conditions(end))
    return Verdict(
        statement=statement,
        ratios=tuple(sorted(ratios)),
        gap=max(gaps, default=None),
        moved=max(moved, default=None),
        paths=tuple(paths),
        conditions=max(conditions) if statement.bounded else None,
    )


def _ratio(statement: Statement, columns: Decomposition, bound: float) -> float:
    return float(statement.value(columns)) / bound


def _normal(shape: Sequence[int], chance: Generator, real: bool = True) -> Tensor:
    return torch.randn(*shape, generator=chance, dtype=torch.float64 if real else torch.complex128)


def _draw(statement: Statement, size: int, chance: Generator, orthogonal: bool = False) -> Decomposition:
    """Random columns with very different lengths. With `orthogonal` heads and tails their `bound` is the nuclear 2-norm."""
    heads, relations, times, rank = (int(n) for n in torch.randint(1, size + 1, (4,), generator=chance))
    rows = [heads, relations, heads, *([times] if statement.temporal else [])]
    rank = min(rank, heads) if orthogonal else rank
    parts = [_normal((n, rank), chance, statement.real) for n in rows]
    if orthogonal:
        parts[0], parts[2] = (torch.linalg.qr(part).Q for part in (parts[0], parts[2]))
    # A minimisation sees only the sum over columns. It would ignore a column that is a millionth of the sum.
    spread = LONGEST / 5 if orthogonal else LONGEST
    return Decomposition(*parts).scaled((spread * _normal((len(rows), rank), chance)).exp())


@dataclass(frozen=True)
class _Split:
    """Longer decompositions of a tensor: u⊗r⊗v = (u/2 + w)⊗r⊗v + (u/2 − w)⊗r⊗v, with any scales that multiply to 1.

    The part of w along u stays within ±u/2, the rest is free. (Beyond that, one of the two pieces must vanish on the way to the
    minimum, and minimisations do not reach such a point in a reasonable time.)
    """

    columns: Decomposition

    def draw(self, chance: Generator) -> Tensor:
        """Random free numbers: w across u in lengths of u, w along u, and the logarithms of all scales except the last."""
        head = self.columns.head
        across = _normal(head.shape, chance, not head.is_complex()) / math.sqrt(len(head))
        along, logs = _normal((head.shape[1],), chance), _normal((self._logs,), chance)
        return torch.cat([_reals(across).flatten(), along / 2, logs / 2])

    def at(self, free: Tensor) -> Decomposition:
        """The decomposition with twice as many columns for these free numbers."""
        head, *others = self.columns.parts
        numbers, along, logs = free.split([_reals(head).numel(), head.shape[1], self._logs])
        across = numbers.view_as(_reals(head))
        w = (torch.view_as_complex(across) if head.is_complex() else across) * head.norm(dim=0)
        unit = head / head.norm(dim=0)
        w = w - unit * (unit.conj() * w).sum(0) + head * along.tanh() / 2
        heads = torch.cat([head / 2 + w, head / 2 - w], 1)
        scales = logs.view(len(others), -1)
        twice = Decomposition(heads, *(torch.cat([part, part], 1) for part in others))
        return twice.scaled(torch.cat([scales, -scales.sum(0, keepdim=True)]).exp())

    @property
    def _logs(self) -> int:
        return 2 * self.columns.head.shape[1] * (len(self.columns.parts) - 1)


def _reals(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


def _minimise(statement: Statement, columns: Decomposition, chance: Generator) -> tuple[list[float], Decomposition]:
    """The ratios to the nuclear 2-norm while L-BFGS minimises a random split, and the decomposition at the end."""
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise DuraError("the minimisations need scipy; install it with: pip install 'dura-kge[studies]'") from None
    split, norm = _Split(columns), columns.bound()
    path: list[float] = []

    def slope(numbers: Any) -> tuple[float, Any]:
        free = torch.tensor(numbers, requires_grad=True)
        ratio = statement.value(split.at(free)) / norm
        (gradient,) = torch.autograd.grad(ratio, free)
        path.append(float(ratio.detach()))
        return path[-1], gradient.numpy()

    options: Any = {"maxiter": STEPS, "maxfun": STEPS, "maxcor": 50, "ftol": 1e-16, "gtol": 1e-12}
    found = minimize(slope, split.draw(chance).numpy(), jac=True, method="L-BFGS-B", options=options)
    return path, split.at(torch.tensor(found.x))
