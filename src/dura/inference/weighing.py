"""Weighing: fit how much each member of a combination counts for each relation, on valid facts.

The scores of a member are divided by their spread, so that members of different kinds start alike. Then weights are fitted by
cross entropy: first those of all relations together, then those of each relation and direction, which a ridge holds near the
common ones. A relation with few facts stays near them, and one without facts has them. The ridge is the one whose weights, fitted
on one half of the facts, rank the other half best. No test fact is used, not even to leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.inference.adaptive import BLOCK, MOST_FACTS, Bar, questions_to_fit
from dura.models import Model
from dura.models.combined import scores_of
from dura.types import IntArray

BEST = 50
"""How many of the best wrong answers of each member an answer is compared with."""
RIDGES = (math.inf, 100.0, 30.0, 10.0, 3.0, 1.0)
"""What is tried, the most careful first. Infinite: all relations have the same weights."""
STEPS = 60
"""Of L-BFGS at most."""
LARGEST = 12.0
"""The most that the logarithm of a weight may be, up or down."""


@dataclass(frozen=True)
class Weights:
    """What was fitted."""

    weights: Tensor
    """[2|R|, members], for the divided scores."""
    scales: Tensor
    """[members]: the spread of each member's scores."""
    common: list[float]
    """The weights of a relation without facts."""
    ridge: float
    facts: int
    """How many answers were seen, tails and heads."""


@dataclass(frozen=True)
class Seen:
    """What is known of each answer [n]."""

    relation: Tensor
    """[n]: that of the question, reciprocal if the head was asked."""
    ahead: Tensor
    """[n, c, members]: by how much each rival scores higher than the answer; -inf where there is no rival."""


def weigh(
    members: Sequence[Model], graph: Graph, *, seed: int = 0, progress: Bar = lambda *_: None, most: int = MOST_FACTS
) -> Weights:
    """Fit the weights of members on valid facts."""
    seen, scales = observe(members, graph, seed=seed, progress=progress, most=most)
    groups, count = 2 * len(graph.relations), len(members)
    common = _fit(lambda log: _losses(seen, log.expand(len(seen.relation), -1)).mean(), torch.zeros(1, count))
    ridge = _best_ridge(seen, groups, common, seed)
    weights = _of_relations(seen, groups, common, ridge)
    return Weights(weights.exp(), scales, common[0].exp().tolist(), ridge, len(seen.relation))


def even(members: Sequence[Model], graph: Graph, *, seed: int = 0, progress: Bar = lambda *_: None) -> Weights:
    """The same weight for all members and relations; only the spread of their scores is measured."""
    seen, scales = observe(members, graph, seed=seed, progress=progress, most=1000)
    weights = torch.ones(2 * len(graph.relations), len(members))
    return Weights(weights, scales, [1.0] * len(members), math.inf, len(seen.relation))


