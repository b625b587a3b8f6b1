"""The blocked cross entropy equals the literal formula, values and gradients, at any block size, with and without weights."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.objectives import LARGEST, SMALLEST, CrossEntropy, SampledCrossEntropy
from dura.tables.table import Table
from dura.types import BadInput
from oracles import literal_cross_entropy, literal_weights


@settings(max_examples=60)
@given(
    questions=st.integers(1, 9),
    entities=st.integers(2, 13),
    block=st.integers(0, 10),
    w0=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    scale=st.sampled_from([1e-3, 1.0, 40.0]),
    seed=st.integers(0, 10_000),
)
def test_equals_the_literal_formula(
    questions: int, entities: int, block: int, w0: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    answers = [rng.choice(entities, rng.integers(1, entities), replace=False) for _ in range(questions)]
    flat = np.concatenate(answers)
    offsets = np.cumsum([0, *map(len, answers)]).tolist()
    query = torch.tensor(scale * rng.normal(size=(questions, 4)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(entities, 4)), requires_grad=True)
    objective = CrossEntropy(w0=w0, block=block)

    per_entity = literal_weights(flat, entities, w0)
    weights = objective.prepare(torch.bincount(torch.as_tensor(flat), minlength=entities).double())
    if weights is not None:
        np.testing.assert_allclose(weights.numpy(), per_entity)
    already = torch.tensor(rng.normal(size=(entities, 4)))
    targets = Table(table.detach().clone())
    targets.add_rows(torch.arange(entities), already)
    loss, query_gradient = objective(
        query.detach(), targets, offsets, torch.as_tensor(flat), None if weights is None else weights[flat], 0
    )

    row = np.repeat(np.arange(questions), [len(a) for a in answers])
    literal = literal_cross_entropy((query @ table.T)[row], flat.tolist(), per_entity[flat].tolist())
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(query_gradient, query.grad, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(targets.gradient() - already, table.grad, rtol=1e-9, atol=1e-10)


def test_scores_beyond_the_range_of_exp_stay_finite() -> None:
    query, table = torch.tensor([[300.0]]), Table(torch.tensor([[1.0], [-1.0], [0.5]]))
    loss, gradient = CrossEntropy()(query, table, [0, 1], torch.tensor([1]), None, 0)
    assert loss.item() == pytest.approx(600.0)
    assert gradient.item() == pytest.approx(2.0)


def test_bf16_products_are_near_float32() -> None:
    torch.manual_seed(0)
    query, table = torch.randn(20, 16), torch.randn(50, 16)
    offsets, answers = list(range(21)), torch.randint(50, (20,))
    exact, low = CrossEntropy(block=7), CrossEntropy(block=7)
    low.product_type = torch.bfloat16
    tables = Table(table), Table(table)
    loss, by_query = exact(query, tables[0], offsets, answers, None, 0)
    low_loss, low_by_query = low(query, tables[1], offsets, answers, None, 0)
    gradients = tables[0].gradient(), tables[1].gradient()
    assert low_loss.item() == pytest.approx(loss.item(), rel=0.02)
    assert (by_query - low_by_query).norm() < 0.03 * by_query.norm()
    assert (gradients[0] - gradients[1]).norm() < 0.03 * gradients[0].norm()


def test_the_buffer_is_bounded_and_used_again() -> None:
    objective = CrossEntropy()
    table = Table(torch.zeros(1000, 2))
    for questions in (1500, 100, 256):
        offsets = list(range(questions + 1))
        objective(torch.zeros(questions, 2), table, offsets, torch.zeros(questions, dtype=torch.long), None, 0)
        assert objective._buffer.numel() == LARGEST * 1000
    assert objective.size(5000, 14_541) == LARGEST
    assert objective.size(5000, 10_000_000) == SMALLEST
    assert objective.size(3, 14_541) == 3


@pytest.mark.parametrize(
    ("options", "message"), [({"w0": 1.5}, "between 0 and 1"), ({"block": -1}, "number of questions")]
)
def test_wrong_settings_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        CrossEntropy(**options)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(
    questions=st.integers(1, 7),
    entities=st.integers(2, 13),
    samples=st.integers(1, 40),
    draw=st.sampled_from(["uniform", "frequency"]),
    w0=st.sampled_from([0.0, 0.9]),
    seed=st.integers(0, 10_000),
)
def test_the_sampled_loss_equals_its_literal_formula(
    questions: int, entities: int, samples: int, draw: Literal["uniform", "frequency"], w0: float, seed: int
) -> None:
    """Each question's sum: its answers once each, every other drawn entity 1 / (samples · chance) times."""
    rng = np.random.default_rng(seed)
    answers = [rng.choice(entities, rng.integers(1, entities), replace=False) for _ in range(questions)]
    flat, offsets = np.concatenate(answers), np.cumsum([0, *map(len, answers)]).tolist()
    query = torch.tensor(3 * rng.normal(size=(questions, 4)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(entities, 4)), requires_grad=True)
    objective = SampledCrossEntropy(samples, draw, w0)
    frequency = np.bincount(flat, minlength=entities)
    weights = objective.prepare(torch.as_tensor(frequency).double())
    targets = Table(table.detach().clone())
    loss, by_query = objective(
        query.detach(), targets, offsets, torch.as_tensor(flat), None if weights is None else weights[flat], seed
    )

    drawn = objective.drawn(seed)[0].tolist()
    chance = np.ones(entities) if draw == "uniform" else (frequency + 1.0) ** 0.75
    chance = chance / chance.sum()
    weigh = literal_weights(flat, entities, w0)
    literal, scores = torch.zeros((), dtype=torch.float64), query @ table.T
    for i, mine in enumerate(answers):
        rest = [scores[i, j].exp() / (samples * chance[j]) for j in drawn if j not in mine]
        mass = scores[i, list(mine)].exp().sum() + sum(rest)
        for j in mine:
            literal = literal + weigh[j] * (mass.log() - scores[i, j])
    literal = literal / weigh[flat].sum()
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(by_query, query.grad, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(targets.gradient(), table.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("draw", ["uniform", "frequency"])
def test_the_sampled_sum_has_the_expectation_of_the_whole(draw: Literal["uniform", "frequency"]) -> None:
    """exp(loss + own score) is the estimated sum over all entities; over many draws its mean is the exact one."""
    torch.manual_seed(0)
    query, table, answer = torch.randn(1, 8), Table(torch.randn(30, 8)), torch.tensor([4])
    objective = SampledCrossEntropy(20, draw)
    objective.prepare(torch.arange(30.0))
    own = float(query[0] @ table.detach()[4])
    sums = [np.exp(float(objective(query, table, [0, 1], answer, None, seed)[0]) + own) for seed in range(3000)]
    exact = float((query @ table.detach().T).exp().sum())
    assert np.mean(sums) == pytest.approx(exact, abs=4 * np.std(sums) / np.sqrt(len(sums)))
    assert np.std(sums) > 0.05 * exact  # it is a sample


def test_what_is_drawn_follows_from_the_seed() -> None:
    objective = SampledCrossEntropy(50, "frequency")
    objective.prepare(torch.cat([torch.zeros(90), torch.full((10,), 10_000.0)]))
    ids, stands_for = objective.drawn(1)
    assert torch.equal(ids, objective.drawn(1)[0])
    assert not torch.equal(ids, objective.drawn(2)[0])
    assert (ids >= 90).float().mean() > 0.9  # the ten frequent entities have nearly all of the chance
    assert stands_for.exp().max() <= 1e4


def test_a_step_with_a_sample_touches_few_rows() -> None:
    table, query = Table(torch.randn(1000, 4)), torch.randn(3, 4)
    objective = SampledCrossEntropy(5)
    objective.prepare(torch.ones(1000))
    objective(query, table, [0, 1, 2, 3], torch.tensor([7, 8, 9]), None, 0)
    used = table.used()
    assert used is not None
    assert set(used.tolist()) == {7, 8, 9, *objective.drawn(0)[0].tolist()}


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one entity"):
        SampledCrossEntropy(0)


@pytest.mark.parametrize("level", [-300.0, -44.0, 44.0, 60.0, 300.0])
def test_the_level_of_the_scores_does_not_matter(level: float) -> None:
    """Softmax sees differences only: exponentials of the scores as they are, or without each row's maximum, in 32 bits."""
    torch.manual_seed(0)
    query, rows, answers = torch.randn(5, 4), torch.randn(300, 4), torch.tensor([7, 3, 299, 0, 12])

    def at(level: float) -> tuple[torch.Tensor, ...]:
        targets = Table(torch.cat([rows, torch.ones(300, 1)], 1))
        shifted = torch.cat([query, torch.full((5, 1), level)], 1)
        loss, gradient = CrossEntropy()(shifted, targets, list(range(6)), answers, None, 0)
        return loss, gradient[:, :4], targets.gradient()[:, :4]

    for found, expected in zip(at(level), at(0.0), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
