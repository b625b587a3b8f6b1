"""Observing: what a model scores for the questions of valid and test, as `calibrating` and `reliability` look at it.

Test is asked as a user asks: each question once, without the answers of train and valid. Valid is asked fact by fact: each fact in
turn is taken for missing, without the answers of train and the other facts of valid. So fitting never sees which facts are in test.
And both look alike: apart from the missing fact itself, the answers that the graph does not know yet are those of test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions, reciprocal
from dura.inference.calibration import totals
from dura.inference.predict import check_finite
from dura.inference.score import score_facts
from dura.models import Model
from dura.types import FloatArray, IntArray, Split

Progress = Callable[[int, int], None]
BLOCK_BYTES = 2 * 2**20
"""Room for a block of scores. Small blocks stay near the processor, and the heap does not grow with each of them."""
TOP = 20
"""How many of the best new answers of a question are looked at."""
DEEPER = 20
"""How many of the answers below these, if a question has many true answers: one from each of as many layers."""
DEPTH = 4
"""How deep that goes: this many times the number of true answers that the question is expected to have."""
MOST = 40_000
"""The most questions of a split that are looked at. Of more, a random sample."""


@dataclass(frozen=True)
class Observed:
    """The questions of a split, the best new answers of each, and every true new answer. `q` questions, `k` answers, `f` truths."""

    relation: IntArray
    """[q], with r + |R| if the head is asked."""
    known: IntArray
    """How many answers are known from the splits before [q]."""
    total: FloatArray
    """The log of the sum of exp(score / temperature) over all new answers [q]."""
    scores: FloatArray
    """The scores of the best new answers [q, k], best first; -inf if there are fewer. See `Deeper` for those after `TOP`."""
    true: NDArray[np.bool_]
    """Which of these answers are facts of the split [q, k]."""
    stands: FloatArray
    """For how many answers each of these stands [q, k]."""
    across: IntArray
    """How many answers are known to the other question of each of these answers [q, k]: that for which the answer is given."""
    question: IntArray
    """The question of each true new answer, also of those that are not among the best [f]."""
    truth: FloatArray
    """The score of each true new answer [f]."""
    plain: FloatArray
    """As `total`, at the temperature 1 [q]: what the model says before calibration."""
    others: IntArray
    """How many other answers of the split each question has [q]."""
    sizes: IntArray
    """How many new answers score at least as high as each of the thresholds that `observe` was given [q, thresholds]."""


class Asked(NamedTuple):
    """Questions of a split."""

    questions: Questions
    """With their answers in the split."""
    known: Questions
    """The same questions with their known answers."""
    others: IntArray
    """How many other answers of the split each has."""
    before: Questions
    """All facts of train and valid."""
    own: int
    """1 if the answers themselves are among these facts, else 0."""
    relations: int
    """How many relations the graph has."""

    def across(self, block: Questions, entity: IntArray, true: NDArray[np.bool_]) -> IntArray:
        """How many answers are known to the other question of each answer [m, k]. The missing fact itself is not known."""
        width = entity.shape[1]
        other = np.repeat((block.relation + self.relations) % (2 * self.relations), width)
        time = None if block.time is None else np.repeat(block.time, width)
        counts: IntArray = self.before.counted(entity.ravel(), other, time).reshape(entity.shape) - self.own * true
        return counts


def questions_of_valid(graph: Graph, most: int, seed: int = 0) -> Asked:
    """Questions with one missing valid fact each, their known answers, and how many other valid answers each has."""
    relations = len(graph.relations)
    every = Questions.of(graph.asked("valid"), relations=relations)
    others = np.repeat(every.counts - 1, every.counts)
    chosen = _sample(every.facts, most, seed)
    questions = every.one_by_one().take(chosen)
    before = _before_test(graph)
    known = before.known(questions.head, questions.relation, questions.time)
    known = known.only(known.answers != questions.answers[known.question])
    return Asked(questions, known, others[chosen], before, 1, relations)


def questions_of_test(graph: Graph, most: int, seed: int = 0) -> Asked:
    """The distinct questions of test with all their answers, their known answers, and how many others of each are in test."""
    every = Questions.of(graph.asked("test"), relations=len(graph.relations))
    questions = every.take(_sample(len(every), most, seed))
    before = _before_test(graph)
    known = before.known(questions.head, questions.relation, questions.time)
    return Asked(questions, known, questions.counts - 1, before, 0, len(graph.relations))


def _sample(count: int, most: int, seed: int) -> IntArray:
    """At most this many of these places, in order: neighbours share their head."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, 19]).choice(count, most, replace=False))


