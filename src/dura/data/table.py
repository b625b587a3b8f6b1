"""What readers give and take: Table, ReadOptions, and the bad lines on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from dura.types import BadInput

SHOWN = 10
"""How many bad lines a message lists."""
FACT = ("head", "relation", "tail")
POINT = (*FACT, "time")
INTERVAL = (*FACT, "begin", "end")
FACTS = (FACT, POINT, INTERVAL)
"""What a fact's columns may be: without a time, with one, or with the times between which it holds."""
Columns = Sequence[int | str] | str
Roles = tuple[str, ...]
"""What the wanted columns stand for; what follows head, relation and tail may be empty or missing."""


@dataclass(frozen=True)
class BadLine:
    """A line that is no fact, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class Table:
    """Columns of names with the number of the line each row stands on, and what was noticed while reading.

    `bad` holds the first skipped lines (at most ten), `skipped` counts all of them.
    """

    columns: list[pl.Series]
    lines: pl.Series
    bad: list[BadLine]
    skipped: int
    notes: list[str]

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file.

    `columns` by position (0, 1, 2) or by header name: head, relation, tail, then the time, or begin and end, if facts have
    them; `header` None takes only the well-known ones for one.
    """

    columns: Columns | None = None
    header: bool | None = None
    separator: str | None = None
    skip_bad: bool = False

    @property
    def chosen(self) -> tuple[int | str, ...] | None:
        """The columns one by one; "0,2,1" and "head,relation,tail" are split at the commas.

        >>> ReadOptions(columns="0, 2,name").chosen
        (0, 2, 'name')
        """
        if self.columns is None or not isinstance(self.columns, str):
            return None if self.columns is None else tuple(self.columns)
        parts = [part.strip() for part in self.columns.split(",")]
        return tuple(int(part) if part.isdecimal() else part for part in parts)


@dataclass
class BadLines:
    """The bad lines while reading: all are counted, only the first few are kept."""

    path: Path
    total: int = 0
    first: list[BadLine] = field(default_factory=list)

    def add(self, lines: pl.Series, reasons: pl.Series) -> None:
        """Bad lines of one kind in ascending order."""
        self.total += len(lines)
        pairs = zip(lines.head(SHOWN).to_list(), reasons.head(SHOWN).to_list(), strict=True)
        self.first.extend(BadLine(str(self.path), line, reason) for line, reason in pairs)
        self.first = sorted(self.first, key=lambda bad: bad.line)[:SHOWN]

    def stop(self, skip: bool) -> None:
        """Raise if there is a bad line, unless they are to be skipped."""
        if not self.total or skip:
            return
        more = f"\n  and {self.total - len(self.first)} more" if self.total > len(self.first) else ""
        shown = "\n  ".join(map(str, self.first))
        count = "1 line is" if self.total == 1 else f"{self.total:,} lines are"
        raise BadInput(
            f"{count} bad in {self.path} (--skip-bad, in Python skip_bad=True, reads on without):\n  {shown}{more}"
        )
