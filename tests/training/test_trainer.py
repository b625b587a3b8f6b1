"""The loop: its step is the literal gradient step, it stops when it should, and resuming is as if it had never stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dura.models import MODELS
from dura.objectives import OBJECTIVES
from dura.regularizers import REGULARIZERS
from dura.training.checkpoint import Checkpoints
from dura.training.optimizers import optimizer
from dura.training.trainer import Interrupted, Plan, Progress, Trainer
from dura.types import BadInput, DuraError
from graphs import random_graph
from oracles import literal_cross_entropy, literal_penalty, literal_score

GRAPH = random_graph()


class Watcher:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.steps: list[int] = []
        self.notices: list[str] = []

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        self.steps.append(progress.steps)

    def epoch(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def notice(self, sentence: str) -> None:
        self.notices.append(sentence)


def trainer(
    plan: Plan,
    *,
    model: str = "complex",
    w0: float = 0.0,
    one_by_one: bool = False,
    lr: float = 0.1,
    rule: str = "adagrad",
    objective: str = "cross-entropy",
    validate: Callable[[], dict[str, float]] | None = None,
    checkpoints: Checkpoints | None = None,
    stopped: Callable[[], bool] = lambda: False,
    double: bool = False,
    weight: float = 0.1,
) -> tuple[Trainer, Watcher]:
    torch.manual_seed(3)
    built = MODELS.build(model, {"rank": 4, "init_scale": 0.3}, GRAPH.sizes)
    built = built.double() if double else built
    watcher = Watcher()
    questions = GRAPH.questions.one_by_one() if one_by_one else GRAPH.questions
    made = Trainer(
        built,
        OBJECTIVES.build(objective, {"w0": w0} | ({"samples": 7} if "sampled" in objective else {})),
        REGULARIZERS.build("dura", {"weight": weight}),
        optimizer(rule, {"lr": lr}, built.parameters()),
        questions,
        plan,
        validate=validate,
        checkpoints=checkpoints,
        listeners=(watcher,),
        stopped=stopped,
    )
    return made, watcher


def tables(t: Trainer) -> dict[str, Tensor]:
    return {name: table.detach().clone() for name, table in t.model.named_parameters()}


@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.parametrize("w0", [0.0, 0.9])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_step_is_adagrad_on_the_literal_loss(model: str, w0: float, one_by_one: bool) -> None:
    """All questions in one batch: loss, penalty and the tables after the step, from the formulas of the paper."""
    t, _ = trainer(Plan(batch=10_000), model=model, w0=w0, one_by_one=one_by_one, double=True)
    free = {name: table.requires_grad_() for name, table in tables(t).items()}
    tails = free.get("answer", free["entity"])
    q = GRAPH.questions
    facts = [(int(q.head[i]), int(q.relation[i]), int(a)) for i, a in zip(q.question, q.answers, strict=True)]
    count = torch.bincount(torch.as_tensor(q.answers).long(), minlength=len(GRAPH.entities)).double()
    weight = w0 * count / count.max() + 1 - w0
    scores = torch.stack([
        torch.stack([literal_score(model, free["entity"][h], free["relations"][r], e) for e in tails]) for h, r, _ in facts
    ])  # fmt: skip
    loss = literal_cross_entropy(scores, [a for _, _, a in facts], [weight[a].item() for _, _, a in facts])
    options = {"lambda1": 0.5, "lambda2": 1.5}
    penalties = [
        literal_penalty("dura", model, free["entity"][h], free["relations"][r], tails[a], options) for h, r, a in facts
    ]
    penalty = 0.1 * torch.stack(penalties).mean()
    (loss + penalty).backward()

    found = t.step(t.questions)
    assert found == pytest.approx((loss.item(), penalty.item()), rel=1e-10)
    for name, table in t.model.named_parameters():
        gradient = free[name].grad
        assert gradient is not None
        expected = free[name] - 0.1 * gradient / (gradient.square().sqrt() + 1e-10)
        torch.testing.assert_close(table, expected.detach(), rtol=1e-6, atol=1e-7)


def test_same_seed_same_numbers_other_seed_other_numbers() -> None:
    runs = []
    for seed in (0, 0, 1):
        t, watcher = trainer(Plan(epochs=2, batch=7, seed=seed))
        t.run()
        runs.append((tables(t), [record["loss"] for record in watcher.records]))
    assert all(torch.equal(runs[0][0][name], runs[1][0][name]) for name in runs[0][0])
    assert runs[0][1] == runs[1][1]
    assert runs[0][1] != runs[2][1]


def test_every_fact_is_seen_once_an_epoch_and_the_loss_falls() -> None:
    t, watcher = trainer(Plan(epochs=15, batch=7), weight=1e-3)
    progress = t.run()
    assert progress.steps == 15 * math.ceil(len(GRAPH.questions) / 7) == len(watcher.steps)
    losses = [record["loss"] for record in watcher.records]
    assert losses[-1] < 0.75 * losses[0] < losses[0] < 1.1 * math.log(len(GRAPH.entities))


@pytest.mark.parametrize(("rule", "model", "objective"), [
    ("adagrad", "complex", "cross-entropy"), ("adam", "complex", "cross-entropy"), ("sgd", "complex", "cross-entropy"),
    ("adagrad", "cp", "cross-entropy"), ("adagrad", "rescal", "cross-entropy"),
    ("adagrad", "complex", "sampled-cross-entropy"), ("adagrad", "rescal", "sampled-cross-entropy"),
])  # fmt: skip
@pytest.mark.parametrize("stop_at", [1, 4, 9, 15])
def test_resumed_is_bit_equal_to_uninterrupted(
    tmp_path: Path, stop_at: int, rule: str, model: str, objective: str
) -> None:
    """Stopped in the middle of an epoch, at its end, anywhere: tables, optimizer, records go on as if nothing happened."""
    figures = iter(range(1000))

    def validate() -> dict[str, float]:
        return {"mrr": float(next(figures) % 3)}

    plan = Plan(epochs=3, batch=11, patience=9, anneal=2)
    parts: dict[str, Any] = {"rule": rule, "model": model, "objective": objective}
    whole, whole_watcher = trainer(plan, validate=validate, **parts)
    whole.run()

    figures = iter(range(1000))
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    first, first_watcher = trainer(
        plan,
        validate=validate,
        **parts,
        checkpoints=checkpoints,
        stopped=lambda: len(first_watcher.steps) >= stop_at,
    )
    with pytest.raises(Interrupted):
        first.run()
    second, second_watcher = trainer(plan, validate=validate, **parts, checkpoints=checkpoints)
    newest = checkpoints.newest()
    assert newest is not None
    second.restore(*newest)
    second.run()
    for name, table in tables(whole).items():
        assert torch.equal(table, tables(second)[name]), name
    timeless = [
        {key: value for key, value in record.items() if "second" not in key}
        for record in first_watcher.records + second_watcher.records
    ]
    assert timeless == [{k: v for k, v in r.items() if "second" not in k} for r in whole_watcher.records]
    assert second.progress.best_epoch == whole.progress.best_epoch


def test_stops_when_validation_no_longer_improves_and_keeps_the_best() -> None:
    figures = [0.1, 0.3, 0.2, 0.25, 0.9]
    seen: list[dict[str, Tensor]] = []

    def validate() -> dict[str, float]:
        seen.append(tables(t))
        return {"mrr": figures[len(seen) - 1]}

    t, watcher = trainer(Plan(epochs=10, batch=20, patience=2), validate=validate)
    progress = t.run()
    assert (progress.epoch, progress.best_epoch, progress.best) == (4, 2, 0.3)
    assert [record["best"] for record in watcher.records] == [True, True, False, False]
    assert all(torch.equal(t.best_state[name], seen[1][name]) for name in t.best_state)


def test_validation_comes_every_n_epochs_and_at_the_end() -> None:
    t, watcher = trainer(Plan(epochs=5, batch=50, validate_every=2), validate=lambda: {"mrr": 0.5})
    t.run()
    assert [record["epoch"] for record in watcher.records if "valid" in record] == [2, 4, 5]


def test_a_loss_that_is_no_number_stops_with_step_and_advice() -> None:
    t, _ = trainer(Plan(epochs=50, batch=30), lr=1e19)
    with pytest.raises(DuraError, match=r"at step \d+ of epoch \d+; try a smaller learning rate"):
        t.run()


def test_the_learning_rate_falls_to_zero_over_the_last_epochs() -> None:
    t, _ = trainer(Plan(epochs=3, batch=50, anneal=2), lr=0.4)
    rates: list[float] = []

    def watch() -> bool:
        rates.append(t.optimizer.param_groups[0]["lr"])
        return False

    t.stopped = watch
    t.run()
    n = t.steps_in_epoch
    assert rates[: n + 1] == [0.4] * (n + 1)
    assert rates[n:] == pytest.approx([0.4 * (2 * n - i) / (2 * n) for i in range(2 * n)])


def test_collapse_under_a_heavy_regularizer_is_said_once() -> None:
    t, watcher = trainer(Plan(epochs=30, batch=20), weight=5.0)
    t.run()
    assert len(watcher.notices) == 1
    assert "try a smaller regularizer.weight than 5" in watcher.notices[0]


def test_unknown_optimizers_and_options_are_refused() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    with pytest.raises(BadInput, match="'adagrat' is not known; known are.*adagrad"):
        optimizer("adagrat", {}, parameters)
    with pytest.raises(BadInput, match=r"optimizer\.momentum is not a setting of 'adagrad'; it has lr"):
        optimizer("adagrad", {"momentum": 0.9}, parameters)
    with pytest.raises(BadInput, match="refuses its settings"):
        optimizer("adagrad", {"lr": -1.0}, parameters)


def test_adagrad_has_the_papers_settings_and_is_fused() -> None:
    made = optimizer("adagrad", {"lr": 0.1}, [torch.nn.Parameter(torch.zeros(1))])
    group = made.param_groups[0]
    assert (group["lr"], group["initial_accumulator_value"], group["eps"], group["fused"]) == (
        0.1,
        0,
        1e-10,
        True,
    )