def _before_test(graph: Graph) -> Questions:
    facts = np.concatenate([graph.train, graph.valid])
    return Questions.of(graph.at_all_times(facts), relations=len(graph.relations))


def observe(
    model: Model,
    asked: Asked,
    temperature: float,
    *,
    thresholds: Callable[[IntArray, IntArray, FloatArray], FloatArray] | None = None,
    depth: IntArray | None = None,
    progress: Progress | None = None,
) -> Observed:
    """Score questions of `questions_of_valid` or `questions_of_test` and keep what calibration needs of each.

    `thresholds` gets relation, known and total of a block and gives the scores [q, thresholds] from which on answers are counted.
    `depth` [q] is how many of the best answers each question of valid is to be judged by; by default, and at least, `TOP`.
    """
    questions, known = asked.questions, asked.known
    seen = Columns(max(len(questions), questions.facts))
    for at, block, scores in blocks(model, questions, known):
        at_question, answer = torch.from_numpy(block.question), torch.from_numpy(block.answers.astype(np.int64))
        true = torch.zeros_like(scores, dtype=torch.bool)
        true[at_question, answer] = True
        best, entity = scores.topk(min(TOP, scores.shape[1]), dim=1)
        stands = torch.ones_like(best)
        if depth is not None:
            own = answer, torch.from_numpy(depth[at : at + len(block)])
            below = Deeper.of(scores, *(column.to(scores.device) for column in own))
            best, entity, stands = (torch.cat(pair, 1) for pair in zip((best, entity, stands), below, strict=True))
        truth = scores[at_question, answer]
        new = torch.isfinite(truth)
        total = totals(scores, temperature)
        least = torch.zeros(len(block), 0)
        if thresholds is not None:
            given = (block.relation, known.counts[at : at + len(block)], total.cpu().numpy())
            least = torch.from_numpy(thresholds(*given)).to(scores)
        sizes = torch.stack([(scores >= one[:, None]).sum(dim=1) for one in least.unbind(1)] or [least], dim=-1)
        found_true = true.gather(1, entity)
        across = torch.from_numpy(asked.across(block, entity.cpu().numpy(), found_true.cpu().numpy()))
        seen.add(total=total, scores=best.double(), true=found_true, across=across, plain=totals(scores, 1.0))
        seen.add(stands=stands.double())
        seen.add(question=at_question[new] + at, truth=truth[new].double(), sizes=sizes.reshape(len(block), -1))
        if progress is not None:
            progress(at + len(block), len(questions))
    return Observed(relation=questions.relation, known=known.counts, others=asked.others, **seen.filled())


