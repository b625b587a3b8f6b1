"""Asking: files of questions into questions."""

from __future__ import annotations

import csv
from pathlib import Path

from dura.data.files import endings, read_bytes
from dura.data.readers import read_columns
from dura.data.table import ReadOptions
from dura.types import BadInput

HOLE = "?"


def read_questions(path: Path) -> list[tuple[str | None, str, str | None]]:
    """The questions of a file, one a line: head and relation, or head, relation and tail with ? as the hole."""
    lines = read_bytes(path).decode("utf-8", errors="replace").splitlines()
    first = next((line for line in lines if line.strip()), "")
    comma = endings(path)[0] == ".csv"
    two = len(next(csv.reader([first])) if comma else first.split("\t")) < 3
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
