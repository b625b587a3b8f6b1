"""Judging facts: shares and ranks from both sides, compared with one fact at a time in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from doubles import built
from dura.data.graph import Graph
from dura.inference import judge as module
from dura.inference.judge import Judged, judge, unusual
from dura.models import MODELS, Model
from dura.models.rtfe import RTFE
from graphs import graph_for


def literal(model: Model, graph: Graph, head: int, relation: int, answer: int, time: list[int]) -> tuple[float, float]:
    """Log share and rank of an answer among itself and all that are not known."""
    ids = [np.array([i]) for i in (head, relation, *time)]
    known = set(graph.known.known(*ids).answers.tolist())
    with model.answering():
        scores = model.score_all(*map(torch.from_numpy, ids))[0].double()
    rivals = torch.stack([scores[e] for e in range(len(scores)) if e not in known])
    share = scores[answer] - torch.cat([rivals, scores[answer, None]]).logsumexp(0)
    return float(share), 1 + float((rivals > scores[answer]).sum()) + 0.5 * float((rivals == scores[answer]).sum())


@pytest.mark.parametrize("name", MODELS.names())
@pytest.mark.parametrize("questions", [3, 10_000])
def test_shares_and_ranks_are_the_literal_ones(name: str, questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_for(name)
    model = built(name, graph.sizes, rank=6, seed=4).float()
    model.observe(graph.train, list(graph.times or ()))
    if isinstance(model, RTFE):
        model.filled.fill_(model.slots)
    monkeypatch.setattr(module, "BLOCK_BYTES", 4 * 20 * questions)
    facts = graph.asked("train")[::9]
    found = judge(model, facts, graph.known, len(graph.relations))
    for row, (h, r, t, *time) in enumerate(facts.tolist()):
        for side, asked in enumerate(((h, r, t), (t, r + len(graph.relations), h))):
            share, rank = literal(model, graph, *asked, time)
            assert found.share[row, side] == pytest.approx(share, abs=1e-4)
            assert found.rank[row, side] == rank


def test_a_fact_is_compared_with_facts_of_its_relation_and_takes_its_better_side() -> None:
    rank = np.array([[1.0, 1.0], [1.0, 1.0], [9.0, 1.0], [9.0, 9.0], [90.0, 90.0], [90.0, 90.0], [np.nan, np.nan]])
    value = Judged(np.log(1 / rank), rank).plausibility(
        np.array([0, 0, 0, 0, 1, 1, 1]), np.zeros((7, 2), dtype=np.int64)
    )
    assert value[3] < value[2] <= value[0] == value[1]
    assert value[4] == value[5] == 0.0  # a difficult relation is no reason to doubt its facts
    assert np.isnan(value[6])


def test_entities_about_which_little_is_known_are_no_reason_for_doubt() -> None:
    rng = np.random.default_rng(0)
    x = np.log1p(rng.integers(0, 50, (500, 2)))
    group = rng.integers(0, 3, 500)
    y = 2 * x[:, 0] - x[:, 1] ** 2 + 5.0 * group + rng.normal(size=500)
    y[7] -= 8
    found = unusual(y, group, x)
    assert found.argmin() == 7
    assert abs(np.corrcoef(found, x[:, 0])[0, 1]) < 0.05
    assert [found[group == g].mean() for g in range(3)] == pytest.approx([0, 0, 0], abs=1e-9)