class Deeper(NamedTuple):
    """Answers below the best `TOP`, for questions with one true answer each: `DEEPER` of them and the true one.

    Without them a question with hundreds of true answers would be judged by its best ones, which are nearly all true.
    """

    scores: Tensor
    """[m, k]; -inf where there is none."""
    entity: Tensor
    stands: Tensor
    """The size of the layer that an answer was taken from; 1 for the true answer."""

    @classmethod
    def of(cls, scores: Tensor, true: Tensor, depth: Tensor) -> Deeper:
        """Divide the places from `TOP` to `depth` [m] into layers that grow with the place, and take the middle of each."""
        depth = depth.clamp(min=TOP, max=max(TOP, scores.shape[1]))
        found = cls(
            scores.new_full((len(scores), DEEPER + 1), -math.inf),
            true[:, None].repeat(1, DEEPER + 1),
            scores.new_ones((len(scores), DEEPER + 1)),
        )
        rows = torch.nonzero(depth > TOP)[:, 0]
        if len(rows):
            own, truth = scores[rows], true[rows]
            best, entity = own.topk(int(depth[rows].max()), dim=1)
            steps = torch.arange(DEEPER + 1, device=scores.device) / DEEPER
            edges = (TOP * (depth[rows, None] / TOP) ** steps).round().long()
            size = edges.diff(dim=1)
            middle = (edges[:, :-1] + size // 2).clamp(max=best.shape[1] - 1)
            taken, those = best.gather(1, middle), entity.gather(1, middle)
            taken = taken.masked_fill((size == 0) | (those == truth[:, None]), -math.inf)
            value = own.gather(1, truth[:, None])
            place = (own > value).sum(dim=1, keepdim=True)
            value = value.masked_fill((place < TOP) | (place >= depth[rows, None]), -math.inf)
            found.scores[rows] = torch.cat([taken, value], 1)
            found.entity[rows] = torch.cat([those, truth[:, None]], 1)
            found.stands[rows] = torch.cat([size.clamp(min=1), torch.ones_like(truth[:, None])], 1).to(scores)
        return found


class Columns:
    """Columns that are filled block by block, with room for `rows` rows.

    They get their room at once. Small pieces that are kept between large blocks would scatter the heap, which then grows with
    every block.
    """

    def __init__(self, rows: int) -> None:
        self._rows, self._room, self._used = rows, dict[str, NDArray[Any]](), dict[str, int]()

    def add(self, **parts: Tensor) -> None:
        """Append to columns by name."""
        for name, part in parts.items():
            values, at = part.cpu().numpy(), self._used.get(name, 0)
            if name not in self._room:
                self._room[name] = np.empty((self._rows, *values.shape[1:]), values.dtype)
            self._used[name] = at + len(values)
            self._room[name][at : self._used[name]] = values

    def filled(self) -> dict[str, NDArray[Any]]:
        """What was added."""
        return {name: room[: self._used[name]] for name, room in self._room.items()}


def blocks(model: Model, questions: Questions, known: Questions) -> Iterator[tuple[int, Questions, Tensor]]:
    """Blocks of questions with the place of the first one and the scores of all entities, -inf for known answers."""
    size = max(1, BLOCK_BYTES // (model.dtype.itemsize * model.sizes.entities))
    with model.answering():
        for at in range(0, len(questions), size):
            index = np.arange(at, min(at + size, len(questions)))
            block, facts = questions.take(index), known.take(index)
            asked = (block.head, block.relation, block.time)
            ids = [None if c is None else torch.from_numpy(c.astype(np.int64)).to(model.device) for c in asked]
            assert ids[0] is not None and ids[1] is not None
            scores = model.score_all(ids[0], ids[1], ids[2])
            check_finite(scores)
            answers = torch.from_numpy(facts.answers.astype(np.int64))
            scores[torch.from_numpy(facts.question).to(scores.device), answers.to(scores.device)] = -math.inf
            yield at, block, scores.float() if scores.element_size() < 4 else scores


@dataclass(frozen=True)
class Pairs:
    """Facts of a split and random alternatives of each, one for each fact."""

    relation: IntArray
    scores: FloatArray
    true: NDArray[np.bool_]
    known: IntArray
    """How many other answers train and valid have to the question for the tail."""
    others: IntArray
    """The same for the head."""


def pairs(model: Model, graph: Graph, split: Split, *, most: int = MOST, seed: int = 0) -> Pairs:
    """The scores of facts of a split, and of the same facts with a random other tail or head that makes no known fact."""
    rng = np.random.default_rng([seed, 7])
    facts = graph.asked(split).astype(np.int64)
    if len(facts) > most:
        facts = facts[rng.choice(len(facts), most, replace=False)]
    others = facts.copy()
    side = np.where(rng.random(len(facts)) < 0.5, 0, 2)
    others[np.arange(len(facts)), side] = rng.integers(graph.sizes.entities, size=len(facts))
    before = _before_test(graph)
    new = ~_is_known(before, others) & (others != facts).any(axis=1)
    every = np.concatenate([facts, others[new]])
    scores = score_facts(model, *(torch.from_numpy(column.copy()) for column in every.T))
    # A fact of valid is taken for missing: it is no known answer to its own questions, nor to the one that its alternative shares.
    own = _is_known(before, facts)
    shared = (np.concatenate([own, (own & (side == changed))[new]]) for changed in (2, 0))
    counts = (
        before.counted(asked[:, 0], asked[:, 1], asked[:, 3] if asked.shape[1] > 3 else None) - missing
        for asked, missing in zip((every, reciprocal(every, len(graph.relations))), shared, strict=True)
    )
    return Pairs(every[:, 1], scores.double().numpy(), np.arange(len(every)) < len(facts), *counts)


def _is_known(known: Questions, facts: IntArray) -> NDArray[np.bool_]:
    found = known.known(facts[:, 0], facts[:, 1], facts[:, 3] if facts.shape[1] > 3 else None)
    hits = np.zeros(len(facts), dtype=bool)
    hits[found.question[found.answers == facts[found.question, 2]]] = True
    return hits
