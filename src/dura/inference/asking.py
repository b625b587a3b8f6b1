"""Asking: tuples and files become questions; questions for entities and for times become answers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from dura.data.graph import Graph
from dura.data.readers import POINT, ReadOptions, endings, read_columns, read_lines
from dura.inference.answers import HOLE, Answers, Question, TimeAnswers
from dura.inference.predict import predict
from dura.inference.when import when
from dura.models import Model
from dura.types import BadInput


def ask(
    model: Model, graph: Graph, questions: Sequence[Question], k: int = 10, *, known: bool = False
) -> list[Answers | TimeAnswers]:
    """The answers to questions for entities and for times, in the order of the questions."""
    entities = iter(predict(model, graph, [q for q in questions if not q.when], k, known=known))
    times = [q for q in questions if q.when]
    moments = iter(when(model, graph, times, k, known=known) if times else [])
    return [next(moments) if q.when else next(entities) for q in questions]


def as_question(question: Question | Sequence[str | None]) -> Question:
    """A question, also if it is given as (head, relation, tail) or (head, relation, tail, time).

    >>> print(as_question((None, "likes", "b")))
    (?, likes, b)
    """
    if isinstance(question, Question):
        return question
    if isinstance(question, str) or len(question) not in (3, 4) or question[1] is None:
        raise BadInput(f"a question is (head, relation, tail) or (head, relation, tail, time), not {question!r}")
    head, relation, tail, *time = question
    return Question(head, str(relation), tail, *time)


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, one per line, with ? for the hole.

    A line holds head and relation; or head, relation and tail; or head, relation, tail and time. An empty time is no time.
    """
    roles = POINT[: max(2, _width(path))]
    read = read_columns(path, ReadOptions(), roles)
    columns = [column.to_list() for column in read.columns]
    if len(roles) == 2:
        return [Question(head, relation) for head, relation in zip(*columns, strict=True)]
    questions = []
    for line, head, relation, tail, *time in zip(read.numbers.to_list(), *columns, strict=True):
        if [head, tail, *time].count(HOLE) != 1:
            raise BadInput(
                f"{path}:{line}: a question has one hole, a {HOLE} in place of its head, its tail or its time"
            )
        head, tail = (None if name == HOLE else name for name in (head, tail))
        questions.append(Question(head, relation, tail, next(iter(time), None) or None))
    return questions


def _width(path: Path) -> int:
    """How many columns the longest line has."""
    lines = read_lines(path).decode("utf-8", errors="replace").split("\n")
    comma = endings(path)[0] == ".csv"
    return max(len(next(csv.reader([line]), []) if comma else line.split("\t")) for line in lines)
