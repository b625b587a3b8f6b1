"""Calibrating: fit a `Calibration` on the valid facts. docs/explanation/probability.md says what is fitted and what it assumes.

No test fact is used here, not even to leave it out. The fits are scikit-learn's; what they find is stored as plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dura.data.categories import relation_categories
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.inference.calibration import (
    LEVELS,
    LOWEST,
    Calibration,
    Scale,
    Sets,
    against_others,
    functional,
    share_logits,
    totals,
)
from dura.inference.logistic import logistic
from dura.inference.observing import (
    DEPTH,
    MOST,
    Columns,
    Observed,
    Pairs,
    Progress,
    blocks,
    observe,
    pairs,
    questions_of_valid,
)
from dura.models import Model
from dura.types import BadInput, DuraError, FloatArray, IntArray

ENOUGH = 30
"""A relation (or a category) has its own probabilities if this many of its valid answers or facts were seen."""
ENOUGH_FOR_SETS = 100
"""A relation has its own answer sets if it has this many valid facts. A set of coverage c needs 1 / (1 - c) of them."""
SAMPLE, RANDOM = 1000, 2000
"""How many valid questions decide about the temperature, and how many random questions of each kind are drawn."""
ALL = "all relations"


def calibrate(model: Model, graph: Graph, *, checkpoint: str = "", progress: Progress | None = None) -> Calibration:
    """Fit the probabilities of answers, facts and questions on the valid facts of a graph."""
    if not len(graph.valid):
        raise BadInput(
            "this run has no valid facts, and probabilities are fitted on them; train it with some, such as --valid-share 0.1"
        )
    _library()
    temperature = fit_temperature(model, graph)
    asked_of_valid = questions_of_valid(graph, MOST)
    expected = 1 + asked_of_valid.others * (1 + len(graph.test) / len(graph.valid))  # of true answers
    depth = np.ceil(DEPTH * expected).astype(np.int64)
    seen = observe(model, asked_of_valid, temperature, depth=depth, progress=progress)
    if not len(seen.truth):
        raise BadInput("every valid fact of this run is also a train fact, so nothing can be fitted on them")
    second, first, asked = _of_train(graph)
    single = functional(second, first)
    weights, answers, levels = _fit_answers(graph, seen, temperature, single)
    fact_weights, facts = _fit_facts(graph, pairs(model, graph, "valid"), single)
    return Calibration(
        temperature=temperature,
        answer_weights=weights,
        answers=answers,
        sets=_fit_sets(graph, seen, levels),
        second=second.tolist(),
        first=first.tolist(),
        fact_weights=fact_weights,
        facts=facts,
        question_weights=_fit_questions(model, graph, seen, temperature, asked),
        asked=asked,
        checkpoint=checkpoint,
        counts={"questions": len(seen.relation), "answers": len(seen.truth), "groups": len(answers.names)},
    )


def _library() -> None:
    try:
        import sklearn  # type: ignore[import-untyped] # noqa: F401
    except ImportError:
        raise DuraError("calibration needs scikit-learn: pip install 'dura-kge[studies]'") from None


def fit_temperature(model: Model, graph: Graph) -> float:
    """The temperature at which the shares of the valid answers are largest (in the mean of their logs)."""
    questions, known, *_ = questions_of_valid(graph, SAMPLE)
    unit = 0.0
    grid = np.geomspace(0.02, 20, 25)
    logs, facts = np.zeros(len(grid)), 0
    for _, block, scores in blocks(model, questions, known):
        # The scores of one model may be a thousand times those of another, so temperatures are in units of their spread.
        unit = unit or float(scores[torch.isfinite(scores)].std()) or 1.0
        truth = scores[torch.from_numpy(block.question), torch.from_numpy(block.answers.astype(np.int64))].double()
        new = torch.isfinite(truth)
        for i, t in enumerate(grid * unit):
            logs[i] += float((truth / t - totals(scores, t)[torch.from_numpy(block.question)])[new].sum())
        facts += int(new.sum())
    return float(_peak(np.log(grid), logs) * unit)


def _peak(x: FloatArray, y: FloatArray) -> float:
    """exp of the place of the maximum, by a parabola through the largest value and its neighbours."""
    i = int(np.clip(y.argmax(), 1, len(y) - 2))
    left, middle, right = y[i - 1 : i + 2]
    bend = left - 2 * middle + right
    moved = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(np.exp(x[i] + np.clip(moved, -1, 1) * (x[1] - x[0])))


def _fit_answers(
    graph: Graph, seen: Observed, temperature: float, single: NDArray[np.bool_]
) -> tuple[list[float], Scale, FloatArray]:
    """The weights for all relations, the maps of groups, and the level of each true answer.

    Answers that contradict what is known about themselves have a rule of their own, and do not lower the others.
    """
    counted = np.log1p(seen.known.astype(np.float64))
    there = np.isfinite(seen.scores) & ~against_others(single, seen.relation, seen.across)
    relation = np.broadcast_to(seen.relation[:, None], there.shape)[there]

    def columns(scores: FloatArray, at: IntArray | slice = slice(None)) -> NDArray[Any]:
        logit = share_logits(scores / temperature, seen.total[at])
        return np.stack([logit, np.broadcast_to(counted[at][:, None], logit.shape)], axis=-1)

    x, y = columns(np.where(there, seen.scores, 0.0))[there], seen.true[there]
    hidden = np.broadcast_to(_hidden(graph, seen)[:, None], there.shape)[there]
    each = (seen.stands / (1 + seen.others)[:, None])[there]
    weights = logistic(x, y, weight=each, hidden=hidden, slopes=(0,))
    scale = _scale(graph, relation, weights[0] + x @ np.array(weights[1:]), y, each, hidden)
    levels = weights[0] + columns(seen.truth[:, None], seen.question)[:, 0] @ np.array(weights[1:])
    return weights, scale, levels


def _hidden(graph: Graph, seen: Observed) -> FloatArray:
    """For each question of valid [q]: how many test facts are expected among its new answers.

    These are true answers that look false here. Valid and test facts were drawn alike, so there are as many as a question of valid
    has other valid facts, times the size of test next to valid. One question is a small sample: its number is moved towards the
    mean of its group, the more so the less the numbers of the group differ beyond chance (more than Poisson numbers do).
    """
    ratio = len(graph.test) / len(graph.valid)
    of, _, rows = _groups(graph, seen.relation, np.ones(len(seen.relation), dtype=bool), ENOUGH)
    mean, own = np.zeros(len(rows)), np.zeros(len(rows))
    for i, row in enumerate(rows):
        others = seen.others[row]
        each = 1.0 / (1 + others)  # a question with several valid facts is asked for each of them; here it counts once
        mean[i] = np.average(others, weights=each)
        spread = np.average((others - mean[i]) ** 2, weights=each)
        own[i] = max(0.0, spread - mean[i]) / spread if spread else 0.0
    group = np.asarray(of)[seen.relation]
    expected: FloatArray = ratio * (mean[group] + own[group] * (seen.others - mean[group]))
    return expected


def _fit_facts(graph: Graph, seen: Pairs, single: NDArray[np.bool_]) -> tuple[list[float], Scale]:
    half = len(graph.relations)
    # As for answers, facts that contradict a known one have a rule of their own.
    keep = ~(single[seen.relation] & (seen.known > 0)) & ~(single[seen.relation + half] & (seen.others > 0))
    keep |= not seen.true[keep].any()
    relation, scores, true = seen.relation[keep], seen.scores[keep], seen.true[keep]
    weights = logistic(scores[:, None], true, slopes=(0,))
    # A fact is scored in one direction only, so the reciprocal relations share the maps of the relations.
    scale = _scale(graph, relation, weights[0] + weights[1] * scores, true)
    return weights, Scale(scale.of[:half] * 2, scale.names, scale.a, scale.b)


def _fit_questions(model: Model, graph: Graph, seen: Observed, temperature: float, asked: list[int]) -> list[float]:
    """Weights of the logistic model that tells questions of valid from random ones, weighted to the number of all questions."""
    parts = [(seen.relation, seen.known, seen.total, 1.0 / (1 + seen.others), True)]
    for questions, each in random_questions(graph):
        known = graph.training_facts.known(questions.head, questions.relation, questions.time)
        sums = Columns(len(questions))
        for _, _, scores in blocks(model, questions, known):
            sums.add(total=totals(scores, temperature))
        total = sums.filled()["total"]
        parts.append((questions.relation, known.counts, total, np.full(len(questions), each), False))
    relation, known_counts, total, weight = (np.concatenate([part[i] for part in parts]) for i in range(4))
    y = np.repeat([part[4] for part in parts], [len(part[0]) for part in parts])
    counted = known_counts.astype(np.float64)
    x = np.stack([total, np.log1p(counted), counted > 0, np.log1p(np.asarray(asked)[relation])], axis=1)
    return logistic(x, y, weight=weight)


def random_questions(graph: Graph, seed: int = 0) -> Iterator[tuple[Questions, float]]:
    """Random questions without those of valid: some with an answer in train, then some without; each with its weight.

    The weight says for how many questions each stands.
    """
    rng = np.random.default_rng([seed, 3])
    known, sizes = graph.training_facts, graph.sizes
    asked = Questions.of(graph.asked("valid"), relations=sizes.relations)
    drawn = known.take(rng.integers(len(known), size=RANDOM))
    head, relation = rng.integers(sizes.entities, size=RANDOM), rng.integers(2 * sizes.relations, size=RANDOM)
    time = rng.integers(sizes.times, size=RANDOM) if sizes.times else None
    others = np.flatnonzero(known.find(head, relation, time) < 0)
    offsets, none = np.zeros(RANDOM + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    every = sizes.entities * 2 * sizes.relations * max(1, sizes.times)
    for questions, count in ((drawn, len(known)), (Questions(head, relation, offsets, none, time).take(others), every)):
        new = np.flatnonzero(asked.find(questions.head, questions.relation, questions.time) < 0)
        if len(new):
            yield questions.take(new), count / RANDOM


def _fit_sets(graph: Graph, seen: Observed, levels: FloatArray) -> Sets:
    """The level that a share of LEVELS of the true answers reaches, in each group with enough of them."""
    relation = seen.relation[seen.question]
    of, names, rows = _groups(graph, relation, np.ones(len(relation), dtype=bool), ENOUGH_FOR_SETS)
    return Sets(of, names, [_quantiles(levels[row]) for row in rows])


def _quantiles(levels: FloatArray) -> list[float]:
    """The conformal thresholds: of n + 1 exchangeable answers, at least the asked share is at or above each.

    >>> _quantiles(np.arange(99.0))[LEVELS.index(0.9)]
    9.0
    """
    ordered = np.sort(levels)
    places = [int(np.floor((len(ordered) + 1) * (1 - level) + 1e-9)) for level in LEVELS]
    return [float(ordered[place - 1]) if place else LOWEST for place in places]


def _of_train(graph: Graph) -> tuple[FloatArray, FloatArray, list[int]]:
    """For each relation and direction: the share of train questions with a second answer (one added), the share of the questions
    of its entities that have an answer, over all times, and the number of train questions.
    """
    questions, relations = graph.training_facts, 2 * len(graph.relations)
    asked = np.bincount(questions.relation, minlength=relations)
    several = np.bincount(questions.relation[questions.counts > 1], minlength=relations)
    heads = np.unique(np.stack([questions.relation, questions.head]), axis=1)[0]
    possible = np.bincount(heads, minlength=relations) * max(1, graph.sizes.times)
    return (several + 1) / (asked + 2), asked / np.maximum(1, possible), asked.tolist()


def _scale(
    graph: Graph,
    relation: IntArray,
    z: FloatArray,
    true: NDArray[np.bool_],
    weight: FloatArray | None = None,
    hidden: FloatArray | None = None,
) -> Scale:
    """A logistic map of z for each group with enough true examples, and no change (a = 0, b = 1) for the rest."""
    of, names, rows = _groups(graph, relation, true, ENOUGH)
    maps = [[0.0, 1.0]]
    for row in rows[1:]:
        own = [None if column is None else column[row] for column in (weight, hidden)]
        maps.append(logistic(z[row][:, None], true[row], weight=own[0], hidden=own[1], slopes=(0,)))
    return Scale(of, names, [a for a, _ in maps], [b for _, b in maps])


def _groups(
    graph: Graph, relation: IntArray, true: NDArray[np.bool_], enough: int
) -> tuple[list[int], list[str], list[IntArray]]:
    """The group of each relation and direction, the names of groups, and the places of the examples of each.

    The groups are, in this order: all relations; the relations of a category asked in one direction; one relation in one direction.
    A relation is in the last group with enough true examples.
    """
    half = len(graph.relations)
    category = relation_categories(graph.train, half)
    kinds = np.concatenate([np.char.add(category, ", tails"), np.char.add(category, ", heads")])
    rows: list[IntArray] = [np.arange(len(relation))]
    of, names = np.zeros(2 * half, dtype=np.int64), [ALL]
    for kind in np.unique(kinds):
        found = np.flatnonzero(kinds[relation] == kind)
        if true[found].sum() >= enough:
            of[kinds == kind] = len(names)
            names.append(str(kind))
            rows.append(found)
    order = np.argsort(relation, kind="stable")
    edges = np.searchsorted(relation[order], np.arange(2 * half + 1))
    for number in range(2 * half):
        found = order[edges[number] : edges[number + 1]]
        if true[found].sum() >= enough:
            of[number] = len(names)
            names.append(f"{graph.relations.name(number % half)}, {'heads' if number >= half else 'tails'}")
            rows.append(found)
    return of.tolist(), names, rows
