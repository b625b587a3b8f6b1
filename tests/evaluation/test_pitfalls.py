"""Mistakes that made published numbers too good, each with a test that we do not make it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dura
from dura.evaluation import metrics, rank
from dura.models import MODELS, Model
from dura.objectives import Negatives
from dura.runs.run import train
from dura.tables import Table
from dura.types import Sizes
from graphs import random_graph


class Fixed(Model):
    """Scores entities by rows that a test writes: <q, t> with the head's own row as the query."""

    def __init__(self, sizes: Sizes, rank: int = 4) -> None:
        super().__init__(sizes, rank)
        self.entity = Table(torch.ones(sizes.entities, rank))

    @property
    def target_table(self) -> Table:
        return self.entity

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.entity.read(head)


def test_a_constant_scorer_gets_no_credit() -> None:
    """The first evaluator of ConvKB put ties at the top, so such a model had an MRR of 1."""
    graph = random_graph()
    ranks = rank(Fixed(graph.sizes), graph.asked("test"), graph.known, len(graph.relations))
    assert (ranks.greater == 0).all() and (ranks.equal == ranks.candidates - 1).all()
    np.testing.assert_allclose(ranks.ranks(), (1 + ranks.candidates) / 2)
    assert metrics(ranks).hits[1] == 0 and metrics(ranks).mrr < 0.2


@pytest.mark.parametrize("model", ["transe", "convkb", "kbgat"])
def test_no_valid_or_test_fact_filters_the_negatives(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """KB-GAT's program left out negatives that were valid or test facts, which tells the model what they are."""
    graph = random_graph()
    held = {tuple(fact) for part in (graph.valid, graph.test) for fact in part.tolist()}
    drawn, left_out = set[tuple[int, ...]](), set[tuple[int, ...]]()
    plain = Negatives.drawn

    def watched(self: Negatives, batch: Any, seed: int, group: int = 0) -> tuple[Tensor, Tensor]:
        ids, out = plain(self, batch, seed, group)
        for at, relation in enumerate(batch.relation[batch.question].tolist()):
            if relation < len(graph.relations):
                head = int(batch.head[batch.question[at]])
                for entity, gone in zip(ids[at].tolist(), out[at].tolist(), strict=True):
                    (left_out if gone else drawn).add((head, relation, entity))
        return ids, out

    monkeypatch.setattr(Negatives, "drawn", watched)
    tables = {
        "model": {"name": model, "rank": 4},
        "regularizer": {"name": "none"},
        "loss": {"name": "margin"},
        "candidates": {"name": "negatives", "count": 40},
        "training": {"epochs": 3, "batch": 500},
    }
    train(dura.Experiment.from_dict(tables), graph)
    assert drawn & held and not left_out & held
    assert left_out <= {tuple(fact) for fact in graph.train.tolist()}


def test_the_head_of_the_question_stays_a_candidate() -> None:
    """MuRP's evaluator takes it out. Here every entity is its own best answer, so no truth can be first."""
    graph = random_graph()
    model = Fixed(graph.sizes, graph.sizes.entities)
    model.entity.data.copy_(torch.eye(graph.sizes.entities))
    facts = graph.asked("test")
    ranks = rank(model, facts, graph.known, len(graph.relations))
    loops = {(h, r) for h, r, t in np.concatenate([graph.train, graph.valid, graph.test]).tolist() if h == t}
    for i, (h, r, t) in enumerate(facts.tolist()):
        if (h, r) not in loops and h != t:
            assert ranks.greater[i] == 1


def test_entities_that_training_has_not_seen_are_ranked() -> None:
    """PyKEEN leaves their facts out, 210 of 3,134 on WN18RR."""
    graph = random_graph()
    seen = set(graph.train[:, [0, 2]].flatten().tolist())
    one = int(graph.test[0, 2])
    train_facts = graph.train[(graph.train[:, 0] != one) & (graph.train[:, 2] != one)]
    assert one in seen
    without = type(graph)(graph.name, graph.entities, graph.relations, train_facts, graph.valid, graph.test)
    model = MODELS.build("transe", {"rank": 4}, without.sizes)
    ranks = rank(model, without.asked("test"), without.known, len(without.relations))
    assert len(ranks) == 2 * len(graph.test) and one in ranks.tail.tolist()
    assert (ranks.candidates > 1).all()
    assert without.sizes.entities == len(graph.entities)
