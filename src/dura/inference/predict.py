"""Predict: the best entities for questions. Known answers are left out, unless the caller wants them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dura import world
from dura.data.dates import respelled
from dura.data.graph import Graph
from dura.inference.answers import TEN, Answer, Answers, Question, TimeAnswers, Wanted
from dura.inference.chances import Chances
from dura.models import Model
from dura.tables import Sharded
from dura.types import BadInput, DuraError, IntArray

if TYPE_CHECKING:
    from pathlib import Path

    from dura.inference.calibration import Calibration
    from dura.inference.nearest import Nearest
    from dura.inference.restriction import Restriction

BLOCK = 64
"""How many questions are scored at a time."""
PARTS = ("head", "relation", "tail")
Told = tuple[list[list[float | None]], list[list[bool]]]
"""The probability of each shown answer, and whether it contradicts a known one."""


def ask(
    model: Model,
    graph: Graph,
    questions: Sequence[Question],
    wanted: Wanted = TEN,
    calibration: Calibration | None = None,
    index: Nearest | None = None,
) -> list[Answers | TimeAnswers]:
    """The answers to questions for entities and for times, in the order of the questions."""
    return Asker(model, graph, wanted, calibration, index).ask(questions)


def predict(model: Model, graph: Graph, questions: Sequence[Question], wanted: Wanted = TEN) -> list[Answers]:
    """The best entities for each question. Known answers of any split are left out unless they are wanted.

    If facts have times, an answer is known if it is known at the question's time.
    """
    return Asker(model, graph, wanted).predict(questions)


class Asker:
    """Asks a model for the answers that are wanted. What follows from the wish alone is prepared once, for many questions.

    An `index` may find the answers if approximate ones are wanted. They have no probabilities: these need all scores. `run` is the
    folder of the model, for messages.
    """

    def __init__(
        self,
        model: Model,
        graph: Graph,
        wanted: Wanted,
        calibration: Calibration | None = None,
        index: Nearest | None = None,
        run: Path | None = None,
    ) -> None:
        self.model, self.graph, self.wanted, self.calibration = model, graph, wanted, calibration
        self.index = index if wanted.approximate else None
        if calibration is None and (wanted.min_probability is not None or wanted.coverage is not None):
            raise BadInput(f"answers of this run have no probabilities yet; run dura calibrate {run or 'RUN'} first")
        self._restriction: Restriction | None = None
        if wanted.restricted:
            from dura.inference.restriction import Restriction

            self._restriction = Restriction(graph, wanted)

    def check(self, question: Question) -> None:
        """Raise the error that asking this question would raise."""
        if not question.when:
            _ids(self.graph, question)
            return
        from dura.inference.when import check

        check(self.graph, question, self.wanted)

    def ask(self, questions: Sequence[Question]) -> list[Answers | TimeAnswers]:
        """The answers to questions for entities and for times, in the order of the questions."""
        entities = iter(self.predict([q for q in questions if not q.when]))
        times = [q for q in questions if q.when]
        from dura.inference.when import when

        moments = iter(when(self.model, self.graph, times, self.wanted) if times else [])
        return [next(moments) if q.when else next(entities) for q in questions]

    def predict(self, questions: Sequence[Question]) -> list[Answers]:
        """The answers to questions for entities."""
        ids = np.array([_ids(self.graph, question) for question in questions], dtype=np.int64).reshape(-1, 3)
        answers: list[Answers] = []
        block = self._block if self.index is None else self._indexed
        with self.model.answering():
            for at in range(0, len(ids), BLOCK):
                answers += block(questions[at : at + BLOCK], ids[at : at + BLOCK])
        return answers

    def _indexed(self, questions: Sequence[Question], ids: IntArray) -> list[Answers]:
        """The answers that the index finds. Questions for which it finds too few are answered exactly."""
        assert self.index is not None
        best, entity, flags, exact = self.index.answers(self.graph, ids, self.wanted.k, known=self.wanted.known)
        check_finite(best[best > -math.inf])
        found = self._named(questions, best, entity, flags, _told(best, flags), [None] * len(questions))
        again = self._block([questions[at] for at in exact], ids[exact]) if len(exact) else []
        for at, answers in zip(exact, again, strict=True):
            found[at] = answers
        return found

    def _block(self, questions: Sequence[Question], ids: IntArray) -> list[Answers]:
        """The answers to a few questions: score all entities, find the known answers, and choose what is shown."""
        model, graph = self.model, self.graph
        times = None if graph.times is None else ids[:, 2]
        head, relation, time = torch.from_numpy(ids.T.copy()).to(model.device)
        scores = model.score_all(head, relation, None if times is None else time)
        check_finite(scores)
        first, last = _span(model)
        facts = graph.answered(ids[:, 0], ids[:, 1], times)
        facts = facts.only((facts.answers >= first) & (facts.answers < last), first)
        is_known = torch.zeros_like(scores, dtype=torch.bool)
        is_known[torch.from_numpy(facts.question), torch.from_numpy(facts.answers).long()] = True
        chances = None
        if self.calibration is not None:
            held = graph.holding(ids[:, 0], ids[:, 1], times)
            chances = Chances.of(self.calibration, ids[:, 1], held, scores.masked_fill(is_known, -math.inf))
        return self._shown(questions, ids, scores, is_known, chances)

    def _shown(
        self, questions: Sequence[Question], ids: IntArray, scores: Tensor, is_known: Tensor, chances: Chances | None
    ) -> list[Answers]:
        """The answers that are shown, from the scores of all entities. This is the one place that chooses answers.

        `scores` and `is_known` are [questions, entities of this process].
        """
        sizes: list[int | None] = [None] * len(questions)
        if chances is not None and self.wanted.coverage is not None:
            sizes = [*chances.cut_(scores, is_known, self.wanted.coverage)]
        if not self.wanted.known:
            scores.masked_fill_(is_known, -math.inf)
        self._drop_refused(ids, scores)
        if chances is not None:
            self._drop_contradicting(ids, scores, is_known)
        if self._restriction is not None:
            allowed = self._restriction.allowed(ids[:, 1], *_span(self.model))
            scores.masked_fill_(~allowed.to(scores.device), -math.inf)
        best, entity, flags = self._best(scores, is_known)
        told = _told(best, flags) if chances is None else chances.told(best, flags, self._others(ids, entity))
        return self._named(questions, best, entity, flags, told, sizes)

    def _drop_contradicting(self, ids: IntArray, scores: Tensor, is_known: Tensor) -> None:
        """Leave out answers that are too improbable because of what is known about themselves, before the best are chosen.

        Such an answer has at most the share of second answers of its other question. If that is enough, nothing is left out.
        """
        least, half = self.wanted.min_probability, len(self.graph.relations)
        if least is None or self.calibration is None:
            return
        entities = np.arange(*_span(self.model))
        for row, (_, relation, time) in enumerate(ids.tolist()):
            other = np.full(len(entities), (relation + half) % (2 * half))
            if self.calibration.second[other[0]] >= least:
                continue
            times = None if self.graph.times is None else np.full(len(entities), time)
            counts = self.graph.holding(entities, other, times)
            against = torch.from_numpy(self.calibration.contradicts(other, counts)).to(scores.device)
            scores[row].masked_fill_(against & ~is_known[row], -math.inf)

    def _others(self, ids: IntArray, entity: Tensor) -> IntArray:
        """How many answers are known to the other question of each answer [m, k]: the one that starts from the answer."""
        width, half = entity.shape[1], len(self.graph.relations)
        other = np.repeat((ids[:, 1] + half) % (2 * half), width)
        time = None if self.graph.times is None else np.repeat(ids[:, 2], width)
        counts = self.graph.holding(entity.flatten().cpu().numpy(), other, time)
        return counts.reshape(len(ids), width)

    def _named(
        self,
        questions: Sequence[Question],
        best: Tensor,
        entity: Tensor,
        flags: Tensor,
        told: Told,
        sizes: Sequence[int | None],
    ) -> list[Answers]:
        """The answers by names."""
        names = self.graph.entities.names(entity.flatten().cpu().numpy())  # all at once, which is much faster
        rows = zip(questions, sizes, best.tolist(), flags.tolist(), *told, strict=True)
        found, width = [], entity.shape[1]
        for at, (question, size, *row) in enumerate(rows):
            named, labels = by_names(self.graph, question)
            every = _answers(self.graph, names[at * width : (at + 1) * width], *row)
            found.append(Answers(named, tuple(filter(self._probable, every)), labels, size))
        return found

    def _probable(self, answer: Answer) -> bool:
        """Whether an answer is as probable as wanted. In one question probabilities fall with the scores, so none is missed."""
        least = self.wanted.min_probability
        return least is None or answer.probability is None or answer.probability >= least

    def _drop_refused(self, ids: IntArray, scores: Tensor) -> None:
        """Leave out what people rejected, also if known answers are shown."""
        if self.graph.reviews is None:
            return
        first, last = _span(self.model)
        facts = self.graph.reviews.refused.known(ids[:, 0], ids[:, 1], None if self.graph.times is None else ids[:, 2])
        facts = facts.only((facts.answers >= first) & (facts.answers < last), first)
        scores[torch.from_numpy(facts.question), torch.from_numpy(facts.answers).long()] = -math.inf

    def _best(self, scores: Tensor, is_known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best scores of each question, their entities, and whether these are known. What is left out has the score -inf."""
        k, table = self.wanted.k, self.model.target_table
        best, entity = scores.topk(min(k, scores.shape[1]), dim=1)
        flags = is_known.gather(1, entity)
        if not isinstance(table, Sharded):
            return best, entity, flags
        return _best_of_all(table, k, best, entity + table.span[0], flags)


