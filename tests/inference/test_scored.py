"""Scored facts: the scores of the model, and whether the graph holds them."""

from __future__ import annotations

import pytest
import torch

from doubles import built
from dura.data.graph import Graph
from dura.data.streams import Row
from dura.inference.scored import fact_ids, score_rows, scored
from dura.models import MODELS
from dura.types import DuraError
from graphs import dated_graph, graph_for, random_graph


def _times(graph: Graph, ids: list[int]) -> list[str | None]:
    return [name or None for name in graph.times.names(ids)] if graph.times else []


@pytest.mark.parametrize("name", MODELS.names())
def test_scores_and_known_facts_are_those_of_every_model(name: str) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, rank=6, seed=4).float()
    held = graph.test[:4].astype(int)
    strange = held.copy()
    strange[:, 2] = (strange[:, 2] + 1) % len(graph.entities)
    facts = [tuple(row) for part in (held, strange) for row in part.tolist()]
    known = {tuple(row) for split in (graph.train, graph.valid, graph.test) for row in split.tolist()}
    names = [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t), *_times(graph, when))
        for h, r, t, *when in facts
    ]
    found = scored(model, graph, fact_ids(graph, names))
    with torch.no_grad(), model.answering():
        one = [float(model.score(*(torch.tensor([i]) for i in fact))) for fact in facts]
    assert [fact.score for fact in found] == pytest.approx(one, rel=1e-4, abs=1e-5)
    assert [fact.known for fact in found] == [fact in known for fact in facts]
    assert any(fact.known for fact in found) and not all(fact.known for fact in found)
    assert [(f.head, f.relation, f.tail, f.time) for f in found] == [(*fact, None)[:4] for fact in names]


def test_facts_of_intervals_are_known_at_all_their_times() -> None:
    graph = dated_graph(intervals=True)
    model = built("tcomplex", graph.sizes, rank=4, seed=1).float()
    assert graph.times is not None
    h, r, t, begin, end = next(fact for fact in graph.train.tolist() if fact[4] > fact[3])
    names = graph.entities.name(h), graph.relations.name(r), graph.entities.name(t)
    for at in (begin, end):
        (fact,) = scored(model, graph, fact_ids(graph, [(*names, graph.times.names([at])[0])]))
        assert fact.known


def test_bad_rows_do_not_stop_the_others() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes, rank=4, seed=1).float()
    good = Row(9, ("e001", "r1", "e002", ""))
    rows = [Row(1, wrong="not UTF-8"), *(Row(i, ("x", "r1", "e002", "")) for i in range(2, 300)), good]
    found = list(score_rows(model, graph, rows))
    assert [reply.wrong for reply in found[:2]] == ["not UTF-8", "the entity 'x' is not in this graph"]
    assert {reply.wrong for reply in found[1:-1]} == {"the entity 'x' is not in this graph"}
    assert found[-1].to_dict()["score"] == scored(model, graph, fact_ids(graph, [good.parts[:3]]))[0].score


def test_a_model_of_nan_has_no_scores() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes, rank=4, seed=1).float()
    with torch.no_grad():
        model.state()["entity"].fill_(float("nan"))
    with pytest.raises(DuraError, match="not finite"):
        scored(model, graph, fact_ids(graph, [("e001", "r1", "e002")]))
