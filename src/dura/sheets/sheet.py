"""Sheet: a printed table, rows of plain values as text for a terminal, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dura.records import read_bytes, write_atomic
from dura.text import parse_json, printable
from dura.types import BadInput
from dura.words import finite

Plain = str | int | float | bool | None
"""One value in a row; None is an empty place."""

MOST_DIGITS = 100
"""A file that asks for more decimals is refused."""
MOST_BYTES = 64 << 20
"""A sheet's JSON file with more bytes is refused."""
FORMAT = 1
"""The format of a sheet's JSON file that this program writes, and the newest that it reads."""


@dataclass(frozen=True)
class Sheet:
    """A title, rows by column name, and notes below them: what a study, a sweep or a reproduction leaves.

    All rows have the same columns in the same order; None is an empty place ("not run"). `digits` is the number of decimals that
    a column's floats show in text and Markdown (by default 4); CSV and JSON keep every digit.

    >>> print(Sheet("Sizes", [{"rank": 100, "mrr": 0.35061}, {"rank": 200, "mrr": None}]).markdown())
    ### Sizes
    <BLANKLINE>
    | rank | mrr |
    |---:|---:|
    | 100 | 0.3506 |
    | 200 |  |
    <BLANKLINE>
    """

    title: str
    rows: Sequence[Mapping[str, Plain]]
    notes: Sequence[str] = ()
    digits: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows[0]) if self.rows else []

    def text(self, row: Mapping[str, Plain], column: str) -> str:
        """One value as people read it."""
        value = row[column]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:,.{self.digits.get(column, 4)}f}"
        return f"{value:,}" if isinstance(value, int) else value

    def right(self, column: str) -> bool:
        """True for a column of numbers, which is aligned to the right."""
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, int | float) for value in values)

    def terminal(self) -> str:
        """Aligned columns, with the notes below them."""
        texts = [self.columns, *([self.text(row, column) for column in self.columns] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        right = [self.right(column) for column in self.columns]
        lines = [
            "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in texts
        ]
        return printable("\n".join([self.title, "", *lines, *([""] if self.notes else []), *self.notes]))

    def markdown(self) -> str:
        """A Markdown table under its title, with the notes below it."""
        notes = [line for note in self.notes for line in ("", _no_html(note))]
        return "\n".join([f"### {plain_markdown(self.title)}", "", *self._markdown_rows(), *notes, ""])

    def _markdown_rows(self) -> list[str]:
        if not self.rows:
            return ["(no rows)"]
        rule = "|".join("---:" if self.right(column) else "---" for column in self.columns)
        texts = [self.columns, *([self.text(row, column) for column in self.columns] for row in self.rows)]
        lines = [f"| {' | '.join(map(plain_markdown, row))} |" for row in texts]
        return [lines[0], f"|{rule}|", *lines[1:]]

    def csv(self) -> str:
        """Comma-separated values with a header."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()

    def document(self) -> dict[str, Any]:
        """The content of the JSON file; rows keep every digit."""
        rows = [dict(row) for row in self.rows]
        return {
            "format": FORMAT,
            "title": self.title,
            "rows": rows,
            "notes": list(self.notes),
            "digits": dict(self.digits),
        }

    def write(self, folder: Path, stem: str, **more: Any) -> list[Path]:
        """Write STEM.md, STEM.csv and STEM.json (with `more` next to the rows) into the folder, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        document = json.dumps(finite({**self.document(), **more}), indent=1, ensure_ascii=False, allow_nan=False)
        texts = {"md": self.markdown(), "csv": self.csv(), "json": document + "\n"}
        for ending, text in texts.items():
            write_atomic(folder / f"{stem}.{ending}", text.encode())
        return [folder / f"{stem}.{ending}" for ending in texts]

    @classmethod
    def read(cls, path: Path) -> Sheet:
        """The sheet of a JSON file that `write` left; other content of the file is ignored."""
        try:
            found = parse_json(read_bytes(path.parent, path.name, MOST_BYTES))
            if not isinstance(found, dict):
                raise ValueError("it is not a JSON object")
            if lacks := [key for key in ("title", "rows") if key not in found]:
                raise ValueError(f"it has no {' and no '.join(lacks)}")
            if found.get("format", 1) > FORMAT:
                raise BadInput(f"{path} has format {found['format']}, but this dura reads up to {FORMAT}; update dura")
            sheet = cls(found["title"], found["rows"], found.get("notes", ()), found.get("digits", {}))
            if not isinstance(sheet.title, str) or not all(set(row) == set(sheet.columns) for row in sheet.rows):
                raise ValueError("its title is not text, or its rows do not have the same columns")
            if not all(isinstance(value, Plain) for row in sheet.rows for value in row.values()):
                raise ValueError("a value in its rows is not a plain value")
            if not all(isinstance(note, str) for note in sheet.notes):
                raise ValueError("a note is not text")
            if not all(type(places) is int and 0 <= places <= MOST_DIGITS for places in sheet.digits.values()):
                raise ValueError(f"its digits are not whole numbers up to {MOST_DIGITS}")
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"{path} is not a table that dura wrote: {error}") from None
        return sheet


def plain_markdown(text: str) -> str:
    """Text that cannot break a Markdown table and holds no HTML: the names in users' files may be anything.

    >>> plain_markdown("<b>bold</b>")
    '&lt;b>bold&lt;/b>'
    """
    return " ".join(_no_html(text).replace("\\", "\\\\").replace("|", "\\|").split())


def _no_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
