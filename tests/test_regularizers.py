"""Every regularizer on every model it applies to: values and gradients against the literal sum over facts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dura.models import MODELS, SemanticMatching
from dura.regularizers import REGULARIZERS, Regularizer
from dura.types import BadInput, Sizes
from oracles import literal_penalty

SIZES = Sizes(entities=6, relations=2)
HEAD, RELATION = torch.tensor([0, 3, 3]), torch.tensor([1, 0, 1])
QUESTION, ANSWERS = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([3, 5, 0, 0, 4, 5])
WEIGHT = 0.7


def applicable() -> list[tuple[str, str]]:
    pairs = []
    for name, kind in REGULARIZERS.items():
        for model, model_kind in MODELS.items():
            assert issubclass(model_kind, SemanticMatching)
            if model_kind.family.diagonal or not kind.needs_diagonal:
                pairs.append((name, model))
    return pairs


def build(name: str) -> Regularizer:
    options = {"weight": WEIGHT} if name != "none" else {}
    if name == "dura":
        options |= {"lambda1": 0.3, "lambda2": 1.9}
    return REGULARIZERS.build(name, options)


def literal(name: str, model: str, tables: dict[str, Tensor]) -> Tensor:
    tails = tables.get("answer", tables["entity"])
    options = {"lambda1": 0.3, "lambda2": 1.9}
    facts = [
        literal_penalty(name, model, tables["entity"][HEAD[q]], tables["relations"][RELATION[q]], tails[a], options)
        for q, a in zip(QUESTION, ANSWERS, strict=True)
    ]
    return WEIGHT * torch.stack(facts).sum() / len(facts)


@pytest.mark.parametrize(("name", "model"), applicable())
def test_values_and_gradients_equal_the_literal_formula(name: str, model: str) -> None:
    torch.manual_seed(1)
    built = MODELS.build(model, {"rank": 3, "init_scale": 1.0}, SIZES).double()
    free = {key: table.detach().clone().requires_grad_() for key, table in built.named_parameters()}
    ours = build(name)(built.factors(HEAD, RELATION, QUESTION, ANSWERS))
    expected = literal(name, model, free)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    if name == "none":
        assert ours.item() == 0
        return
    ours.backward()
    expected.backward()
    for key, table in built.named_parameters():
        wanted = free[key].grad
        found = table.grad if table.grad is not None else torch.zeros_like(table)
        torch.testing.assert_close(
            found, wanted if wanted is not None else torch.zeros_like(table), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize(("name", "model"), applicable())
def test_gradients_are_finite_at_zero(name: str, model: str) -> None:
    """A square root followed by a square would give NaN here."""
    built = MODELS.build(model, {"rank": 3}, SIZES)
    for table in built.parameters():
        torch.nn.init.zeros_(table)
    penalty = build(name)(built.factors(HEAD, RELATION, QUESTION, ANSWERS))
    if penalty.requires_grad:
        penalty.backward()
    assert all(table.grad is None or bool(table.grad.isfinite().all()) for table in built.parameters())


def test_grouping_facts_by_question_changes_nothing() -> None:
    """The same facts one by one, each its own question, give the same penalty."""
    torch.manual_seed(2)
    built = MODELS.build("complex", {"rank": 3, "init_scale": 1.0}, SIZES).double()
    for name in REGULARIZERS:
        together = build(name)(built.factors(HEAD, RELATION, QUESTION, ANSWERS))
        alone = build(name)(built.factors(HEAD[QUESTION], RELATION[QUESTION], torch.arange(6), ANSWERS))
        torch.testing.assert_close(together, alone)


def test_not_applicable_is_refused_with_a_sentence() -> None:
    with pytest.raises(BadInput, match="'n3' is not applicable to 'rescal'.*full matrices"):
        REGULARIZERS.build("n3", {}).check("n3", "rescal", diagonal=False)
    for name in ("none", "fro", "dura", "dura-i", "dura-ii", "reg-p1"):
        REGULARIZERS.build(name, {}).check(name, "rescal", diagonal=False)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(BadInput, match="zero or more"):
        REGULARIZERS.build("dura", {"weight": -1.0})
