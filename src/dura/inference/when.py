"""When: the times at which a fact may hold, ranked by the score of the fact at each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.times import Times
from dura.inference.answers import HOLE, TEN, Question, TimeAnswer, TimeAnswers, Wanted
from dura.inference.predict import by_names, check_finite
from dura.inference.score import score_facts
from dura.models import Model
from dura.types import BadInput, IntArray


def when(model: Model, graph: Graph, questions: Sequence[Question], wanted: Wanted = TEN) -> list[TimeAnswers]:
    """The best times for each question (head, relation, tail, ?).

    Times at which the fact is known in any split (all times of an interval) are left out unless known ones are wanted.
    """
    return [_times(model, graph, question, wanted) for question in questions]


def check(graph: Graph, question: Question, wanted: Wanted) -> tuple[Times, tuple[int, int, int]]:
    """The times of the graph and the ids of the fact, or an error if it cannot be asked when this fact holds."""
    if graph.times is None:
        raise BadInput("the facts of this graph have no times, so it cannot be asked when a fact holds")
    if not question.when:
        raise BadInput(f"{question} asks for an entity; `predict` answers it")
    if wanted.restricted:
        raise BadInput(
            f"{question} asks for a time, but only entities can be restricted (--among, --type, --in-range, --min-probability, "
            "--coverage)"
        )
    head, tail = graph.entity(str(question.head)), graph.entity(str(question.tail))
    return graph.times, (head, graph.relation(question.relation), tail)


def _times(model: Model, graph: Graph, question: Question, wanted: Wanted) -> TimeAnswers:
    times, fact = check(graph, question, wanted)
    every, scores = _scores(model, times, fact)
    is_known = torch.zeros(len(every), dtype=torch.bool)
    is_known[torch.from_numpy(_known(graph, fact, every.numpy()))] = True
    left = every if wanted.known else (~is_known).nonzero().flatten()
    if graph.reviews is not None:
        refused = _at(graph.reviews.refused, fact, every.numpy())
        left = left[~torch.isin(left, torch.from_numpy(refused))]
    best, at = scores[left].topk(min(wanted.k, len(left)))
    ids = left[at]
    rows = zip(times.names(ids.tolist()), best.tolist(), is_known[ids].tolist(), strict=True)
    answers = tuple(TimeAnswer(name, score, rank, flag) for rank, (name, score, flag) in enumerate(rows, 1))
    named, labels = by_names(graph, question)
    return TimeAnswers(named, answers, labels)


def _known(graph: Graph, fact: tuple[int, int, int], times: IntArray) -> IntArray:
    """The times among these at which the graph holds the fact, or at which people judged it."""
    known = _at(graph.known, fact, times)
    return known if graph.reviews is None else np.concatenate([known, _at(graph.reviews.judged, fact, times)])


def _at(questions: Questions, fact: tuple[int, int, int], times: IntArray) -> IntArray:
    """The times among these at which the fact is among the answers of questions."""
    head, relation, tail = fact
    facts = questions.known(np.full_like(times, head), np.full_like(times, relation), times)
    found: IntArray = facts.question[facts.answers == tail]
    return found


@dataclass(frozen=True)
class Strip:
    """A fact at every time, in the order of time. `share` is that of a time among all times, if scores are logarithms."""

    question: Question
    labels: Mapping[str, str]
    times: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        question = self.question.to_dict() | {f"{part}_label": label for part, label in self.labels.items()}
        return {"question": question, "times": list(self.times)}


def strip(model: Model, graph: Graph, head: str, relation: str, tail: str) -> Strip:
    """The score of a fact at every time, and at which times it is known."""
    question = Question(head, relation, tail, HOLE)
    times, fact = check(graph, question, TEN)
    every, scores = _scores(model, times, fact)
    known = np.zeros(len(every), dtype=bool)
    known[_known(graph, fact, every.numpy())] = True
    shares = torch.softmax(scores.double(), 0).tolist()
    rows = zip(times.names(every.tolist()), scores.tolist(), shares, known.tolist(), strict=True)
    named, labels = by_names(graph, question)
    found = tuple({"time": time, "score": score, "share": share, "known": flag} for time, score, share, flag in rows)
    return Strip(named, labels, found)


def _scores(model: Model, times: Times, fact: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """The ids of all times without "no time", and the score of the fact at each."""
    every = torch.arange(len(times.positions))
    head, relation, tail = (torch.full_like(every, i) for i in fact)
    scores = score_facts(model, head, relation, tail, every)
    check_finite(scores)
    return every, scores
