"""The literal loop computes what dura's trainer computes: the speed comparison compares the same mathematics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dura.evaluation import metrics, rank
from dura.objectives import All, Softmax, objective_of
from dura.regularizers import REGULARIZERS
from dura.training.optimizers import optimizer
from dura.training.trainer import Plan, Trainer
from graphs import random_graph
from reference import Reference, both_directions, epoch, objective

NAMES = ("cp", "complex", "rescal")
WEIGHT = 0.1


def drawn(name: str, rank: int = 6) -> Reference:
    """A literal model with numbers large enough that a wrong formula shows."""
    torch.manual_seed(1)
    model = Reference(name, entities=20, relations=3, rank=rank)
    for table in model.parameters():
        torch.nn.init.normal_(table, std=0.5)
    return model


@pytest.mark.parametrize("name", NAMES)
def test_loss_penalty_and_gradients_equal_those_of_the_trainer(name: str) -> None:
    graph, literal = random_graph(), drawn(name)
    facts = both_directions(graph.train, len(graph.relations))
    fast = literal.as_dura()
    before = {key: table.detach().clone() for key, table in fast.named_parameters()}

    loss, penalty = objective(literal, facts, WEIGHT)
    (loss + penalty).backward()

    questions = graph.questions.one_by_one()
    assert questions.facts == len(questions) == len(facts)
    trainer = Trainer(
        fast,
        objective_of({"tails": 1.0}, Softmax(), All()),
        REGULARIZERS.build("dura", {"weight": WEIGHT, "lambda1": 0.5, "lambda2": 1.5}),
        optimizer("sgd", {"lr": 1.0}, fast.parameters()),  # one step of rate 1 goes back by the gradient itself
        questions,
        Plan(batch=len(questions)),
    )
    assert trainer.step(questions) == pytest.approx((loss.item(), penalty.item()), abs=1e-5)

    with torch.no_grad():
        for table in literal.parameters():
            assert table.grad is not None
            table.copy_(table.grad)
    gradients = literal.as_dura()
    for key, table in fast.named_parameters():
        expected = gradients.get_parameter(key).detach()
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(before[key] - table.detach(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_copied_tables_give_the_same_scores(name: str) -> None:
    literal = drawn(name)
    facts = both_directions(random_graph().train, 3)
    fast = literal.as_dura()
    with torch.no_grad():
        scores, _ = literal(facts)
        copied = fast.compare(fast.query(facts[:, 0], facts[:, 1]), fast.targets())
    torch.testing.assert_close(scores, copied, rtol=0, atol=1e-5)


def test_the_literal_loop_learns() -> None:
    graph = random_graph()
    torch.manual_seed(0)
    literal = Reference("complex", len(graph.entities), len(graph.relations), rank=8)
    adagrad = torch.optim.Adagrad(literal.parameters(), lr=0.1)
    facts = both_directions(graph.train, len(graph.relations))
    losses = [epoch(literal, adagrad, facts, weight=1e-3, batch=32) for _ in range(20)]
    assert losses[0] == pytest.approx(np.log(20), abs=0.05)  # nearly nothing is known at first
    assert losses[-1] < 1.6
    figures = metrics(rank(literal.as_dura(), graph.train, graph.known, len(graph.relations)))
    assert figures.mrr > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_pykeen_score_the_same_in_dura(name: str) -> None:
    pytest.importorskip("pykeen", reason="PyKEEN is only in the environment of the benchmarks")
    from rival import Rival

    graph = random_graph()
    rival = Rival(name, graph.sizes, graph.train, rank=6)
    fast = rival.tables()
    relations = len(graph.relations)
    facts = torch.as_tensor(graph.train).long()
    with torch.no_grad():
        for side, other in (("tail", facts), ("head", both_directions(graph.train, relations)[len(facts) :])):
            theirs = rival.model.predict(facts, target=side)
            ours = fast.compare(fast.query(other[:, 0], other[:, 1]), fast.targets())
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    _, mrr = rival.rank(graph.test, [graph.train, graph.valid], batch=8)
    assert metrics(rank(fast, graph.test, graph.known, relations)).mrr == pytest.approx(mrr, abs=1e-6)
