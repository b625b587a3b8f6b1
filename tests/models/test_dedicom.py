"""DEDICOM by alternating least squares: every closed form against the literal error of a small dense tensor."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dura
from dura import Experiment
from dura.config import Component
from dura.models import MODELS, asalsan
from dura.models.asalsan import Facts, Point
from dura.records import RunFolder
from dura.runs.choices import choose
from dura.runs.run import resume, train
from dura.training.checkpoint import Checkpoints
from dura.training.progress import Interrupted
from dura.types import BadInput, Sizes
from graphs import dated_graph

ENTITIES, RELATIONS, TIMES, RANK = 9, 3, 5, 3


@pytest.fixture
def facts() -> Facts:
    rng = np.random.default_rng(0)
    ids = np.stack([rng.integers(n, size=60) for n in (ENTITIES, RELATIONS, ENTITIES, TIMES - 1)], 1)
    return Facts.of(torch.as_tensor(np.unique(ids, axis=0)), RELATIONS)  # the last time has no facts


@pytest.fixture
def point() -> Point:
    torch.manual_seed(1)
    shapes = ((ENTITIES, RANK), (RELATIONS, RANK, RANK), (TIMES, RANK))
    return Point(*(torch.randn(*shape).double() for shape in shapes))


def slices(facts: Facts) -> Tensor:
    """X [|R|, |T|, |E|, |E|]."""
    x = torch.zeros(RELATIONS, TIMES, ENTITIES, ENTITIES).double()
    for h, r, t, time in zip(
        *(ids.tolist() for ids in (facts.head, facts.relation, facts.tail, facts.time)), strict=True
    ):
        x[r, time, h, t] = 1
    return x


def literal(facts: Facts, at: Point, ridge: float = 0.0, right: Tensor | None = None) -> Tensor:
    """Σ ‖X − A D R D Bᵀ‖² + ridge·(‖A‖² + ‖R‖² + ‖D‖²) over all slices, one after the other; B = A unless `right` is given."""
    x, total = slices(facts), ridge * (at.a.square().sum() + at.r.square().sum() + at.d.square().sum())
    for j in range(RELATIONS):
        for time in range(TIMES):
            middle = torch.diag(at.d[time]) @ at.r[j] @ torch.diag(at.d[time])
            total = total + (x[j, time] - at.a @ middle @ (at.a if right is None else right).T).square().sum()
    return total


def slope(facts: Facts, at: Point, part: str, ridge: float) -> Tensor:
    """The gradient of the literal error by one of the parts."""
    free = getattr(at, part).clone().requires_grad_()
    literal(facts, replace(at, **{part: free}), ridge).backward()
    gradient: Tensor | None = free.grad
    assert gradient is not None
    return gradient


def test_the_error_is_that_of_the_whole_tensor(facts: Facts, point: Point) -> None:
    torch.testing.assert_close(asalsan.error(facts, point), literal(facts, point), rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_best_relations_have_no_slope_left(facts: Facts, point: Point, ridge: float) -> None:
    fitted = replace(point, r=asalsan.best_relations(facts, point, ridge))
    assert slope(facts, point, "r", ridge).abs().max() > 1
    assert slope(facts, fitted, "r", ridge).abs().max() < 1e-7


def test_the_closed_form_of_the_entities_is_best_if_the_other_side_stays(facts: Facts, point: Point) -> None:
    """Published as one step: Σ ‖X − A M A₀ᵀ‖² + ‖Xᵀ − A Mᵀ A₀ᵀ‖² + ridge·‖A‖² has no slope at the new A."""
    ridge, ids = 0.3, (facts.head, facts.tail)
    new = asalsan.wanted_entities(facts, point, ridge).requires_grad_()
    other = replace(facts, head=ids[1], tail=ids[0])
    first = literal(facts, replace(point, a=new), 0.0, right=point.a)
    second = literal(other, replace(point, a=new, r=point.r.mT), 0.0, right=point.a)
    (first + second + ridge * new.square().sum()).backward()
    assert new.grad is not None and new.grad.abs().max() < 1e-7


@pytest.mark.parametrize("part", ["a", "d"])
def test_a_step_for_entities_or_times_is_as_good_as_any_other_length_of_it(
    facts: Facts, point: Point, part: str
) -> None:
    ridge = 0.3
    better = (
        asalsan.better_entities(facts, point, ridge) if part == "a" else asalsan.better_times(facts, point, ridge, 1)
    )
    move = better - getattr(point, part)
    at_best = literal(facts, replace(point, **{part: better}), ridge)
    assert at_best < literal(facts, point, ridge)
    others = [0.9, 0.99, 1.01, 1.1] if part == "a" else [0.999, 1.001]
    for length in others:
        other = replace(point, **{part: getattr(point, part) + length * move})
        assert literal(facts, other, ridge) >= at_best - 1e-9


def test_steps_of_newton_end_where_the_times_have_no_slope(facts: Facts, point: Point) -> None:
    ended = replace(point, d=asalsan.better_times(facts, point, 0.3, newton=30))
    assert slope(facts, ended, "d", 0.3).abs().max() < 1e-6


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_the_error_never_grows_from_sweep_to_sweep_and_ends_without_a_slope(
    facts: Facts, point: Point, ridge: float
) -> None:
    at, errors = point, [float(literal(facts, point, ridge))]
    for _ in range(400):
        at = asalsan.sweep(facts, at, ridge, newton=1)
        errors.append(float(literal(facts, at, ridge)))
    assert all(after <= before + 1e-9 for before, after in itertools.pairwise(errors))
    assert errors[-1] < 0.9 * errors[1]
    if ridge:  # without it nothing holds the scales of R and D: the error still falls, ever slower, while D grows
        assert all(slope(facts, at, part, ridge).abs().max() < 1e-2 for part in ("a", "r", "d"))


def test_the_start_spans_the_leading_eigenvectors(facts: Facts, point: Point) -> None:
    x = slices(facts).sum((0, 1))
    values, vectors = torch.linalg.eigh(x + x.T)
    leading = vectors[:, values.abs().argsort(descending=True)[:RANK]]
    found = asalsan.eigenvectors(facts, point.a, rounds=500)
    torch.testing.assert_close(found @ found.T, leading @ leading.T, rtol=1e-6, atol=1e-6)


# -- runs ---------------------------------------------------------------------------------------------------------------


def settings(**tables: dict[str, Any]) -> Experiment:
    return Experiment.from_dict(
        {
            "model": {"name": "dedicom", "rank": 4},
            "regularizer": {"name": "none"},
            "optimizer": {"name": "als", "ridge": 0.05},
            "training": {"epochs": 6, "patience": 0, "threads": 1, "validate_every": 2},
        }
        | tables
    )


def tensors(run: Path) -> dict[str, Tensor]:
    newest = Checkpoints(run / "checkpoints").newest()
    assert newest is not None
    return newest[0]


def test_an_epoch_is_a_sweep_and_its_loss_is_the_share_of_the_facts_that_is_not_fitted(tmp_path: Path) -> None:
    graph = dated_graph(untimed=True)
    trained = train(settings(), graph, tmp_path / "run")
    records = [record for record in RunFolder.open(tmp_path / "run").records() if "loss" in record]
    assert len(records) == 6 and records[0]["facts_per_second"] > 0
    sums = [record["loss"] + record["penalty"] for record in records]
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(sums))
    model, error = trained.model, float(len(graph.train))
    best = next(record for record in records if record.get("best") and record["epoch"] == trained_epoch(tmp_path))
    every = torch.arange(graph.sizes.entities)
    with model.answering():
        for j in range(graph.sizes.relations):
            for time in range(graph.sizes.times):
                scores = model.score_all(every, torch.full_like(every, j), torch.full_like(every, time)).double()
                error += float(scores.square().sum())
        error -= 2 * float(model.score(*torch.as_tensor(graph.train).long().unbind(1)).sum())
    assert best["loss"] == pytest.approx(error / len(graph.train), rel=1e-4)


def trained_epoch(path: Path) -> int:
    """The epoch whose tables are kept as the best ones."""
    best = Checkpoints(path / "run" / "checkpoints").best()
    assert best is not None
    return int(best[1]["epoch"])


def test_a_run_that_was_stopped_between_sweeps_continues_bit_by_bit(tmp_path: Path) -> None:
    graph, asked = dated_graph(), list[int]()

    def stopped() -> bool:
        asked.append(1)
        return len(asked) == 3

    train(settings(), graph, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(settings(), graph, tmp_path / "parts", stopped=stopped)
    resume(tmp_path / "parts")
    whole, parts = tensors(tmp_path / "whole"), tensors(tmp_path / "parts")
    assert whole.keys() == parts.keys() and all(torch.equal(one, parts[key]) for key, one in whole.items())
    assert not any(key.startswith("optimizer.") for key in whole)


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"model": {"name": "tcomplex", "rank": 4}},
            "the model 'tcomplex' cannot be trained by alternating least squares; use --set optimizer.name=adagrad",
        ),
        ({"regularizer": {"name": "fro"}}, "has no other penalty than optimizer.ridge"),
        ({"smoothness": {"weight": 0.1}}, "has no other penalty than optimizer.ridge"),
        ({"optimizer": {"name": "als", "ridge": -1.0}}, "optimizer.ridge is -1.0, but a weight is zero or more"),
        ({"optimizer": {"name": "als", "newton": 0}}, "optimizer.newton is 0, but it is the number of steps"),
        ({"optimizer": {"name": "als", "lr": 0.1}}, "optimizer.lr is not a setting of 'als'; it has ridge, newton"),
        (
            {"model": {"name": "dedicom", "rank": 65}},
            "model.rank is 65, but alternating least squares has tables of rank",
        ),
        ({"training": {"batch": "auto"}}, "training.batch is 'auto', but alternating least squares has no batches"),
    ],
)
def test_what_alternating_least_squares_cannot_do_is_refused(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        train(settings(**tables), dated_graph())


def test_choosing_least_squares_brings_the_settings_that_it_needs() -> None:
    def chosen(**settings: object) -> Experiment:
        paths = {path.replace("__", "."): value for path, value in settings.items()}
        return choose(None, dated=True, model="dedicom", settings={"optimizer.name": "als", **paths})

    plain = chosen()
    assert plain.regularizer == Component("none") and plain.smoothness.weight == 0
    assert plain.optimizer.name == "als" and plain.training.epochs == 20
    assert len(train(plain.with_values({"model.rank": 4, "training.epochs": 1}), dated_graph()).graph.train)
    from_preset = choose("icews14/dedicom-laptop", dated=True, settings={"optimizer.name": "ALS"})
    assert from_preset.regularizer.name == "none" and from_preset.model.options["rank"] == 80
    for mine in ({"regularizer__weight": 0.3}, {"regularizer__name": "fro"}, {"smoothness__weight": 0.3}):
        kept = chosen(**mine)
        assert all(kept.by_path()[path.replace("__", ".")] == value for path, value in mine.items())
        with pytest.raises(BadInput, match="has no other penalty than optimizer.ridge"):
            train(kept, dated_graph())


def test_a_model_without_a_sweep_says_so_itself() -> None:
    model = MODELS.build("tcomplex", {"rank": 2}, Sizes(3, 2, 2))
    with pytest.raises(BadInput, match="'TComplEx' cannot be trained by alternating least squares"):
        model.alternate(np.zeros((1, 4), dtype=np.int64), first=True, ridge=0.1, newton=1)


def test_a_graph_without_times_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a graph whose facts have times"):
        MODELS.build("dedicom", {"rank": 2}, Sizes(3, 2))


def test_by_gradient_the_times_start_at_one_and_a_reciprocal_asks_the_same_fact() -> None:
    torch.manual_seed(0)
    graph = dated_graph()
    model = MODELS.build("dedicom", {"rank": 4}, graph.sizes)
    assert torch.equal(model.state()["times"], torch.ones(8, 4))
    trained = dura.fit(graph, model="dedicom", rank=4, epochs=2, progress=False).model
    h, r, t, time = torch.as_tensor(graph.train[:20]).long().unbind(1)
    with trained.answering():
        backwards = trained.score(t, r + graph.sizes.relations, h, time)
        torch.testing.assert_close(trained.score(h, r, t, time), backwards, rtol=1e-4, atol=1e-6)