def _span(model: Model) -> tuple[int, int]:
    """The first entity whose score this process computes, and the one after the last."""
    table = model.target_table
    return table.span if isinstance(table, Sharded) else (0, model.sizes.entities)


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


def _best_of_all(table: Sharded, k: int, best: Tensor, entity: Tensor, flags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best answers among those that each process has found among its own entities."""
    widths = [min(k, size) for size in table.spans.sizes]
    every = [world.gather(part.mT.contiguous(), widths).mT for part in (best, entity, flags.to(torch.uint8))]
    top, at = every[0].topk(min(k, sum(widths)), dim=1)
    return top, every[1].gather(1, at), every[2].gather(1, at).bool()


def _told(best: Tensor, flags: Tensor) -> Told:
    """No probabilities and no marks, for the answers of a run that is not calibrated."""
    return [[None] * best.shape[1]] * len(best), torch.zeros_like(flags).tolist()


def _answers(
    graph: Graph,
    names: list[str],
    scores: list[float],
    known: list[bool],
    probabilities: list[float | None],
    marks: list[bool],
) -> Iterator[Answer]:
    rows = zip(names, scores, known, probabilities, marks, strict=True)
    for rank, (name, score, flag, probability, mark) in enumerate(rows, 1):
        if score > -math.inf:
            yield Answer(name, score, rank, flag, graph.label(name), probability, mark)


def check_finite(scores: Tensor) -> None:
    """Refuse the scores of a model that diverged."""
    if int(world.total((~torch.isfinite(scores)).sum())):
        raise DuraError("the model's scores are not finite numbers, so it cannot answer; train it again")
