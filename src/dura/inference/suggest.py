"""Suggest: the best missing facts of one entity, for each relation that makes sense for it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.inference.answers import Answers, Question
from dura.inference.neighbours import neighbours
from dura.inference.predict import BLOCK, Asker, check_finite, time_id
from dura.models import Model
from dura.types import BadInput, IntArray, Side

NEAR, SHARED = 20, 4
"""How many similar entities are looked at, and how many of them must have a relation that the entity itself does not have."""
MOST_ASKED = 128
"""At most this many relations and sides are asked for."""


@dataclass(frozen=True)
class Suggestion:
    """The best missing answers of an entity for a relation, on one side. `share` is that of the first among all new answers."""

    relation: str
    label: str
    side: Side
    own: bool
    """Whether the entity has training facts with this relation on this side."""
    share: float
    answers: Answers

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**vars(self), "answers": [answer.to_dict() for answer in self.answers]}


@dataclass(frozen=True)
class Suggestions:
    """The suggestions for an entity, the most probable first."""

    entity: str
    label: str
    time: str | None
    relations: tuple[Suggestion, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON. The time only if there is one."""
        time = {} if self.time is None else {"time": self.time}
        listed = [suggestion.to_dict() for suggestion in self.relations]
        return {"entity": self.entity, "label": self.label, **time, "relations": listed}


def suggest(asker: Asker, entity: str, time: str | None = None, limit: int = 20) -> Suggestions:
    """The best missing facts of an entity, at most for `limit` relations and sides.

    Asked are the relations that the entity has, and those that several similar entities have. If every fact has a time and none is
    given, the last one is taken.
    """
    model, graph = asker.model, asker.graph
    own = graph.entity(entity)
    if time is None and graph.times is not None and not graph.times.no_time:
        time = graph.times.span[1]
    moment = time_id(graph, time)
    name, half = graph.entities.name(own), len(graph.relations)
    asked = _plausible(model, graph, own)
    questions = [_question(graph, name, relation, time) for relation in asked]
    found = [answers for answers in asker.ask(questions) if isinstance(answers, Answers)]
    shares = _shares(model, graph, own, list(asked), moment, found)
    suggestions = [
        Suggestion(
            relation := graph.relations.name(code % half),
            graph.relation_label(relation),
            "tail" if code < half else "head",
            asked[code],
            share,
            answers,
        )
        for code, answers, share in zip(asked, found, shares, strict=True)
        if len(answers)
    ]
    suggestions.sort(key=lambda s: (-(s.answers[0].probability or 0.0), -s.share, s.relation, s.side))
    shown = None if graph.times is None else graph.times.names([moment])[0] or None
    return Suggestions(name, graph.label(name), shown, tuple(suggestions[:limit]))


def _question(graph: Graph, name: str, relation: int, time: str | None) -> Question:
    half = len(graph.relations)
    asked = graph.relations.name(relation % half)
    return Question(name, asked, None, time) if relation < half else Question(None, asked, name, time)


def _plausible(model: Model, graph: Graph, entity: int) -> dict[int, bool]:
    """The relations to ask for, reciprocal ones for questions for a head; each with whether the entity has it itself."""
    own = relations_of(graph.known, entity)
    found = dict.fromkeys(own.tolist(), True)
    shared: Counter[int] = Counter()
    try:
        near = neighbours(model, graph, graph.entities.name(entity), NEAR)
    except BadInput:  # the model keeps no rows of entities
        near = ()  # type: ignore[assignment]
    for one in near:
        shared.update(relations_of(graph.known, graph.entity(one.entity)).tolist())
    # Entities without facts have only what their neighbours have, so one neighbour is enough.
    least = SHARED if len(own) else 1
    for relation, times in shared.most_common():
        if times >= least:
            found.setdefault(relation, False)
    return dict(list(found.items())[:MOST_ASKED])


def relations_of(questions: Questions, entity: int) -> IntArray:
    """The relations with which an entity begins a question; they are sorted by entity."""
    first, last = np.searchsorted(questions.head, [entity, entity + 1])
    relations: IntArray = np.unique(questions.relation[first:last])
    return relations


def _shares(
    model: Model, graph: Graph, entity: int, relations: list[int], time: int, found: list[Answers]
) -> list[float]:
    """The share of each first answer among all new answers, if scores are logarithms: what orders runs without probabilities."""
    shares: list[float] = []
    for at in range(0, len(relations), BLOCK):
        asked = np.array(relations[at : at + BLOCK], dtype=np.int64)
        head, moment = np.full_like(asked, entity), np.full_like(asked, time)
        times = None if graph.times is None else moment
        columns = [torch.from_numpy(column).to(model.device) for column in (head, asked, moment)]
        with model.answering():
            scores = model.score_all(columns[0], columns[1], None if times is None else columns[2])
        check_finite(scores)
        known = graph.answered(head, asked, times)
        scores[torch.from_numpy(known.question), torch.from_numpy(known.answers).long()] = -math.inf
        total = scores.double().logsumexp(dim=1).tolist()
        block = zip(found[at : at + BLOCK], total, strict=True)
        shares += [math.exp(min(0.0, answers[0].score - all_)) if len(answers) else 0.0 for answers, all_ in block]
    return shares
