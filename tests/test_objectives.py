"""The blocked cross entropy equals the literal formula, values and gradients, at any block size, with and without weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.objectives import LARGEST, SMALLEST, CrossEntropy
from dura.types import BadInput
from oracles import literal_cross_entropy, literal_weights


@settings(max_examples=60, deadline=None)
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
    weights = objective.entity_weights(torch.bincount(torch.as_tensor(flat), minlength=entities).double())
    if weights is not None:
        np.testing.assert_allclose(weights.numpy(), per_entity)
    already = torch.tensor(rng.normal(size=(entities, 4)))
    table_gradient = already.clone()
    loss, query_gradient = objective(
        query.detach(), table.detach(), offsets, torch.as_tensor(flat),
        None if weights is None else weights[flat], table_gradient,
    )  # fmt: skip

    row = np.repeat(np.arange(questions), [len(a) for a in answers])
    literal = literal_cross_entropy((query @ table.T)[row], flat.tolist(), per_entity[flat].tolist())
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(query_gradient, query.grad, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(table_gradient - already, table.grad, rtol=1e-9, atol=1e-10)


def test_scores_beyond_the_range_of_exp_stay_finite() -> None:
    query, table = torch.tensor([[300.0]]), torch.tensor([[1.0], [-1.0], [0.5]])
    loss, gradient = CrossEntropy()(query, table, [0, 1], torch.tensor([1]), None, torch.zeros_like(table))
    assert loss.item() == pytest.approx(600.0)
    assert gradient.item() == pytest.approx(2.0)


def test_bf16_products_are_near_float32() -> None:
    torch.manual_seed(0)
    query, table = torch.randn(20, 16), torch.randn(50, 16)
    offsets, answers = list(range(21)), torch.randint(50, (20,))
    exact, low = CrossEntropy(block=7), CrossEntropy(block=7)
    low.product_type = torch.bfloat16
    gradients = torch.zeros_like(table), torch.zeros_like(table)
    loss, by_query = exact(query, table, offsets, answers, None, gradients[0])
    low_loss, low_by_query = low(query, table, offsets, answers, None, gradients[1])
    assert low_loss.item() == pytest.approx(loss.item(), rel=0.02)
    assert (by_query - low_by_query).norm() < 0.03 * by_query.norm()
    assert (gradients[0] - gradients[1]).norm() < 0.03 * gradients[0].norm()


def test_the_buffer_is_bounded_and_used_again() -> None:
    objective = CrossEntropy()
    table = torch.zeros(1000, 2)
    for questions in (400, 100, 256):
        offsets = list(range(questions + 1))
        objective(
            torch.zeros(questions, 2),
            table,
            offsets,
            torch.zeros(questions, dtype=torch.long),
            None,
            torch.zeros_like(table),
        )
        assert objective._buffer.numel() == LARGEST * 1000
    assert objective._size(5000, 14_541) == LARGEST
    assert objective._size(5000, 10_000_000) == SMALLEST
    assert objective._size(3, 14_541) == 3


@pytest.mark.parametrize(
    ("options", "message"), [({"w0": 1.5}, "between 0 and 1"), ({"block": -1}, "number of questions")]
)
def test_wrong_settings_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        CrossEntropy(**options)  # type: ignore[arg-type]
