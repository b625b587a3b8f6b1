"""Rows: which questions are asked for new entities, where their rows start, and that only they learn."""

from __future__ import annotations

import numpy as np
import torch

from dura.data.questions import Questions
from dura.models import MODELS, SemanticMatching
from dura.objectives import All, Softmax, objective_of
from dura.regularizers import REGULARIZERS
from dura.tables.partial import Partial
from dura.training.progress import Plan
from dura.training.rows import RowTrainer, start_rows, touching
from dura.types import Sizes

FACTS = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1], [4, 0, 2], [4, 0, 5]])


def asked(questions: Questions) -> set[tuple[int, int, tuple[int, ...]]]:
    parts = zip(questions.head, questions.relation, questions.offsets, questions.offsets[1:], strict=False)
    return {(int(h), int(r), tuple(questions.answers[a:b].tolist())) for h, r, a, b in parts}


def test_questions_that_touch_an_entity_keep_all_answers_or_only_its_facts() -> None:
    questions = Questions.of(FACTS, relations=1)
    entities = np.array([2])
    whole = touching(questions, entities, 6, whole=True)
    assert asked(whole) == {(0, 0, (1, 2)), (4, 0, (2, 5)), (2, 1, (0, 4))}
    own = touching(questions, entities, 6, whole=False)
    assert asked(own) == {(0, 0, (2,)), (4, 0, (2,)), (2, 1, (0, 4))}


def test_rows_start_as_the_mean_of_what_answers_the_same_questions() -> None:
    """Entity 2 answers the questions of 0 (which 1 answers too) and of 4 (which 5 answers too)."""
    table = torch.arange(12.0).view(6, 2) * 100
    questions = touching(Questions.of(FACTS, relations=1), np.array([2]), 6, whole=True)
    start = start_rows(table, questions, np.array([2]), torch.Generator().manual_seed(0))
    spread = 0.05 * table[[0, 1, 3, 4, 5]].square().mean().sqrt()
    assert (start - (table[1] + table[5]) / 2).abs().max() < 5 * spread


def test_without_another_answer_rows_start_among_answers_of_the_relation_or_among_all() -> None:
    table = torch.arange(12.0).view(6, 2) * 100
    alone = np.array([[0, 0, 2], [3, 0, 1]])
    questions = Questions.of(alone, relations=1)
    noise = 5 * 0.05 * table.square().mean().sqrt()
    start = start_rows(table, questions, np.array([2]), torch.Generator().manual_seed(0))
    assert (start - table[1]).abs().max() < noise  # the only other answer of relation 0
    between = touching(Questions.of(np.array([[2, 0, 3]]), relations=1), np.array([2, 3]), 6, whole=True)
    start = start_rows(table, between, np.array([2, 3]), torch.Generator().manual_seed(0))
    assert (start - table[[0, 1, 4, 5]].mean(0)).abs().max() < noise


def test_a_partial_table_collects_what_a_table_collects_for_these_rows() -> None:
    """Row by row, as a product, and as a whole."""
    rows, learned = torch.randn(6, 3), torch.tensor([1, 4])
    table = Partial.of(rows.clone(), learned)
    index = torch.tensor([0, 1, 4, 4, 5])
    by_row, left, right, every = torch.randn(5, 3), torch.randn(7, 6), torch.randn(7, 3), torch.randn(6, 3)
    table.add_rows(index, by_row)
    table.add_product(left, right)
    assert not table._live
    table.add_all(every)
    full = torch.zeros(6, 3).index_add_(0, index, by_row) + left.mT @ right + every
    assert torch.allclose(table.collected(), full[learned], atol=1e-6)
    table.forget()
    assert not table.collected().any()


def test_learning_lowers_the_loss_and_changes_nothing_else() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    facts = np.unique(np.stack([rng.integers(n, size=80) for n in (12, 2, 12)], axis=1), axis=0)
    model = MODELS.build("complex", {"rank": 4, "init_scale": 0.3}, Sizes(entities=12, relations=2))
    learned = torch.tensor([3, 7])
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert isinstance(model, SemanticMatching)
    model.entity = table = Partial.of(model.state()["entity"].clone(), learned)
    before = {name: tensor.clone() for name, tensor in model.state().items()}
    questions = Questions.of(facts, relations=2)
    objective = objective_of({"tails": 1.0}, Softmax(), All())
    regularizer = REGULARIZERS.build("dura", {"weight": 0.01})
    trainer = RowTrainer(model, {"entity": table}, objective, regularizer, questions, Plan(batch=100))
    mine = touching(questions, learned.numpy(), 12, whole=True)
    result = trainer.learn(lambda _epoch: mine)
    assert result.last < result.first and result.steps == result.epochs > 1
    others = [i for i in range(12) if i not in (3, 7)]
    assert torch.equal(table.detach()[others], before["entity"][others])
    assert not torch.equal(table.detach()[learned], before["entity"][learned])
    assert torch.equal(model.state()["relations"], before["relations"])