def observe(
    members: Sequence[Model], graph: Graph, *, seed: int = 0, progress: Bar = lambda *_: None, most: int = MOST_FACTS
) -> tuple[Seen, Tensor]:
    """The rivals of valid answers by each member, divided by the spread of its scores, and these spreads."""
    asked = questions_to_fit(graph, "valid", seed, most)
    asked = asked[np.argsort(asked[:, 1], kind="stable")]  # rules and relation matrices are used for a block at a time
    known = Questions.of(graph.asked("train"), graph.asked("valid"), relations=len(graph.relations))
    size, parts, spread = max(1, BLOCK // len(graph.entities)), [], torch.zeros(len(members), dtype=torch.float64)
    for at in range(0, len(asked), size):
        part = asked[at : at + size]
        with torch.no_grad():
            ahead, spreads = _rivals(members, part, known)
        parts.append(ahead)
        spread += spreads
        progress(min(at + size, len(asked)), len(asked))
    scales = (spread / len(asked)).clamp(min=1e-9).float()
    return Seen(torch.from_numpy(asked[:, 1].astype(np.int64)), torch.cat(parts) / scales), scales


def _rivals(members: Sequence[Model], asked: IntArray, known: Questions) -> tuple[Tensor, Tensor]:
    """By how much the best wrong answers of each member score higher than the answer, and the summed spread of scores."""
    head, relation, answer = (torch.from_numpy(asked[:, column].astype(np.int64)) for column in range(3))
    time = torch.from_numpy(asked[:, 3].astype(np.int64)) if asked.shape[1] > 3 else None
    answers = known.known(asked[:, 0], asked[:, 1], *([asked[:, 3]] if asked.shape[1] > 3 else []))
    drop = torch.from_numpy(answers.question), torch.from_numpy(answers.answers).long()
    scores, best = [], []
    for member in members:
        with member.answering():
            own = scores_of(member, head, relation, time).float()
        scores.append(own)
        rivals = own.index_put(drop, torch.tensor(-math.inf))
        rivals.scatter_(1, answer[:, None], -math.inf)
        best.append(rivals.topk(min(BEST, own.shape[1]), dim=1))
    ids = torch.cat([top.indices for top in best], 1)
    there = torch.cat([top.values.isfinite() for top in best], 1)
    # An entity that several members like is one rival.
    order = ids.argsort(dim=1, stable=True)
    sorted_ids = ids.gather(1, order)
    again = torch.zeros_like(there).scatter(1, order[:, 1:], sorted_ids[:, 1:] == sorted_ids[:, :-1])
    ahead = torch.stack([own.gather(1, ids) - own.gather(1, answer[:, None]) for own in scores], 2)
    spread = torch.stack([own.std(1).double().sum() for own in scores])
    return ahead.masked_fill((again | ~there)[..., None], -math.inf), spread


def _ahead(seen: Seen, logs: Tensor) -> Tensor:
    """By how much each rival is ahead of the answer [n, c], with these weights of each answer [n, members]."""
    there = seen.ahead[..., 0].isfinite()
    by = torch.where(there[..., None], seen.ahead, 0.0)
    return torch.einsum("ncm,nm->nc", by, logs.exp()).masked_fill(~there, -math.inf)


def _losses(seen: Seen, logs: Tensor) -> Tensor:
    """The cross entropy of each answer among its rivals."""
    ahead = _ahead(seen, logs)
    return torch.logsumexp(torch.cat([torch.zeros_like(ahead[:, :1]), ahead], 1), 1)


def _fit(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The logarithms of weights with the least loss."""
    logs = start.clone().requires_grad_()
    rule = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def value() -> float:
        rule.zero_grad()
        found = loss(logs.clamp(-LARGEST, LARGEST))
        found.backward()
        return float(found.detach())

    rule.step(value)
    return logs.detach().clamp(-LARGEST, LARGEST)


def _of_relations(seen: Seen, groups: int, common: Tensor, ridge: float) -> Tensor:
    """The logarithms of the weights of each relation and direction [groups, members]."""
    start = common.expand(groups, -1).clone()
    if ridge == math.inf or not len(seen.relation):
        return start

    def loss(logs: Tensor) -> Tensor:
        return (_losses(seen, logs[seen.relation]).sum() + ridge / 2 * (logs - common).square().sum()) / len(
            seen.relation
        )

    return _fit(loss, start)


def _best_ridge(seen: Seen, groups: int, common: Tensor, seed: int) -> float:
    """The ridge whose weights, fitted on one half, give the other half the best mean reciprocal rank among its rivals."""
    half = torch.from_numpy(np.random.default_rng([seed, 1]).permutation(len(seen.relation)) % 2)
    found = []
    for ridge in RIDGES:
        total = 0.0
        for fold in (0, 1):
            own, others = (Seen(seen.relation[half == f], seen.ahead[half == f]) for f in (fold, 1 - fold))
            logs = _of_relations(own, groups, common, ridge)
            ranks = 1 + (_ahead(others, logs[others.relation]) > 0).sum(1)
            total += float((1 / ranks).sum())
        found.append(total)
    return RIDGES[int(np.argmax(found))]
