"""Sheet: rows of text from a source, before it is known which column is head, relation, tail or time.

Every source becomes a Sheet: files, folders of other programs, databases, data frames. `recognition` then decides what its columns
hold. So a source never guesses, and what is known about guessing is in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from dura.types import BadInput

SHOWN = 10
"""How many bad lines a message lists."""
SAMPLE = 20_000
"""How many rows are looked at to decide what the columns hold."""


@dataclass(frozen=True)
class BadLine:
    """A line that is no fact, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass
class BadLines:
    """The bad lines found while reading: all are counted, the first few are kept."""

    path: Path | str
    total: int = 0
    first: list[BadLine] = field(default_factory=list)
    most: int = SHOWN
    """How many are kept."""

    def add(self, lines: pl.Series, reasons: pl.Series) -> None:
        """Add bad lines of one kind, given by their numbers in ascending order."""
        self.total += len(lines)
        pairs = zip(lines.head(self.most).to_list(), reasons.head(self.most).to_list(), strict=True)
        self.first.extend(BadLine(str(self.path), line, reason) for line, reason in pairs)
        self.first = sorted(self.first, key=lambda bad: bad.line)[: self.most]

    def stop(self, skip: bool) -> None:
        """Raise an error if there is a bad line, unless bad lines are to be skipped."""
        if not self.total or skip:
            return
        more = f"\n  and {self.total - len(self.first)} more" if self.total > len(self.first) else ""
        shown = "\n  ".join(map(str, self.first))
        count = "1 line is" if self.total == 1 else f"{self.total:,} lines are"
        raise BadInput(
            f"{count} bad in {self.path} (to skip bad lines: --skip-bad, in Python skip_bad=True):\n  {shown}{more}"
        )


def wrong_width(width: pl.Expr, wanted: str) -> pl.Expr:
    """The reason of lines with so many columns instead of those that are wanted."""
    columns = pl.when(width == 1).then(pl.lit("column")).otherwise(pl.lit("columns"))
    return pl.format("{} {} instead of " + wanted, width, columns)


@dataclass
class Sheet:
    """Rows of text.

    `titles` are the names of the columns, if the source has them. None means that nobody knows: the first row may be a header, as
    in CSV. `rows` has one text column per column of the source; null is a missing field. `numbers` are the line or row numbers for
    messages; without them rows count from 1. `bad` holds what could not be parsed, `notes` what the user should know.
    """

    origin: str
    rows: pl.DataFrame
    titles: tuple[str, ...] | None = None
    numbers: pl.Series | None = None
    bad: BadLines | None = None
    notes: list[str] = field(default_factory=list)
    separator: str = ""

    def __post_init__(self) -> None:
        self.bad = self.bad or BadLines(self.origin)
        if self.numbers is None:
            self.numbers = pl.Series("line", np.arange(1, len(self.rows) + 1, dtype=np.uint32))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.rows.width

    @property
    def widest(self) -> int:
        """How many columns the widest row has."""
        return self.width

    def first(self) -> list[str]:
        """The titles, or the fields of the first row if there are no titles."""
        if self.titles is not None:
            return list(self.titles)
        return [value or "" for value in self.rows.row(0)] if len(self.rows) else []

    def sample(self, count: int = SAMPLE) -> pl.DataFrame:
        """Rows from all over the sheet, in order, the first one included."""
        return self.rows.gather_every(max(1, len(self.rows) // count))

    def take(self, columns: Sequence[int]) -> pl.DataFrame:
        """Some columns of all rows, by position."""
        return self.rows.select(self.rows.columns[at] for at in columns)
