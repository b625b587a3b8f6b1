from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import dura
from dura.data.categories import relation_categories
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.evaluation import GROUPS, Result, by, evaluate, metrics, rank
from dura.models import ComplEx
from dura.types import BadInput
from graphs import random_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(entities=20, relations=3, facts=150)


@pytest.fixture(scope="module")
def model(graph: Graph) -> ComplEx:
    torch.manual_seed(0)
    return ComplEx(graph.sizes, rank=5)


@pytest.fixture(scope="module")
def result(model: ComplEx, graph: Graph) -> Result:
    return evaluate(model, graph, by=GROUPS)


def test_the_figures_are_those_of_the_ranks(model: ComplEx, graph: Graph, result: Result) -> None:
    ranks = rank(model, graph.test, graph.known, 3)
    assert result.split == "test"
    assert result.metrics == result.ties["realistic"] == metrics(ranks)
    assert result.ties["pessimistic"] == metrics(ranks, "pessimistic")
    assert (result.mrr, result.hits) == (result.metrics.mrr, result.metrics.hits)
    assert result.groups["relation"] == by(ranks, "relation", relations=["r0", "r1", "r2"])
    categories = relation_categories(graph.train, 3)
    assert result.groups["category-side"] == by(ranks, "category-side", categories=categories)
    assert evaluate(model, graph, "valid", "side", block=3).split == "valid"


def test_json_holds_what_the_command_line_promises(graph: Graph, result: Result) -> None:
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert {"split", "mrr", "hits", "mean_rank", "amri", "ranks", "ties", "protocol", "by"} == set(found)
    assert set(found["hits"]) == {"1", "3", "10"}
    assert found["ranks"] == 2 * len(graph.test)
    assert list(found["ties"]) == ["optimistic", "realistic", "pessimistic"]
    assert found["ties"]["realistic"] == {k: found[k] for k in ("mrr", "hits", "mean_rank", "amri", "ranks")}
    assert found["by"]["side"]["head"]["ranks"] == len(graph.test)
    assert found["protocol"] == {
        "graph": "random",
        "data_digest": graph.digest,
        "filter": "train+valid+test, filtered",
        "sides": "both",
        "ties": "realistic",
        "candidates": "all 20 entities",
        "unseen_entities": {"entities": 0, "ranked_facts": 0},
        "dura": dura.__version__,
    }


def test_entities_that_train_never_saw_are_ranked_and_counted(graph: Graph) -> None:
    names = Vocabulary([*graph.entities, "z1", "z2", "z3"])
    test = np.array([[20, 0, 1], [2, 1, 21], [20, 1, 21], [0, 0, 5]], dtype=np.int32)
    larger = replace(graph, entities=names, test=test)
    result = evaluate(ComplEx(larger.sizes, rank=2), larger)
    assert result.protocol["unseen_entities"] == {"entities": 3, "ranked_facts": 3}
    assert result.protocol["candidates"] == "all 23 entities"
    assert result.metrics.ranks == 8
    assert "not seen in train: 3, in 3 of the ranked facts" in str(result)


def test_frames(result: Result) -> None:
    frame = result.to_frame()
    assert frame.columns == ["by", "name", "mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "amri", "ranks"]
    assert frame["by"].unique(maintain_order=True).to_list() == ["ties", *GROUPS]
    assert frame.row(1)[:3] == ("ties", "realistic", result.mrr)
    pandas = pytest.importorskip("pandas")
    assert isinstance(result.to_pandas(), pandas.DataFrame)
    assert result.to_pandas()["mrr"].tolist() == frame["mrr"].to_list()


def test_a_missing_pandas_is_said_in_a_sentence(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadInput, match=r"pandas is not installed; use to_frame\(\)"):
        result.to_pandas()


def test_it_prints_as_a_table(result: Result) -> None:
    lines = str(result).splitlines()
    assert lines[0] == "test facts of random: train+valid+test, filtered; both sides; all 20 entities ranked"
    assert lines[2].split() == ["ties", "mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "amri", "ranks"]
    assert lines[4].split()[:2] == ["realistic", f"{result.mrr:.4f}"]
    assert len({len(line) for line in lines[2:6]}) == 1
    many = replace(result, groups={"relation": {f"r{i}": result.metrics for i in range(45)}})
    assert str(many).endswith("… and 5 more")


def test_refusals(model: ComplEx, graph: Graph) -> None:
    with pytest.raises(BadInput, match="valid split of the graph 'random' holds no facts"):
        evaluate(model, replace(graph, valid=graph.valid[:0]), "valid")
    with pytest.raises(BadInput, match="20 entities and the graph 'random' has 21"):
        evaluate(model, random_graph(entities=21))
    with pytest.raises(BadInput, match="the split 'dev' is not known"):
        evaluate(model, graph, "dev")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="by 'colour' are not known"):
        evaluate(model, graph, by="colour")  # type: ignore[arg-type]
