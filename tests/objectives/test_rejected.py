"""Rejected facts: a term of their own, the same for every model, loss and kind of candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import dura
from doubles import built
from dura.data.graph import Graph
from dura.data.reviews import Reviews
from dura.models import MODELS
from dura.models.rtfe import RTFE
from dura.objectives.rejected import OTHERS, Rejected
from dura.runs.api import choose
from dura.runs.run import train
from dura.types import BadInput
from graphs import graph_for


@pytest.mark.parametrize("name", MODELS.names())
def test_the_loss_is_the_literal_one_and_has_a_gradient(name: str) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, rank=6, seed=4).float()
    model.observe(graph.train, list(graph.times or ()))
    if isinstance(model, RTFE):
        model.filled.fill_(model.slots)
    facts = graph.asked("test")[:1]
    term = Rejected(facts, len(graph.relations), weight=3.0)
    loss = term(model, seed=5, facts=10)
    draw = torch.Generator().manual_seed(5)
    order, others = torch.randperm(2, generator=draw), torch.randint(len(graph.entities), (2, OTHERS), generator=draw)
    expected = 0.0
    with model.answering():
        for question, rivals in zip(term.asked[order], others, strict=True):
            h, r, t, *time = (question[i : i + 1] for i in range(len(question)))
            scores = model.score_all(h, r, *time)[0].double()
            expected += float(torch.log1p(torch.exp(scores[t] - scores[rivals])).mean())
    assert float(loss.detach()) == pytest.approx(0.3 * expected, rel=1e-3)
    loss.backward()
    assert any(parameter_moves(parameter) for parameter in model.parameters())


def parameter_moves(parameter: torch.nn.Parameter) -> bool:
    gradient = parameter.gradient() if isinstance(parameter, dura.tables.table.Table) else parameter.grad
    return gradient is not None and bool(gradient.abs().sum() > 0)


WAYS: list[dict[str, Any]] = [
    {},
    {"loss.name": "binary"},
    {"candidates.name": "sample", "candidates.samples": 8},
    {"loss.name": "self-adversarial", "loss.margin": 3.0, "candidates.name": "negatives", "candidates.count": 8},
    {"loss.name": "margin", "candidates.name": "negatives", "candidates.count": 8},
]


def mean_rank(graph: Graph, facts: np.ndarray, reviews: Reviews | None, way: dict[str, Any]) -> float:
    """The mean rank, from both sides, of facts after training."""
    experiment = choose(None, settings={"model.rank": 16, "regularizer.name": "none", "training.epochs": 12, **way})
    trained = train(experiment, replace(graph, reviews=reviews))
    from dura.evaluation import rank

    return float(rank(trained.model, facts, graph.known, len(graph.relations)).ranks().mean())


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_rejected_facts_fall_with_every_objective(way: dict[str, Any]) -> None:
    graph = dura.load("nations")
    plain = train(choose(None, settings={"model.rank": 16, "training.epochs": 12}), graph)
    facts = np.array(plain.discover(top=40).to_frame()[["head", "relation", "tail"]].rows())
    ids = np.array([[graph.entity(h), graph.relation(r), graph.entity(t)] for h, r, t in facts], dtype=np.int32)
    before = mean_rank(graph, ids, None, way)
    after = mean_rank(graph, ids, Reviews(ids[:0], ids, len(graph.relations)), way)
    assert after > before + 0.5


def test_what_has_no_gradient_is_refused() -> None:
    graph = dura.load("nations")
    reviews = Reviews(graph.train[:0], graph.test[:3], len(graph.relations))
    settings = {"model.name": "dedicom", "optimizer.name": "als", "regularizer.name": "none", "training.epochs": 1}
    from dura.runs.build import rejected_of

    experiment = choose(None, settings={key: value for key, value in settings.items() if key != "model.name"})
    with pytest.raises(BadInput, match="held down by gradients.*set terms.rejected = 0"):
        rejected_of(experiment, replace(graph, reviews=reviews))
    off = experiment.with_value("terms.rejected", 0.0)
    assert rejected_of(off, replace(graph, reviews=reviews))(None, 0, 1) == 0.0  # type: ignore[arg-type]
