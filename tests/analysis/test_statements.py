"""The left sides of the theorems against their literal sums, their minimizers against the paper's conditions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from dura.analysis.statements import Decomposition, Statement
from dura.analysis.theory import STATEMENTS

Array = NDArray[Any]
BY_NAME = {statement.name: statement for statement in STATEMENTS}
BOUNDED = [statement for statement in STATEMENTS if statement.bounded]
every_bounded = pytest.mark.parametrize("statement", BOUNDED, ids=lambda statement: statement.name)


def draw(
    statement: Statement, seed: int, entities: int = 4, relations: int = 3, times: int = 2, rank: int = 3
) -> Decomposition:
    rng = np.random.default_rng(seed)

    def part(n: int) -> Tensor:
        real = rng.normal(size=(n, rank)) * np.exp(rng.normal(size=rank))
        return torch.from_numpy(real if statement.real else real + 1j * rng.normal(size=(n, rank)))

    sizes = [entities, relations, entities, *([times] if statement.temporal else [])]
    return Decomposition(*(part(n) for n in sizes))


def square(x: Array) -> float:
    return float((np.abs(x) ** 2).sum())


def literal(statement: Statement, columns: Decomposition) -> float:
    """The theorems' left sides as printed, with U, V, R_j = diag(r_j), T_l = diag(τ_l); the weights as in SPEC's table."""
    u, r, v, *time = (part.numpy() for part in columns.parts)
    one, two = statement.lambdas or (1.0, 1.0)
    total, relations = 0.0, len(r)
    if statement.regularizer == "reg-p1":  # Σ_ijk ‖h_i R_j − t_k‖₁ + ‖t_k R_j − h_i‖₁, with Theorem 1's factor
        for i in range(len(u)):
            for j in range(relations):
                for k in range(len(v)):
                    total += np.abs(u[i] * r[j] - v[k]).sum() + np.abs(v[k] * r[j] - u[i]).sum()
        return total / len(u) / (4 * math.sqrt(relations))
    if statement.regularizer in ("dura-i", "dura-ii"):
        near, far = (u, v) if statement.regularizer == "dura-i" else (v, u)
        for j in range(relations):
            total += square(near @ np.diag(r[j])) + square(far)
        return total / (2 * math.sqrt(relations))
    if statement.regularizer == "dura":
        for j in range(relations):
            turned = np.diag(r[j])
            total += one * (square(u) + square(v)) + two * (square(u.conj() @ turned) + square(v @ turned.T))
        return total / (4 * math.sqrt(relations)) / math.sqrt(one * two)
    for j in range(relations):
        for moment in time[0]:
            rj, tl = np.diag(r[j]), np.diag(moment)
            if statement.regularizer == "dura1":
                total += one * (square(u) + square(v)) + two * (square(u.conj() @ rj @ tl) + square(v @ (rj @ tl).T))
            else:
                total += one * (square(u.conj() @ rj) + square(v @ tl)) + two * (square(u.conj() @ tl) + square(v @ rj))
    least = (one + two) / 2 if statement.regularizer == "dura2" else math.sqrt(one * two)
    return total / (4 * math.sqrt(relations * len(time[0]))) / least


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_values_are_the_printed_sums(statement: Statement) -> None:
    for seed in range(3):
        columns = draw(statement, seed)
        assert float(statement.value(columns)) == pytest.approx(literal(statement, columns), rel=1e-13)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_gradients_flow_to_the_columns(statement: Statement) -> None:
    columns = draw(statement, 1)
    free = Decomposition(*(part.clone().requires_grad_() for part in columns.parts))
    statement.value(free).backward()
    for at, part in enumerate(free.parts):
        step = torch.zeros_like(part.detach())
        step[1, 2] = 1e-5
        step = step if statement.real else 1j * step
        ends = [
            Decomposition(*(p + sign * step if i == at else p for i, p in enumerate(columns.parts))) for sign in (1, -1)
        ]
        slope = (literal(statement, ends[0]) - literal(statement, ends[1])) / 2e-5
        assert part.grad is not None
        found = part.grad[1, 2] if statement.real else part.grad[1, 2].imag
        assert float(found) == pytest.approx(slope, rel=1e-6)


def test_scores_are_the_tensor() -> None:
    columns = draw(BY_NAME["Theorem 1"], 0)
    tensor = np.einsum("id,jd,kd->ijk", *(part.numpy() for part in columns.parts))
    np.testing.assert_allclose(BY_NAME["Theorem 1"].scores(columns).numpy(), tensor.ravel(), rtol=1e-12)
    columns = draw(BY_NAME["Theorem 2, complex"], 0)
    u, r, v, t = (part.numpy() for part in columns.parts)
    tensor = np.einsum("id,jd,ld,kd->ijlk", u.conj(), r, t, v).real
    np.testing.assert_allclose(BY_NAME["Theorem 2, complex"].scores(columns).numpy(), tensor.ravel(), rtol=1e-10)


@every_bounded
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)
def test_minimizers_attain_the_bound_and_nothing_is_below(
    statement: Statement, seed: int, sizes: tuple[int, int, int, int]
) -> None:
    columns = draw(statement, seed, *sizes)
    norms = [np.linalg.norm(part.numpy(), axis=0) for part in columns.parts]
    bound = float(np.prod(norms, axis=0).sum())
    assert columns.bound() == pytest.approx(bound, rel=1e-13)
    assert float(statement.value(columns)) >= bound * (1 - 1e-12)
    best = statement.minimizer(columns)
    assert float(statement.value(best)) == pytest.approx(bound, rel=1e-10)
    assert statement.conditions(best) < 1e-12
    before, after = statement.scores(columns), statement.scores(best)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12 * float(before.abs().max()))


def test_minimizers_meet_the_conditions_as_printed() -> None:
    columns = BY_NAME["Theorem 1"].minimizer(draw(BY_NAME["Theorem 1"], 5))
    u, r, v = (part.norm(dim=0) for part in columns.parts)
    root = math.sqrt(len(columns.relation))
    torch.testing.assert_close(u * r, root * v)
    torch.testing.assert_close(v * r, root * u)
    columns = BY_NAME["Theorem 2"].minimizer(draw(BY_NAME["Theorem 2"], 5))
    u, r, v, t = (part.norm(dim=0) for part in columns.parts)
    root = math.sqrt(len(columns.relation) * columns.times)
    torch.testing.assert_close(u * r * t, root * v)
    torch.testing.assert_close(v * r * t, root * u)
    columns = BY_NAME["Theorem 3"].minimizer(draw(BY_NAME["Theorem 3"], 5))
    u, r, v, t = (part.norm(dim=0) for part in columns.parts)
    by_relation, by_time = math.sqrt(len(columns.relation)), math.sqrt(columns.times)
    torch.testing.assert_close(by_time * u * r, by_relation * v * t)
    torch.testing.assert_close(by_relation * u * t, by_time * v * r)


def test_the_proof_of_theorem_1_rescales_to_the_first_half_only() -> None:
    """Its construction leaves heads as they are, so it attains DURA-I's bound, while DURA's wants both conditions."""
    columns = draw(BY_NAME["Theorem 1"], 2)
    halfway = BY_NAME["Theorem 1, first half"].minimizer(columns)
    assert float(BY_NAME["Theorem 1, first half"].value(halfway)) == pytest.approx(columns.bound(), rel=1e-12)
    assert float(BY_NAME["Theorem 1"].value(halfway)) > 1.01 * columns.bound()


def test_conditions_tell_how_far_they_fail_and_pass_over_columns_that_vanished() -> None:
    statement = BY_NAME["Theorem 1"]
    columns = statement.minimizer(draw(statement, 3))
    longer = columns.scaled(torch.tensor([[1.1, 1, 1], [1, 1, 1], [1, 1, 1]], dtype=torch.float64))
    assert statement.conditions(longer) == pytest.approx(0.1, rel=1e-6)
    gone = columns.scaled(torch.tensor([[1e-9, 1, 1], [1, 1, 1], [1, 1, 1]], dtype=torch.float64))
    assert statement.conditions(gone) < 1e-12


def test_p_1_has_no_bound() -> None:
    ones = Decomposition(*(torch.ones(n, 1, dtype=torch.float64) for n in (4, 9, 4)))
    assert ones.bound() == 12
    assert float(BY_NAME["p = 1 instead of 2"].value(ones)) == 0
