"""Asking: files of questions and of names, and the answers to a stream of questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from dura.data.graph import Graph
from dura.data.opening import name_of, read_lines
from dura.data.readers import ReadOptions
from dura.data.streams import Row, question_rows
from dura.inference.answers import HOLE, Answers, Question, TimeAnswers
from dura.inference.predict import BLOCK, Asker
from dura.types import BadInput

SUGGESTED = 100
"""After this many bad rows, unknown names get no suggestions: to find them takes longer than to answer."""


class Found(Protocol):
    """What a row of a file can lead to."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        ...


@dataclass(frozen=True)
class Reply:
    """What becomes of one row of a file: what was found for it, such as answers, or what is wrong with it."""

    line: int
    found: Found | None = None
    wrong: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"line": self.line, **({"error": self.wrong} if self.found is None else self.found.to_dict())}


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, one per line, with ? for the hole. A bad line is an error.

    A line holds head and relation; or head, relation and tail; or head, relation, tail and time. An empty time means no time.
    """
    questions = []
    for row in question_rows(path, ReadOptions()):
        try:
            questions.append(_question(row))
        except BadInput as error:
            raise BadInput(f"{name_of(path)}:{row.line}: {error}") from None
    if not questions:
        raise BadInput(f"{name_of(path)} holds no questions")
    return questions


def replies(asker: Asker, rows: Iterable[Row]) -> Iterator[Reply]:
    """The answers to the questions of rows, in order, a block at a time. A bad row does not stop the others."""
    bad, waiting = 0, iter(rows)
    while block := list(islice(waiting, BLOCK)):
        questions: dict[int, Question] = {}
        wrong: dict[int, str] = {}
        for at, row in enumerate(block):
            try:
                questions[at] = _checked(asker, _question(row), suggest=bad < SUGGESTED)
            except BadInput as error:
                wrong[at], bad = str(error), bad + 1
        found = dict(zip(questions, asker.ask(list(questions.values())), strict=True))
        yield from (Reply(row.line, found.get(at), wrong.get(at, "")) for at, row in enumerate(block))


def each(asker: Asker, questions: Sequence[Question], suggest: int = 10) -> list[Answers | TimeAnswers | BadInput]:
    """The answers to each question, or what is wrong with it. Only the first few unknown names get suggestions, which take time."""
    wrong: dict[int, BadInput] = {}
    for at, question in enumerate(questions):
        try:
            _checked(asker, question, suggest=len(wrong) < suggest)
        except BadInput as error:
            wrong[at] = error
    found = iter(asker.ask([question for at, question in enumerate(questions) if at not in wrong]))
    return [wrong[at] if at in wrong else next(found) for at in range(len(questions))]


def _question(row: Row) -> Question:
    """The question of a row. An empty head or tail is a hole, as ? is."""
    if row.wrong:
        raise BadInput(row.wrong)
    head, relation, tail, time = row.parts
    given = [None if name in ("", HOLE) else name for name in (head, tail)]
    if given.count(None) + (time == HOLE) != 1:
        raise BadInput(f"a question needs exactly one {HOLE}, in place of its head, its tail or its time")
    return Question(given[0], relation, given[1], time or None)


def _checked(asker: Asker, question: Question, suggest: bool) -> Question:
    """The question, or an error that says why it cannot be asked."""
    if not suggest:
        check_names(asker.graph, [question.head, question.tail], question.relation)
    asker.check(question)
    return question


def check_names(graph: Graph, entities: Iterable[str | None], relation: str) -> None:
    """Refuse unknown names without suggestions, which take time."""
    for name in entities:
        if name is not None and name not in graph.entities and not graph.about_entities.called(name):
            raise BadInput(f"the entity {name!r} is not in this graph")
    if relation not in graph.relations and not graph.about_relations.called(relation):
        raise BadInput(f"the relation {relation!r} is not in this graph")


def read_names(path: Path) -> list[str]:
    """The names of a file, one per line, as they are; blank lines are skipped."""
    try:
        names = [line for line in read_lines(path).decode().split("\n") if line.strip()]
    except UnicodeDecodeError:
        raise BadInput(f"{name_of(path)} is not UTF-8 text") from None
    if not names:
        raise BadInput(f"{name_of(path)} holds no names; write one per line")
    return names
