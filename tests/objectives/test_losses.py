"""Every loss equals its literal formula, values and gradients, over each kind of candidates it is defined for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.objectives import LOSSES, BinaryCrossEntropy, Known, Loss, MarginRanking, SelfAdversarial, Softmax, Truth
from dura.types import BadInput, Sizes
from oracles import LOSS_FORMS, formula

F, K = 6, 5


def scores(seed: int = 0, masked: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    positive, negative, share = torch.randn(F).double(), 2 * torch.randn(F, K).double(), torch.rand(F).double()
    if masked:
        negative[0, 1] = negative[0, 3] = negative[4, :] = -torch.inf
    return positive, negative, share


OPTIONS: dict[str, dict[str, Any]] = {
    "margin": {"margin": 0.7},
    "self-adversarial": {"margin": 1.5, "temperature": 0.6},
}


@pytest.mark.parametrize("name", LOSSES.names())
def test_over_negatives_every_loss_is_its_literal_formula(name: str) -> None:
    """A loss that is not defined for negatives says so. What is left out has no gradient, also where nothing is left."""
    loss = LOSSES.build(name, OPTIONS.get(name, {}))
    positive, negative, share = scores()
    if loss.refusal("negatives"):
        with pytest.raises(NotImplementedError):
            loss.over_negatives(positive, negative, share)
        return
    p, n = positive.clone().requires_grad_(), negative.clone().requires_grad_()
    literal, total = formula(LOSS_FORMS, name), torch.zeros(()).double()
    for i in range(F):
        there = [n[i, j] for j in range(K) if negative[i, j] > -torch.inf]
        total = total + share[i] * literal(loss, p[i], torch.stack(there) if there else n[i, :0])
    total.backward()
    value, by_positive, by_negative = loss.over_negatives(positive, negative, share)
    torch.testing.assert_close(value, total.detach())
    torch.testing.assert_close(by_positive, p.grad)
    torch.testing.assert_close(by_negative, n.grad)


def block(rows: int = 4, entities: int = 6) -> tuple[Tensor, Truth, np.ndarray[Any, Any]]:
    torch.manual_seed(1)
    row, column = torch.tensor([0, 0, 1, 2, 3, 3, 3]), torch.tensor([2, 5, 0, 1, 1, 3, 4])
    share = torch.rand(7).double()
    y = np.zeros((rows, entities))
    y[row.numpy(), column.numpy()] = 1
    return torch.randn(rows, entities).double(), Truth(row, column, share, each=0.3), y


def slope(value: Callable[[Tensor], float], at: Tensor) -> Tensor:
    """The gradient by central differences, entry by entry; zero where the entry is not finite."""
    found, step = torch.zeros_like(at), 1e-6
    for i in at.isfinite().flatten().nonzero().flatten().tolist():
        up, down = at.clone(), at.clone()
        up.view(-1)[i] += step
        down.view(-1)[i] -= step
        found.view(-1)[i] = (value(up) - value(down)) / (2 * step)
    return found


@pytest.mark.parametrize("name", LOSSES.names())
def test_over_all_entities_the_gradient_of_every_loss_is_that_of_its_value(name: str) -> None:
    loss, (given, truth, _) = LOSSES.build(name, OPTIONS.get(name, {})), block()
    if loss.refusal("all"):
        with pytest.raises(NotImplementedError):
            loss.over_all_(given, truth, lambda rows: given[rows])
        return

    def run(scores: Tensor) -> tuple[float, Tensor]:
        ours = scores.clone()
        value, scale = loss.over_all_(ours, truth, lambda rows: scores[rows].clone())
        return float(value), ours if scale is None else ours * scale[:, None]

    torch.testing.assert_close(run(given)[1], slope(lambda s: run(s)[0], given), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES.names())
def test_over_a_sample_the_gradient_of_every_loss_is_that_of_its_value(name: str) -> None:
    loss, (given, truth, _) = LOSSES.build(name, OPTIONS.get(name, {})), block()
    own = given[truth.row, truth.column]
    others = given.clone().masked_fill_(torch.rand(given.shape) < 0.2, -torch.inf)
    if loss.refusal("sample"):
        with pytest.raises(NotImplementedError):
            loss.over_sample(own, others, truth)
        return
    _, by_own, by_others = loss.over_sample(own.clone(), others.clone(), truth)
    for_own = slope(lambda s: float(loss.over_sample(s, others.clone(), truth)[0]), own)
    for_others = slope(lambda s: float(loss.over_sample(own, s, truth)[0]), others)
    torch.testing.assert_close(by_own, for_own, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(by_others, for_others, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_softmax_over_all_with_label_smoothing(smoothing: float, shift: float) -> None:
    """The truth of a fact is 1 − ε at its answer plus ε/n everywhere; also where exponentials must be taken again."""
    given, truth, _ = block()
    given = given + shift
    s = given.clone().requires_grad_()
    literal = torch.zeros(()).double()
    for i, j, share in zip(truth.row.tolist(), truth.column.tolist(), truth.share, strict=True):
        log_p = torch.log_softmax(s[i], 0)
        literal = literal - share * ((1 - smoothing) * log_p[j] + smoothing * log_p.mean())
    literal.backward()
    ours = given.clone()
    value, scale = Softmax(smoothing=smoothing).over_all_(ours, truth, lambda rows: given[rows].clone())
    assert scale is not None
    torch.testing.assert_close(value, literal.detach())
    torch.testing.assert_close(ours * scale[:, None], s.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_binary_cross_entropy_over_all(smoothing: float) -> None:
    given, truth, y = block()
    n = given.shape[1]
    if smoothing:
        y = (1 - smoothing) * y + 1 / n
    s = given.clone().requires_grad_()
    p = torch.sigmoid(s)
    cells = -(torch.tensor(y) * p.log() + (1 - torch.tensor(y)) * (1 - p).log())
    literal = truth.each * cells.mean(1).sum()
    literal.backward()
    ours = given.clone()
    value, scale = BinaryCrossEntropy(smoothing).over_all_(ours, truth, lambda rows: given[rows])
    assert scale is None
    torch.testing.assert_close(value, literal.detach())
    torch.testing.assert_close(ours, s.grad)


def test_no_gradient_flows_through_the_weights_of_self_adversarial_negatives() -> None:
    positive, negative, share = scores(masked=False)
    flat = SelfAdversarial(margin=1.0, temperature=0.0)
    _, _, by_negative = flat.over_negatives(positive, negative, share)
    expected = share[:, None] / (2 * K) * torch.sigmoid(1.0 + negative)
    torch.testing.assert_close(by_negative, expected)


def test_subsampling_counts_the_facts_that_share_a_question() -> None:
    facts = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1]])
    questions, sizes = Questions.of(facts, relations=1), Sizes(4, 1)
    loss = SelfAdversarial()
    loss.prepare(Known(questions, sizes), torch.ones(4))
    weights = loss.weights(questions, torch.as_tensor(questions.answers))
    assert weights is not None
    counts = {(0, 0): 2, (3, 0): 1, (1, 1): 2, (2, 1): 1}
    for h, r, t, weight in zip(
        questions.head[questions.question],
        questions.relation[questions.question],
        questions.answers,
        weights.tolist(),
        strict=True,
    ):
        other = counts[(int(t), 1 - int(r))]
        # each count starts at 4 with its first fact, as in RotatE's program
        assert weight == pytest.approx(1 / math.sqrt(counts[(int(h), int(r))] + 3 + other + 3))


@pytest.mark.parametrize(
    ("loss", "kind", "allowed"),
    [
        (Softmax(), "all", True),
        (Softmax(), "sample", True),
        (Softmax(), "negatives", True),
        (Softmax(smoothing=0.1), "sample", False),
        (BinaryCrossEntropy(), "all", True),
        (BinaryCrossEntropy(), "sample", False),
        (BinaryCrossEntropy(), "negatives", True),
        (BinaryCrossEntropy(0.1), "negatives", False),
        (MarginRanking(), "all", False),
        (MarginRanking(), "negatives", True),
        (SelfAdversarial(), "sample", False),
        (SelfAdversarial(), "negatives", True),
    ],
)
def test_a_loss_says_which_candidates_it_is_not_defined_for(loss: Loss, kind: str, allowed: bool) -> None:
    reason = loss.refusal(kind)
    assert (reason == "") == allowed
    assert allowed or repr(kind) in reason


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("softmax", {"w0": 1.5}, "loss.w0 is 1.5, but it is a share between 0 and 1"),
        ("softmax", {"smoothing": -0.1}, "loss.smoothing is -0.1"),
        ("margin", {"margin": -1.0}, "a margin is zero or more"),
        ("self-adversarial", {"temperature": -1.0}, "it is zero or more"),
    ],
)
def test_wrong_settings_are_refused(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        LOSSES.build(name, options)
