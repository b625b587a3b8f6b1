"""Laws of training, ranking and run folders for every row of MODELS. A new row is tested without a new test."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dura
from doubles import built, collected, known, law_models
from dura import Experiment
from dura.evaluation import rank
from dura.models import MODELS
from dura.objectives import All, Negatives, Softmax, objective_of
from dura.regularizers import REGULARIZERS
from dura.runs.run import resume, train
from dura.runs.trained import Trained
from dura.training.checkpoint import Checkpoints
from dura.training.optimizers import optimizer
from dura.training.trainer import Interrupted, Plan, Trainer
from dura.types import Ranks
from graphs import graph_for
from oracles import SCORES, formula
from texts import options_of


@pytest.fixture(params=law_models())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return known(str(request.param), monkeypatch)


def trainer(name: str, plan: Plan, regularizer: str = "none") -> Trainer:
    torch.manual_seed(3)
    graph = graph_for(name)
    model = MODELS.build(name, {"rank": 6, **options_of(name, graph)}, graph.sizes)
    model.read_names(graph.entities, graph.relations)
    objective = objective_of({"tails": 1.0}, Softmax(), All())
    rule = optimizer("adagrad", {"lr": 0.1}, model.parameters())
    return Trainer(model, objective, REGULARIZERS.build(regularizer, {}), rule, graph.questions, plan)


def experiment(name: str, rule: str = "adagrad") -> Experiment:
    """Three epochs of small batches, with validation and a regularizer that every model has."""
    tables: dict[str, Any] = {
        "model": {"name": name, "rank": 4, **options_of(name, graph_for(name))},
        "regularizer": {"name": "fro"},
        "optimizer": {"name": rule, "lr": 0.05},
        "training": {"epochs": 3, "batch": 17, "seed": 2, "threads": 1},
    }
    return Experiment.from_dict(tables)


def same(one: Ranks, other: Ranks) -> bool:
    return all(np.array_equal(getattr(one, key), getattr(other, key)) for key in Ranks.__dataclass_fields__)


# -- ranking ------------------------------------------------------------------------------------------------------------


def test_ranks_do_not_depend_on_the_block_and_repeat_themselves(name: str) -> None:
    """Asked in train mode, the model answers in evaluation mode and is in train mode afterwards."""
    graph = graph_for(name)
    model = built(name, graph.sizes).train()
    before = {key: tensor.clone() for key, tensor in model.state().items()}
    asked = graph.asked("valid"), graph.known, len(graph.relations)
    first = rank(model, *asked)
    assert first.greater.any() and len(first) == 2 * len(graph.valid)
    assert all(same(rank(model, *asked, block=block), first) for block in (None, 1, 3))
    assert all(part.training for part in model.modules())
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state().items())


def test_the_rank_of_a_fact_is_what_its_score_says(name: str) -> None:
    """Counted literally from the scores of all facts with the same question, one fact at a time."""
    graph = graph_for(name)
    model, every = built(name, graph.sizes), torch.arange(graph.sizes.entities)
    facts = graph.asked("valid")[:5]
    ranks = rank(model, facts, graph.known, len(graph.relations))
    for side in (0, 1):
        for i, fact in enumerate(facts.tolist()):
            h, r, t = (fact[0], fact[1], fact[2]) if side == 0 else (fact[2], fact[1] + len(graph.relations), fact[0])
            time = None if graph.times is None else torch.full_like(every, fact[3])
            with model.answering():
                scores = model.score(torch.full_like(every, h), torch.full_like(every, r), every, time)
            ids = [np.array([one]) for one in (h, r, *fact[3:4])]
            others = set(every.tolist()) - set(graph.known.known(*ids).answers.tolist())
            above = sum(bool(scores[e] > scores[t]) for e in others)
            assert ranks.greater[side * len(facts) + i] == above


# -- training -----------------------------------------------------------------------------------------------------------


def test_ten_steps_lower_the_loss(name: str) -> None:
    t = trainer(name, Plan(batch=10_000))
    losses = [t.step(t.questions)[0] for _ in range(11)]
    assert losses[-1] < losses[0]


def test_a_step_keeps_nothing_of_earlier_steps(name: str) -> None:
    t = trainer(name, Plan(batch=10_000))

    def tensors_after(steps: int) -> int:
        for _ in range(steps):
            t.step(t.questions)
        gc.collect()
        return sum(issubclass(type(each), Tensor) for each in gc.get_objects())

    tensors_after(2)
    assert tensors_after(2) == tensors_after(5)


@pytest.mark.parametrize("candidates", ["all", "negatives"])
def test_a_step_has_the_gradients_of_the_literal_loss(name: str, candidates: str) -> None:
    """The formula of one fact, summed over all of them, against what the comparator and the objective make of a batch."""
    graph = graph_for(name)
    model = built(name, graph.sizes)
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        model.eval()  # a literal formula has no other facts in its batch
    drawn = Negatives(3, filtered=False)
    objective = objective_of({"tails": 1.0}, Softmax(), All() if candidates == "all" else drawn)
    batch = graph.questions.take(np.arange(0, len(graph.questions), 5))
    objective.prepare(graph.questions, model)
    ids = [
        torch.as_tensor(one).long()
        for one in (batch.head, batch.relation, *([] if batch.time is None else [batch.time]))
    ]
    loss, carrier = objective(model, model.query(*ids), batch, 4)
    carrier.backward()
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}
    score, rivals = formula(SCORES, name), drawn.drawn(batch, 4) if candidates == "negatives" else None
    literal = torch.zeros(()).double()
    for number, (at, answer) in enumerate(zip(batch.question.tolist(), batch.answers.tolist(), strict=True)):
        asked = int(batch.head[at]), int(batch.relation[at])
        time = 0 if batch.time is None else int(batch.time[at])
        others = range(graph.sizes.entities) if rivals is None else [answer] + [
            one for one, out in zip(*(part[number].tolist() for part in rivals), strict=True) if not out
        ]  # fmt: skip
        scores = torch.stack([score(model.state() | free, *asked, one, time) for one in others])
        own = score(model.state() | free, *asked, answer, time)
        literal = literal + (torch.logsumexp(scores, 0) - own) / batch.facts
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-10, atol=1e-10)
    for key, table in model.named_parameters():
        wanted = free[key].grad
        expected = torch.zeros_like(table) if wanted is None else wanted
        torch.testing.assert_close(collected(table), expected, rtol=1e-8, atol=1e-10)


def test_a_batch_with_one_question_works(name: str) -> None:
    """Batch norm has no spread to measure there."""
    t = trainer(name, Plan(batch=1), "fro")
    before = {key: tensor.clone() for key, tensor in t.model.state().items()}
    one = t.questions.take(np.array([3]))
    for _ in range(3):
        assert all(map(math.isfinite, t.step(one)))
    assert all(bool(tensor.isfinite().all()) for tensor in t.model.state().values())
    assert any(not torch.equal(tensor, before[key]) for key, tensor in t.model.state().items())


def test_a_step_follows_from_its_seed_and_leaves_the_generator_alone(name: str) -> None:
    """What was drawn elsewhere before does not matter, and nothing is drawn from torch's own generator."""
    runs = []
    for elsewhere in (0, 5):
        t = trainer(name, Plan(batch=10_000))
        torch.manual_seed(elsewhere)
        state = torch.random.get_rng_state()
        runs.append(([t.step(t.questions) for _ in range(3)], t.model.state()))
        assert torch.equal(torch.random.get_rng_state(), state)
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(tensor, runs[1][1][key]) for key, tensor in runs[0][1].items())


