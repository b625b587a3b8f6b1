"""Neighbours: the cosine of literal rows, for every model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dura
from doubles import built
from dura.inference.neighbours import neighbours
from dura.models import MODELS
from dura.types import BadInput
from graphs import graph_for, random_graph


@pytest.mark.parametrize("relation", [None, "r1"])
@pytest.mark.parametrize("name", MODELS.names())
def test_the_nearest_have_the_highest_cosine(name: str, relation: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, rank=6, seed=4).float()
    time = "2014-01-02" if graph.times and relation else None
    every = torch.arange(len(graph.entities))
    with model.answering():
        if relation is None:
            table = model.target_table
            rows = model.heads(every)
            if len(model.entity_tables) > 1 and table is not None:
                rows = torch.cat([rows, table.read(every)], 1)
        else:
            at = torch.full_like(every, graph.relations.id(relation))
            when = torch.full_like(every, 1) if graph.times else None
            rows = model.query(every, at, when)
    literal = rows.double().flatten(1).numpy()
    cosines = literal @ literal[5] / np.linalg.norm(literal, axis=1) / np.linalg.norm(literal[5])
    order = [i for i in np.argsort(-cosines) if i != 5][:4]
    for block in (7, 1 << 12):
        monkeypatch.setattr("dura.inference.neighbours.BLOCK", block)
        found = neighbours(model, graph, graph.entities.name(5), 4, relation=relation, time=time)
        assert [n.similarity for n in found] == pytest.approx(cosines[order].tolist(), abs=1e-5)
        assert [n.rank for n in found] == [1, 2, 3, 4]
        assert graph.entities.name(5) not in [n.entity for n in found]


def test_neighbours_print_and_convert_and_work_with_small_tables(tmp_path: Path) -> None:
    model = dura.fit(dura.load("nations"), model="cp", rank=4, epochs=1, progress=False)
    found = model.neighbours("usa", 3)
    assert repr(found).splitlines()[0] == "nearest to usa"
    assert f"1.  {found[0].entity}" in repr(found)
    document = found.to_dict()
    assert document["entity"] == document["label"] == "usa"
    assert document["neighbours"][0] == dict(vars(found[0]))
    assert found.to_frame()["entity"].to_list() == [n.entity for n in found]
    model.export(tmp_path / "small", dtype="float16")
    small = dura.open(tmp_path / "small").neighbours("usa", 13)
    assert [n.similarity for n in small][:3] == pytest.approx([n.similarity for n in found], abs=1e-3)
    assert len(small) == 13
    asked = model.neighbours("usa", 2, relation="embassy")
    assert repr(asked).splitlines()[0] == "nearest to usa as the head of embassy"
    assert asked.to_dict()["relation"] == "embassy"


def test_wrong_wishes_are_refused_with_a_sentence() -> None:
    graph = random_graph()
    model = built("complex", graph.sizes, rank=4, seed=1).float()
    for asked, sentence in [
        ({"entity": "e01"}, "the entity 'e01' is not in this graph; did you mean"),
        ({"entity": "e001", "k": 0}, "k is 0, but it must be at least 1"),
        ({"entity": "e001", "relation": "r9"}, "the relation 'r9' is not in this graph"),
        ({"entity": "e001", "time": "2014"}, "a time is about a relation at that time"),
    ]:
        with pytest.raises(BadInput, match=sentence):
            neighbours(model, graph, **asked)  # type: ignore[arg-type]
