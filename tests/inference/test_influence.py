"""Influence: gradients by rows are those of the literal log-probability, and effects those of the literal formula."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from doubles import built, known, law_models
from dura.data.graph import Graph
from dura.inference import influence as module
from dura.inference.influence import around, effects, influence, refusal
from dura.inference.rows import Asked, EntityRows
from dura.models import MODELS, Model
from dura.tables.packed import Small
from dura.types import BadInput, Sizes
from graphs import dated_graph, graph_for, random_graph

SIZES = Sizes(entities=9, relations=3, times=4)
OTHERS = torch.tensor([5, 6, 7, 8])
WEIGHT = 2.5
FACTS = np.array([[0, 1, 3, 2], [1, 4, 3, 0], [0, 1, 2, 1]])


@pytest.fixture(params=law_models())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return known(str(request.param), monkeypatch)


def log_probability(model: Model, fact: list[int]) -> Tensor:
    """The log-probability of one fact among the others, one score at a time."""
    h, r, t, *time = (torch.tensor([i]) for i in fact)
    with torch.no_grad():
        own = model.score(h, r, t, *time)
        others = [model.score(h, r, torch.tensor([e]), *time) for e in OTHERS.tolist()]
    every = torch.cat([own, *(score + np.log(WEIGHT) for score in others)])
    return own[0] - torch.logsumexp(every, 0)


def slope(model: Model, fact: list[int], entity: int) -> Tensor:
    """The gradient of `log_probability` by the rows of an entity, by differences."""
    found = []
    for table in model.entity_tables.values():
        assert isinstance(table, torch.Tensor)
        for column in range(table.shape[1]):
            both = []
            for step in (1e-6, -1e-6):
                moved = copy.deepcopy(model)
                name = next(key for key, own in model.entity_tables.items() if own is table)
                with torch.no_grad():
                    moved.get_parameter(name)[entity, column] += step
                both.append(log_probability(moved, fact))
            found.append((both[0] - both[1]) / 2e-6)
    return torch.stack(found)


@pytest.mark.parametrize("part", ["head", "tail"])
def test_the_gradients_of_each_fact_are_those_of_its_log_probability(name: str, part: str) -> None:
    model = built(name, SIZES, rank=2)
    if refusal(model):
        pytest.skip("no rows of entities")
    facts = FACTS[:, : 4 if model.temporal else 3]
    rows, asked = EntityRows(model), Asked.of(facts, model.device)
    ask: Callable[..., Tensor] = rows.by_head if part == "head" else rows.by_tail
    found = ask(asked, OTHERS, WEIGHT)
    assert found.shape == (3, rows.width)
    for i, fact in enumerate(facts.tolist()):
        literal = slope(model, fact, fact[0 if part == "head" else 2])
        torch.testing.assert_close(found[i], literal, rtol=1e-4, atol=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())  # the model is as it was
    torch.testing.assert_close(found[:1], ask(asked.part(torch.tensor([0])), OTHERS, WEIGHT))


def test_every_model_has_effects_or_a_reason(name: str) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes).float()
    before = {key: tensor.clone() for key, tensor in model.state().items()}
    fact = graph.test[0].astype(np.int64)
    if reason := refusal(model):
        with pytest.raises(BadInput, match="no table with one row per entity"):
            influence(model, graph, fact)
        assert type(model).__name__ in reason
        return
    for side in ("tail", "head"):
        facts, found, left_out = influence(model, graph, fact, side)
        assert left_out == 0 and np.isfinite(found).all() and (np.diff(found) <= 0).all() and found.any()
        touching = (np.isin(graph.train[:, 0], fact[[0, 2]])) | (np.isin(graph.train[:, 2], fact[[0, 2]]))
        assert {tuple(f) for f in facts.tolist()} == {tuple(f) for f in graph.train[touching].tolist()}
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state().items())


def test_effects_are_the_literal_formula() -> None:
    torch.manual_seed(0)
    answer, by_fact = torch.randn(5, dtype=torch.float64), torch.randn(8, 5, dtype=torch.float64)
    ridge = module.RIDGE * by_fact.square().sum(1).mean()
    matrix = by_fact.mT @ by_fact + ridge * torch.eye(5, dtype=torch.float64)
    literal = torch.stack([answer @ torch.linalg.inv(matrix) @ g for g in by_fact])
    torch.testing.assert_close(effects(answer, by_fact), literal)
    assert len(effects(answer, by_fact[:0])) == 0
    assert effects(answer, torch.zeros(2, 5, dtype=torch.float64)).tolist() == [0, 0]


def test_a_training_fact_is_not_its_own_reason() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    fact = graph.train[3].astype(np.int64)
    facts, _, _ = influence(model, graph, fact)
    assert tuple(fact.tolist()) not in {tuple(f) for f in facts.tolist()}


def test_many_facts_are_drawn_at_random_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    model = built("distmult", graph.sizes).float()
    fact = graph.test[0].astype(np.int64)
    every = influence(model, graph, fact)
    monkeypatch.setattr(module, "MOST_FACTS", 3)
    facts, _, left_out = influence(model, graph, fact)
    assert len(facts) <= 6 and left_out > 0
    assert {tuple(f) for f in facts.tolist()} < {tuple(f) for f in every[0].tolist()}


def test_packed_tables_have_the_same_effects() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    fact = graph.test[1].astype(np.int64)
    facts, found, _ = influence(model, graph, fact)
    packed = Small.of(model.get_parameter("entity").detach(), "float32")
    del model._parameters["entity"]
    model.__dict__["entity"] = packed
    again, same, _ = influence(model, graph, fact)
    assert again.tolist() == facts.tolist()
    np.testing.assert_allclose(same, found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("graph", [dated_graph(intervals=True), random_graph()], ids=["intervals", "static"])
def test_both_entities_have_their_own_facts(graph: Graph) -> None:
    name = "distmult" if graph.times is None else "tcomplex"
    assert MODELS.get(name).temporal == (graph.times is not None)
    fact = graph.asked("test")[0].astype(np.int64)
    one, two = around(built(name, graph.sizes).float(), graph, fact, "head")
    assert ((one.facts[:, [0, 2]] == fact[2]).any(1)).all() and ((two.facts[:, [0, 2]] == fact[0]).any(1)).all()
    assert len(one.by_fact) == len(one.facts) and one.by_fact.shape[1] == len(one.by_answer)