# -- run folders --------------------------------------------------------------------------------------------------------


def stored(run: Path) -> dict[str, Tensor]:
    """The newest and the best state of a run folder."""
    checkpoints = Checkpoints(run / "checkpoints")
    newest, best = checkpoints.newest(), checkpoints.best()
    assert newest is not None and best is not None
    return newest[0] | {f"best.{key}": tensor for key, tensor in best[0].items()}


@pytest.mark.parametrize("rule", ["adagrad", "adam"])
def test_a_run_that_was_resumed_equals_one_that_never_stopped(name: str, rule: str, tmp_path: Path) -> None:
    """Bit by bit: parameters, buffers, the optimizer's state, the best state and the validations."""
    graph, settings, asked = graph_for(name), experiment(name, rule), list[int]()

    def stopped() -> bool:
        asked.append(1)
        return len(asked) == 4

    train(settings, graph, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(settings, graph, tmp_path / "parts", stopped=stopped)
    resume(tmp_path / "parts")
    whole, parts = stored(tmp_path / "whole"), stored(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    assert all(torch.equal(tensor, parts[key]) for key, tensor in whole.items())
    buffers = [f"model.{key}" for key, _ in MODELS.build(name, {"rank": 4}, graph.sizes).named_buffers()]
    assert whole.keys() >= set(buffers)


def test_a_saved_model_gives_the_same_scores_when_it_is_opened(name: str, tmp_path: Path) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, options=options_of(name, graph)).float()
    Trained(model, graph, experiment(name)).save(tmp_path / "run")
    opened = dura.open(tmp_path / "run").model
    assert opened.state().keys() == model.state().keys()
    assert all(torch.equal(tensor, opened.state()[key]) for key, tensor in model.state().items())
    ids = torch.arange(6)
    question = ids, ids % 3, *([] if graph.times is None else [ids])
    with model.answering(), opened.answering():
        # Not to the last digit: how torch rounds depends on where a tensor begins in memory.
        torch.testing.assert_close(opened.score_all(*question), model.score_all(*question), rtol=1e-5, atol=1e-5)
    asked = graph.asked("test"), graph.known, len(graph.relations)
    assert same(rank(opened, *asked), rank(model, *asked))
