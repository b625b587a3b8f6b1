"""Adaptive: fit the weights of StAR's self-adaptive combination of two models.

They are fitted with a hinge loss: a fact must score higher by a margin than answers that both models like but that are not known.
They are fitted on valid facts by default, because both models know the training facts by heart. Test facts are never used to
choose or to filter these answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions, reciprocal
from dura.models.combined import Adaptive, mixed
from dura.types import BadInput, IntArray

MOST_FACTS = 10_000
"""The weights are few, so this many facts are enough to fit them."""
BLOCK = 2**22
"""How many scores of one model are in memory at a time."""
Bar = Callable[[int, int], None]


@dataclass(frozen=True)
class Fitting:
    """How the weights of an adaptive combination are fitted: the settings of StAR's authors, but for `split`."""

    split: Literal["train", "valid"] = "valid"
    best: int = 1000
    margin: float = 0.6
    negatives: int = 5
    lr: float = 1e-3
    epochs: int = 3
    batch: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Examples:
    """What the mixture sees of each question of a fact."""

    ends: Tensor
    ambiguity: Tensor
    scores: Tensor
    """[n, 2, 1 + negatives · epochs]: both models' scores of the answer, then of the negatives."""
    alone: Tensor
    """[n, 1 + negatives · epochs]: 1 where α is 1."""
    side: Tensor
    """0 if the tail was asked, 1 if the head was."""


def fit_adaptive(model: Adaptive, graph: Graph, fitting: Fitting, progress: Bar = lambda *_: None) -> None:
    """Train the weights of the mixture with Adam."""
    with model.answering():
        seen = examples(model, graph, fitting, progress)
    rng, rule = torch.Generator().manual_seed(fitting.seed), torch.optim.Adam([model.weights], lr=fitting.lr)
    for epoch in range(fitting.epochs):
        own = slice(1 + epoch * fitting.negatives, 1 + (epoch + 1) * fitting.negatives)
        for part in torch.randperm(len(seen.side), generator=rng).split(fitting.batch):
            one, two = seen.scores[part].unbind(1)
            known = model.own(seen.side[part], seen.ends[part], seen.ambiguity[part])
            scores = mixed(known[:, None], one, two, seen.alone[part])
            loss = (fitting.margin - scores[:, :1] + scores[:, own]).clamp(min=0).mean()
            rule.zero_grad()
            loss.backward()
            rule.step()


def examples(model: Adaptive, graph: Graph, fitting: Fitting, progress: Bar = lambda *_: None) -> Examples:
    """Facts of the split from both sides, each with negatives for every epoch."""
    asked = questions_to_fit(graph, fitting.split, fitting.seed, MOST_FACTS)
    known = Questions.of(graph.asked("train"), graph.asked("valid"), relations=len(graph.relations))
    drawing = torch.Generator().manual_seed(fitting.seed)
    size, parts = max(1, BLOCK // model.sizes.entities), []
    for at in range(0, len(asked), size):
        parts.append(_examples(model, asked[at : at + size], known, fitting, drawing))
        progress(min(at + size, len(asked)), len(asked))
    columns = (torch.cat([getattr(part, name) for part in parts]) for name in Examples.__dataclass_fields__)
    return Examples(*columns)


def questions_to_fit(graph: Graph, split: Literal["train", "valid"], seed: int, most: int) -> IntArray:
    """At most this many facts of a split, drawn from a seed: the tails of all of them, then the heads as reciprocal facts."""
    facts = graph.asked(split)
    if not len(facts):
        raise BadInput(f"the {split} split of the graph {graph.name!r} holds no facts to fit a combination on")
    facts = facts[np.random.default_rng(seed).permutation(len(facts))[:most]]
    return np.concatenate([facts, reciprocal(facts, len(graph.relations))])


def _examples(
    model: Adaptive, asked: IntArray, known: Questions, fitting: Fitting, drawing: torch.Generator
) -> Examples:
    head, relation, answer = (torch.from_numpy(asked[:, column].astype(np.int64)) for column in range(3))
    one, two = (member.score_all(head, relation) for member in model.models)
    ends = model.ends(one, two)
    liked = (one - ends[:, :1]) * ends[:, 1:2] + (two - ends[:, 2:3]) * ends[:, 3:4]
    answers = known.known(asked[:, 0], asked[:, 1])
    liked[torch.from_numpy(answers.question), torch.from_numpy(answers.answers).long()] = -torch.inf
    best = liked.topk(min(model.best, liked.shape[1]), dim=1)
    there = best.values.isfinite().sum(1, keepdim=True)
    points = torch.rand(len(asked), fitting.negatives * fitting.epochs, generator=drawing)
    ids = torch.cat([answer[:, None], best.indices.gather(1, (points * there).long())], 1)
    scores = torch.stack([one.gather(1, ids), two.gather(1, ids)], 1)
    alone = torch.maximum(model.alone[ids], model.alone[head][:, None])
    return Examples(ends, model.ambiguity(one), scores, alone, (relation >= model.sizes.relations).long())
