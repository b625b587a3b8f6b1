"""When: the times at which a fact may hold, ranked by the score of the fact at each time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from dura.data.graph import Graph
from dura.data.times import Times
from dura.inference.answers import Question, TimeAnswer, TimeAnswers
from dura.inference.predict import by_names, check_count, check_finite
from dura.inference.score import score_facts
from dura.models import Model
from dura.types import BadInput, IntArray


def when(
    model: Model, graph: Graph, questions: Sequence[Question], k: int = 10, *, known: bool = False
) -> list[TimeAnswers]:
    """The `k` best times for each question (head, relation, tail, ?).

    Times at which the fact is known in any split (all times of an interval) are left out unless `known` is true.
    """
    check_count(k)
    if graph.times is None:
        raise BadInput("the facts of this graph have no times, so it cannot be asked when a fact holds")
    return [_times(model, graph, graph.times, question, k, known) for question in questions]


def _times(model: Model, graph: Graph, times: Times, question: Question, k: int, known: bool) -> TimeAnswers:
    if not question.when:
        raise BadInput(f"{question} asks for an entity; `predict` answers it")
    fact = (
        graph.entity(str(question.head)),
        graph.relation(question.relation),
        graph.entity(str(question.tail)),
    )
    every = torch.arange(len(times.positions))  # without "no time"
    head, relation, tail = (torch.full_like(every, i) for i in fact)
    scores = score_facts(model, head, relation, tail, every)
    check_finite(scores)
    is_known = torch.zeros(len(every), dtype=torch.bool)
    is_known[torch.from_numpy(_known(graph, fact, every.numpy()))] = True
    left = every if known else (~is_known).nonzero().flatten()
    best, at = scores[left].topk(min(k, len(left)))
    ids = left[at]
    rows = zip(times.names(ids.tolist()), best.tolist(), is_known[ids].tolist(), strict=True)
    answers = tuple(TimeAnswer(name, score, rank, flag) for rank, (name, score, flag) in enumerate(rows, 1))
    named, labels = by_names(graph, question)
    return TimeAnswers(named, answers, labels)


def _known(graph: Graph, fact: tuple[int, int, int], times: IntArray) -> IntArray:
    """The times among these at which the graph holds the fact."""
    head, relation, tail = fact
    facts = graph.known.known(np.full_like(times, head), np.full_like(times, relation), times)
    found: IntArray = facts.question[facts.answers == tail]
    return found
