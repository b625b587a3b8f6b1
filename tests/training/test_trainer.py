"""The loop: its step is the literal gradient step, it stops when it should, and resuming is as if it had never stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.models import MODELS, Temporal
from dura.objectives import All, Sample, Softmax, objective_of
from dura.regularizers import REGULARIZERS, Smoothness
from dura.training.checkpoint import Checkpoints
from dura.training.optimizers import optimizer
from dura.training.trainer import Interrupted, Plan, Progress, Trainer
from dura.types import BadInput, DuraError
from graphs import dated_graph, random_graph
from oracles import (
    SEMANTIC,
    literal_cross_entropy,
    literal_penalty,
    literal_relation,
    literal_score,
    literal_smoothness,
)

GRAPH = random_graph()
DATED = dated_graph(entities=12, facts=90, untimed=True)


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
    candidates: str = "all",
    validate: Callable[[], dict[str, float]] | None = None,
    checkpoints: Checkpoints | None = None,
    stopped: Callable[[], bool] = lambda: False,
    double: bool = False,
    weight: float = 0.1,
    smooth: Smoothness | None = None,
    redraw: Callable[[int], Questions] | None = None,
) -> tuple[Trainer, Watcher]:
    torch.manual_seed(3)
    graph = DATED if MODELS.get(model).temporal else GRAPH
    built = MODELS.build(model, {"rank": 4, "init_scale": 0.3}, graph.sizes)
    built = built.double() if double else built
    watcher = Watcher()
    questions = graph.questions.one_by_one() if one_by_one else graph.questions
    more: dict[str, Any] = {}
    if smooth is not None and isinstance(built, Temporal) and graph.times is not None:
        parts = 2 if built.family.complex else 1
        more["smooth"] = partial(smooth, built.times, len(graph.times.positions), parts)
    made = Trainer(
        built,
        objective_of({"tails": 1.0}, Softmax(w0), Sample(7) if candidates == "sample" else All()),
        REGULARIZERS.build("dura", {"weight": weight}),
        optimizer(rule, {"lr": lr}, built.parameters()),
        questions,
        plan,
        validate=validate,
        checkpoints=checkpoints,
        listeners=(watcher,),
        stopped=stopped,
        redraw=redraw,
        **more,
    )
    return made, watcher


def tables(t: Trainer) -> dict[str, Tensor]:
    return {name: table.detach().clone() for name, table in t.model.named_parameters()}


@pytest.mark.parametrize("model", SEMANTIC)
@pytest.mark.parametrize("w0", [0.0, 0.9])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_step_is_adagrad_on_the_literal_loss(model: str, w0: float, one_by_one: bool) -> None:
    """All questions in one batch: loss, penalty and the tables after the step, from the formulas of the paper.

    Where facts have times with smoothness, from which the row of no time is left out.
    """
    p = 2 if model == "trescal" else 3
    t, _ = trainer(
        Plan(batch=10_000), model=model, w0=w0, one_by_one=one_by_one, double=True, smooth=Smoothness(0.7, p)
    )
    graph = DATED if t.model.temporal else GRAPH
    free = {name: table.requires_grad_() for name, table in tables(t).items()}
    tails = free.get("tail", free["entity"])
    q = graph.questions
    times = np.zeros(len(q), dtype=int) if q.time is None else q.time
    heads = [free["entity"][h] for h in q.head.tolist()]
    rho = [literal_relation(model, free, r, time) for r, time in zip(q.relation.tolist(), times.tolist(), strict=True)]
    facts = list(zip(q.question.tolist(), q.answers.tolist(), strict=True))
    count = torch.bincount(torch.as_tensor(q.answers).long(), minlength=len(graph.entities)).double()
    weight = w0 * count / count.max() + 1 - w0
    scores = [torch.vmap(partial(literal_score, model, h, r))(tails) for h, r in zip(heads, rho, strict=True)]
    loss = literal_cross_entropy(
        torch.stack([scores[i] for i, _ in facts]), [a for _, a in facts], [weight[a].item() for _, a in facts]
    )
    options = {"lambda1": 0.5, "lambda2": 1.5}
    penalties = [literal_penalty("dura", model, heads[i], rho[i], tails[a], options) for i, a in facts]
    penalty = 0.1 * torch.stack(penalties).mean()
    if graph.times is not None:
        penalty = penalty + 0.7 * literal_smoothness(free["times"][: len(graph.times.positions)], p, model != "trescal")
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


@pytest.mark.parametrize(("rule", "model", "candidates"), [
    ("adagrad", "complex", "all"), ("adam", "complex", "all"), ("sgd", "complex", "all"),
    ("adagrad", "cp", "all"), ("adagrad", "rescal", "all"),
    ("adagrad", "complex", "sample"), ("adagrad", "rescal", "sample"),
    *(("adagrad", model, "all") for model in SEMANTIC if MODELS.get(model).temporal),
])  # fmt: skip
@pytest.mark.parametrize("stop_at", [1, 4, 9, 15])
def test_resumed_is_bit_equal_to_uninterrupted(
    tmp_path: Path, stop_at: int, rule: str, model: str, candidates: str
) -> None:
    """Stopped in the middle of an epoch, at its end, anywhere: tables, optimizer, records go on as if nothing happened."""
    figures = iter(range(1000))

    def validate() -> dict[str, float]:
        return {"mrr": float(next(figures) % 3)}

    plan = Plan(epochs=3, batch=11, patience=9, anneal=2)
    parts: dict[str, Any] = {"rule": rule, "model": model, "candidates": candidates, "smooth": Smoothness(0.1, 2)}
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


def test_questions_that_are_drawn_anew_are_those_of_the_epoch_also_after_a_stop(tmp_path: Path) -> None:
    """Epochs of different lengths: the steps of each are counted by its own questions."""
    lengths, drawn = (30, 55, 41), list[int]()

    def redraw(epoch: int) -> Questions:
        drawn.append(epoch)
        return DATED.questions.take(np.arange(lengths[epoch]) * 2 + epoch)

    plan = Plan(epochs=3, batch=10, anneal=3)
    whole, watcher = trainer(plan, model="tcomplex", redraw=redraw)
    whole.run()
    assert drawn == [0, 1, 2]
    assert len(watcher.steps) == 3 + 6 + 5
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    first, seen = trainer(
        plan, model="tcomplex", redraw=redraw, checkpoints=checkpoints, stopped=lambda: len(seen.steps) >= 5
    )
    with pytest.raises(Interrupted, match="step 2 of epoch 2"):
        first.run()
    drawn.clear()
    second, _ = trainer(plan, model="tcomplex", redraw=redraw, checkpoints=checkpoints)
    newest = checkpoints.newest()
    assert newest is not None
    second.restore(*newest)
    second.run()
    assert drawn == [1, 2]
    assert all(torch.equal(table, tables(second)[name]) for name, table in tables(whole).items())


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
    with pytest.raises(DuraError, match=r"at step \d+ of epoch \d+; train again with a smaller learning rate"):
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
    with pytest.raises(BadInput, match="does not accept its settings"):
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
