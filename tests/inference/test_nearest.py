"""Nearest: an index that takes enough effort answers exactly, for every model that can have one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from doubles import built, known, law_models
from dura.data.graph import Graph
from dura.inference import Asker, Question, Wanted
from dura.inference import nearest as module
from dura.inference.nearest import Links, Nearest, metric
from dura.models import Model
from dura.tables import Table
from dura.types import BadInput
from graphs import graph_for, random_graph

DOT = {
    "cp",
    "distmult",
    "complex",
    "rescal",
    "tcomplex",
    "tntcomplex",
    "trescal",
    "conve",
    "interacte",
    "tucker",
    "cont",
}
DOT |= {"dedicom"}
L2 = {f"{name}-dual" for name in ("cp", "distmult", "complex", "rescal", "tcomplex", "tntcomplex", "trescal")}
L2 |= {"ttranse", "tatranse"}
"""The models that score by inner products, and by L2 distances, to fixed rows. All others have no index."""


def rows_of(model: Model) -> np.ndarray:
    table = model.target_table
    assert isinstance(table, Table)
    return np.ascontiguousarray(table.rows.numpy(), dtype=np.float32)


def indexed(model: Model, links: int = 8, effort: int = 100) -> Nearest:
    return Nearest(model, Links.of(rows_of(model), metric(model), links), effort)


def questions(graph: Graph) -> list[Question]:
    time = None if graph.times is None else "2014-01-03"
    return [
        *(Question(graph.entities.name(i), "r1", None, time) for i in range(5)),
        *(Question(None, "r2", graph.entities.name(i), time) for i in range(5)),
    ]


@pytest.mark.parametrize("name", law_models())
@pytest.mark.parametrize("with_known", [False, True])
def test_enough_effort_gives_exact_answers_or_the_model_is_refused(
    name: str, with_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_for(known(name, monkeypatch))
    model = built(name, graph.sizes).float()
    if name not in DOT | L2:
        with pytest.raises(BadInput, match="an index is for models that score by inner products or by L2 distances"):
            metric(model)
        return
    assert metric(model) == ("dot" if name in DOT else "l2")
    exact = Asker(model, graph, Wanted(6, with_known)).predict(questions(graph))
    found = Asker(model, graph, Wanted(6, with_known, approximate=True), index=indexed(model)).predict(questions(graph))
    for one, other in zip(exact, found, strict=True):
        assert [(a.entity, a.rank, a.known, a.label) for a in one] == [
            (a.entity, a.rank, a.known, a.label) for a in other
        ]
        assert [a.score for a in one] == pytest.approx([a.score for a in other], rel=1e-4, abs=1e-4)


def test_too_few_answers_are_made_up_for_by_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    model = built("complex", graph.sizes).float()
    index = indexed(model)
    monkeypatch.setattr(index, "search", lambda query, k: torch.tensor([[0, 1] + [-1] * (k - 2)] * len(query)))
    found = Asker(model, graph, Wanted(10, approximate=True), index=index).predict(questions(graph))
    exact = Asker(model, graph, Wanted(10)).predict(questions(graph))
    assert [[a.entity for a in one] for one in found] == [[a.entity for a in one] for one in exact]


def test_a_question_with_very_many_known_answers_is_answered_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    every = np.array([[0, 1, t] for t in range(12)], dtype=np.int32)
    graph = replace(graph, train=np.concatenate([graph.train, every]))
    model = built("complex", graph.sizes).float()
    index = indexed(model)
    ids = np.array([[0, 1, 0], [1, 0, 0]])
    assert index.answers(graph, ids, 3, known=False)[3].tolist() == []
    monkeypatch.setattr(module, "MOST_ASKED", 11)
    assert index.answers(graph, ids, 3, known=False)[3].tolist() == [0]
    asked = [Question("e000", "r1")]
    (found,) = Asker(model, graph, Wanted(20, approximate=True), index=index).predict(asked)
    (exact,) = Asker(model, graph, Wanted(20)).predict(asked)
    assert [a.entity for a in found] == [a.entity for a in exact]


def test_more_effort_finds_more() -> None:
    graph = random_graph(entities=3000, facts=4000)
    model = built("complex", graph.sizes, rank=16).float()
    index, head = indexed(model, links=2, effort=1), torch.arange(100)
    relation = torch.zeros(100, dtype=torch.long)
    with torch.no_grad():
        exact = model.score_all(head, relation).topk(5, dim=1).indices.tolist()
        shares = []
        for effort in (1, 50, 3000):
            index.effort = effort
            shares.append(module.recall(exact, index.best(head, relation, None, 5)[1].tolist()))
    assert 0 < shares[0] < shares[1] < shares[2]


def links_of(count: int = 2000) -> Links:
    return Links.of(np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32), "dot", 4)


def _with(links: Links, led: int) -> np.ndarray:
    return np.where(links.neighbours == links.neighbours.max(), led, links.neighbours)


def test_links_of_the_library_are_sound() -> None:
    links = links_of()
    assert links.levels.max() > 2 and links.damage(2000) == "" and links.damage(1999) != ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda _: {"entry": 2000}, "its entry is not in all levels"),
        (lambda links: {"entry": int(links.levels.argmin())}, "its entry is not in all levels"),
        (lambda links: {"levels": np.where(links.levels == 1, 70, links.levels)}, "its levels are not those"),
        (lambda links: {"levels": links.levels + 1}, "a link leads to no entity"),
        (lambda links: {"neighbours": _with(links, 2000)}, "leads to no entity"),
        (lambda links: {"neighbours": _with(links, -2)}, "leads to no entity"),
        (
            lambda links: {"neighbours": np.where(links.neighbours >= 0, int(links.levels.argmin()), links.neighbours)},
            "a link leads out of its level",
        ),
    ],
)
def test_links_that_would_lead_the_library_astray_are_found(changes: Any, message: str) -> None:
    links = links_of()
    assert message in replace(links, **changes(links)).damage(2000)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(BadInput, match=r"an index needs faiss.*pip install 'dura-kge\[index\]'"):
        Links.of(np.zeros((3, 2), dtype=np.float32), "dot")
