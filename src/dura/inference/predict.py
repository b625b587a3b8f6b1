"""Predict: the best entities for questions. Known answers are left out, unless the caller wants them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.data.dates import respelled
from dura.data.graph import Graph
from dura.inference.answers import Answer, Answers, Question, TimeAnswers
from dura.models import Model
from dura.tables import Sharded
from dura.types import BadInput, DuraError, IntArray

BLOCK = 64
"""How many questions are scored at a time."""
PARTS = ("head", "relation", "tail")


def ask(
    model: Model, graph: Graph, questions: Sequence[Question], k: int = 10, *, known: bool = False
) -> list[Answers | TimeAnswers]:
    """The answers to questions for entities and for times, in the order of the questions."""
    entities = iter(predict(model, graph, [q for q in questions if not q.when], k, known=known))
    times = [q for q in questions if q.when]
    from dura.inference.when import when

    moments = iter(when(model, graph, times, k, known=known) if times else [])
    return [next(moments) if q.when else next(entities) for q in questions]


def predict(
    model: Model, graph: Graph, questions: Sequence[Question], k: int = 10, *, known: bool = False
) -> list[Answers]:
    """The `k` best entities for each question. Known answers of any split are left out unless `known` is true.

    If facts have times, an answer is known if it is known at the question's time.
    """
    check_count(k)
    ids = np.array([_ids(graph, question) for question in questions], dtype=np.int64).reshape(-1, 3)
    answers: list[Answers] = []
    with model.answering():
        for at in range(0, len(ids), BLOCK):
            answers += _block(model, graph, questions[at : at + BLOCK], ids[at : at + BLOCK], k, known)
    return answers


def _ids(graph: Graph, q: Question) -> tuple[int, int, int]:
    """Head, relation and time, as ids, of a question for a tail. A question for a head becomes (tail, reciprocal relation, ?)."""
    if q.when:
        raise BadInput(f"{q} asks for a time; `when` answers it (--when)")
    entity = graph.entity(str(q.tail if q.head is None else q.head))
    relation = graph.relation(q.relation) + (len(graph.relations) if q.head is None else 0)
    return entity, relation, time_id(graph, q.time)


def by_names(graph: Graph, q: Question) -> tuple[Question, dict[str, str]]:
    """The question by names, also if it was asked by labels, and the labels of its parts where they are not the names."""
    entities = {part: given for part in ("head", "tail") if (given := getattr(q, part)) is not None}
    names = {part: graph.entities.name(graph.entity(given)) for part, given in entities.items()}
    relation = graph.relations.name(graph.relation(q.relation))
    labels = {part: graph.label(name) for part, name in names.items()} | {"relation": graph.relation_label(relation)}
    question = replace(q, relation=relation, **names)
    return question, {part: labels[part] for part in PARTS if labels.get(part, own := getattr(question, part)) != own}


def time_id(graph: Graph, time: str | None) -> int:
    """The id of a time in any spelling. None gives the id of "no time". If the graph has no times, the id is 0."""
    if graph.times is None:
        if time is not None:
            raise BadInput(
                f"the facts of this graph have no times, but the question has the time {time!r}; leave the time out"
            )
        return 0
    if time is None and not graph.times.no_time:
        first, last = graph.times.span
        raise BadInput(
            f"every fact of this graph has a time, from {first} to {last}, so a question needs a time too "
            "(--time, elsewhere time=…)"
        )
    return graph.times.id(respelled(graph.times, time or ""))


def _block(
    model: Model, graph: Graph, questions: Sequence[Question], ids: IntArray, k: int, known: bool
) -> list[Answers]:
    times = None if graph.times is None else ids[:, 2]
    head, relation, time = torch.from_numpy(ids.T.copy()).to(model.device)
    scores = model.score_all(head, relation, None if times is None else time)
    check_finite(scores)
    table = model.target_table
    first, last = table.span if isinstance(table, Sharded) else (0, model.sizes.entities)
    facts = graph.known.known(ids[:, 0], ids[:, 1], times)
    facts = facts.only((facts.answers >= first) & (facts.answers < last), first)
    is_known = torch.zeros_like(scores, dtype=torch.bool)
    is_known[torch.from_numpy(facts.question), torch.from_numpy(facts.answers).long()] = True
    if not known:
        scores.masked_fill_(is_known, -math.inf)
    best, entity = scores.topk(min(k, scores.shape[1]), dim=1)
    flags = is_known.gather(1, entity)
    if isinstance(table, Sharded):
        best, entity, flags = _best_of_all(table, k, best, entity + first, flags)
    rows = zip(questions, entity.tolist(), best.tolist(), flags.tolist(), strict=True)
    found = []
    for question, *row in rows:
        named, labels = by_names(graph, question)
        found.append(Answers(named, tuple(_answers(graph, *row)), labels))
    return found


def _best_of_all(table: Sharded, k: int, best: Tensor, entity: Tensor, flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best answers among those that each process has found among its own entities."""
    widths = [min(k, size) for size in table.spans.sizes]
    every = [world.gather(part.mT.contiguous(), widths).mT for part in (best, entity, flags.to(torch.uint8))]
    top, at = every[0].topk(min(k, sum(widths)), dim=1)
    return top, every[1].gather(1, at), every[2].gather(1, at).bool()


def _answers(graph: Graph, entities: list[int], scores: list[float], known: list[bool]) -> Iterator[Answer]:
    names = graph.entities.names(entities)
    for rank, (name, score, flag) in enumerate(zip(names, scores, known, strict=True), 1):
        if score > -math.inf:
            yield Answer(name, score, rank, flag, graph.label(name))


def check_count(k: int) -> None:
    """Refuse a number of answers below 1."""
    if isinstance(k, bool) or not isinstance(k, int):
        raise BadInput(f"k is {k!r}, but it must be a whole number")
    if k < 1:
        raise BadInput(f"k is {k}, but it must be at least 1")


def check_finite(scores: Tensor) -> None:
    """Refuse the scores of a model that diverged."""
    if int(world.total((~torch.isfinite(scores)).sum())):
        raise DuraError("the model's scores are not finite numbers, so it cannot answer; train it again")
