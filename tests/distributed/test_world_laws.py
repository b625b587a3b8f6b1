"""Laws of several processes: they take the steps of one process and find its ranks, however the rows are cut."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import worlds
from dura.evaluation import rank
from dura.inference.answers import Question, Wanted
from dura.inference.predict import predict
from dura.models import MODELS
from dura.types import Sizes
from graphs import graph_for
from oracles import SEMANTIC
from worlds import in_world

GOLDEN = worlds.golden()
PLAIN = [
    name
    for name, curve in GOLDEN.stored().items()
    if curve != GOLDEN.REFUSED and not name.endswith("/negatives") and name.startswith(SEMANTIC)
]
VARIANTS = ("/cross-entropy-w0", "/sampled-frequency")
"""Objectives that two models stand for."""
RELATIVE, ABSOLUTE = 5e-6, 5e-7
"""Sums over processes round differently from those of one process, and ten steps carry that on."""


@pytest.mark.parametrize(("processes", "replicas"), [(2, 1), (2, 2), (4, 1), (4, 2)])
def test_processes_take_the_steps_of_one(processes: int, replicas: int) -> None:
    names = [name for name in PLAIN if not name.endswith(VARIANTS) or name.startswith(("complex", "trescal"))]
    names = names if (processes, replicas) == (2, 1) else names[::9]
    for found in in_world(processes, "curves", {"names": names, "replicas": replicas}):
        for name in names:
            golden, ours = GOLDEN.stored()[name], found[name]
            if isinstance(ours, str):
                assert "bernoulli" in name, f"{name} was refused: {ours}"
                continue
            for what in ("loss", "penalty"):
                for step, (one, several) in enumerate(zip(golden[what], ours[what], strict=True)):
                    same = math.isclose(one, several, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
                    assert same, f"{name}: the {what} of step {step} is {several}, and {one} in one process"


def test_what_needs_all_entities_in_one_process_is_refused() -> None:
    names = ["complex/margin/negatives", "complex/softmax/negatives"]
    for found in in_world(2, "curves", {"names": names, "replicas": 1}):
        for name in names:
            assert "needs all entities in each process: set world.shards = 1 and world.replicas = 2" in found[name]
    for found in in_world(2, "curves", {"names": names, "replicas": 2}):
        assert all(isinstance(found[name], dict) for name in names)


def test_a_model_whose_entities_cannot_be_spread_is_refused_and_trains_as_replicas() -> None:
    names = ["transe/fro/all", "rotate/fro/sample"]
    for found in in_world(2, "curves", {"names": names, "replicas": 1}):
        assert all("cannot be spread over processes: set world.shards = 1" in found[name] for name in names)
    for found in in_world(2, "curves", {"names": names, "replicas": 2}):
        assert all(isinstance(found[name], dict) for name in names)


EDGES = {
    2: [[0, 10, 20], [0, 1, 20], [0, 3, 20], [0, 19, 20], [0, 0, 20]],
    4: [[0, 5, 10, 15, 20], [0, 2, 4, 4, 20]],
}


@pytest.mark.parametrize(("processes", "block", "comparator"), [(2, 7, "dot"), (4, None, "dot"), (2, 7, "distance")])
def test_ranks_and_answers_depend_neither_on_the_number_nor_on_the_sizes_of_shards(
    processes: int, block: int | None, comparator: str
) -> None:
    models = list(SEMANTIC) if processes == 2 else ["complex", "trescal"]
    expected = {model: _in_one_process(model, comparator) for model in models}
    cuts = [(model, edges) for model in models for edges in EDGES[processes]]
    argument = {"models": models, "edges": EDGES[processes], "block": block, "comparator": comparator}
    for found in in_world(processes, "ranks", argument):
        for (model, edges), numbers in zip(cuts, found, strict=True):
            assert numbers[:3] == expected[model][:3], f"{model} has other ranks with the edges {edges}"
            for at in (3, 4):
                assert numbers[at] == pytest.approx(expected[model][at], rel=1e-5), f"{model}, {edges}: other answers"


def _in_one_process(model: str, comparator: str) -> list[list[float]]:
    """The counts of `rank`, and the scores of the best answers to a question."""
    graph = graph_for(model)
    one = worlds._drawn(model, graph.sizes, comparator)
    ranks = rank(one, graph.asked("test"), graph.known, len(graph.relations))
    counts: list[list[float]] = [ranks.greater.tolist(), ranks.equal.tolist(), ranks.candidates.tolist()]
    assert sum(counts[1]) > 0  # some rows are equal
    when = str(graph.times.names([1])[0]) if graph.times else None
    question = Question(graph.entities.names([3])[0], graph.relations.names([1])[0], None, when)
    (answers,) = predict(one, graph, [question], Wanted(7))
    (near,) = predict(one, graph, [question], Wanted(7, in_range=True, among=graph.entities.names(range(0, 20, 3))))
    assert 0 < len(near) <= 7 and [a.entity for a in near] != [a.entity for a in answers]
    return [*counts, [answer.score for answer in answers], [answer.score for answer in near]]


@pytest.mark.parametrize("model", ["complex", "rescal"])
def test_a_span_starts_with_the_numbers_of_the_whole_table(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    argument: dict[str, Any] = {"model": model, "entities": 4001, "rank": 300}
    torch.manual_seed(3)
    whole = next(iter(MODELS.build(model, {"rank": 300}, Sizes(4001, 2, 3)).parameters())).detach().flatten().double()
    first, second, third = in_world(3, "starts", argument)
    assert torch.equal(torch.tensor(first + second + third, dtype=torch.float64), whole)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_model_that_diverged_in_one_process_is_refused_by_all(replicas: int) -> None:
    one, two = in_world(2, "diverged", {"replicas": replicas})
    assert one == two
    assert "the model cannot be ranked: its scores for the question" in one
