"""Asking: read files of questions."""

from __future__ import annotations

from pathlib import Path

from dura.data.facts import facts_of
from dura.data.opening import STANDARD_INPUT
from dura.data.readers import POINT, ReadOptions, read_sheet
from dura.inference.answers import HOLE, Question
from dura.types import BadInput


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, one per line, with ? for the hole.

    A line holds head and relation; or head, relation and tail; or head, relation, tail and time. An empty time means no time.
    """
    sheet = read_sheet(path, ReadOptions(format="tsv" if path == STANDARD_INPUT else ""))
    roles = POINT[: max(2, sheet.widest)]
    read = facts_of(sheet, ReadOptions(), roles, doubt=False)
    columns = [column.to_list() for column in read.columns]
    if len(roles) == 2:
        return [Question(head, relation) for head, relation in zip(*columns, strict=True)]
    questions = []
    for line, head, relation, tail, *time in zip(read.numbers.to_list(), *columns, strict=True):
        if [head, tail, *time].count(HOLE) != 1:
            raise BadInput(
                f"{path}:{line}: a question needs exactly one {HOLE}, in place of its head, its tail or its time"
            )
        head, tail = (None if name == HOLE else name for name in (head, tail))
        questions.append(Question(head, relation, tail, next(iter(time), None) or None))
    return questions
