"""Asking: files of questions into questions."""

from __future__ import annotations

from pathlib import Path

from dura.data.files import endings, read_bytes
from dura.data.readers import read_columns
from dura.data.table import ReadOptions
from dura.types import BadInput

HOLE = "?"


def read_questions(path: Path) -> list[tuple[str | None, str, str | None]]:
    """The questions of a file, one a line: head and relation, or head, relation and tail with ? as the hole."""
    first = read_bytes(path).split(b"\n", 1)[0]
    two = first.count(b"," if endings(path)[0] == ".csv" else b"\t") < 2
    table = read_columns(path, ReadOptions(), ("head", "relation") if two else ("head", "relation", "tail"))
    columns = [column.to_list() for column in table.columns]
    if two:
        return [(head, relation, None) for head, relation in zip(*columns, strict=True)]
    questions: list[tuple[str | None, str, str | None]] = []
    for line, head, relation, tail in zip(table.lines.to_list(), *columns, strict=True):
        if (head == HOLE) == (tail == HOLE):
            raise BadInput(f"{path}:{line}: a question has one hole, a {HOLE} in place of its head or its tail")
        questions.append((None if head == HOLE else head, relation, None if tail == HOLE else tail))
    return questions
