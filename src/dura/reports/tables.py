"""Tables: rows of plain values as text for a terminal, Markdown, CSV and JSON."""

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

Cell = str | int | float | bool | None

MOST_BYTES = 64 << 20
"""Of a sheet's JSON file."""
FORMAT = 1
"""The newest format of a sheet's JSON file that this program reads, and the one it writes."""


@dataclass(frozen=True)
class Sheet:
    """A title, rows by column name, and notes that belong below: what a study, a sweep or a reproduction leaves.

    All rows have the same columns in the same order; None is an empty cell ("not run"). `digits` says how many decimals a
    column's floats show in text and Markdown (4 where it is silent); CSV and JSON keep every digit.

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
    rows: Sequence[Mapping[str, Cell]]
    notes: Sequence[str] = ()
    digits: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows[0]) if self.rows else []

    def text(self, row: Mapping[str, Cell], column: str) -> str:
        """One cell as people read it."""
        value = row[column]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:,.{self.digits.get(column, 4)}f}"
        return f"{value:,}" if isinstance(value, int) else value

    def right(self, column: str) -> bool:
        """True for a column of numbers, which stand to the right."""
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, int | float) for value in values)

    def terminal(self) -> str:
        """Aligned columns with the notes below."""
        texts = [self.columns, *([self.text(row, column) for column in self.columns] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        right = [self.right(column) for column in self.columns]
        lines = [
            "  ".join(t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in texts
        ]
        return printable("\n".join([self.title, "", *lines, *([""] if self.notes else []), *self.notes]))

    def markdown(self) -> str:
        """A Markdown table under its title, the notes below."""
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
        """What stands in the JSON file; rows keep every digit."""
        rows = [dict(row) for row in self.rows]
        return {
            "format": FORMAT,
            "title": self.title,
            "rows": rows,
            "notes": list(self.notes),
            "digits": dict(self.digits),
        }

    def write(self, folder: Path, stem: str, **more: Any) -> list[Path]:
        """Write STEM.md, STEM.csv and STEM.json (with `more` beside the rows) into the folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        document = json.dumps(_finite({**self.document(), **more}), indent=1, ensure_ascii=False, allow_nan=False)
        texts = {"md": self.markdown(), "csv": self.csv(), "json": document + "\n"}
        for ending, text in texts.items():
            write_atomic(folder / f"{stem}.{ending}", text.encode())
        return [folder / f"{stem}.{ending}" for ending in texts]

    @classmethod
    def read(cls, path: Path) -> Sheet:
        """The sheet of a JSON file that `write` left; what else stands in the file is passed over."""
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
                raise ValueError("its title is no text or its rows have not the same columns")
            if not all(isinstance(cell, Cell) for row in sheet.rows for cell in row.values()):
                raise ValueError("a cell is not a plain value")
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise BadInput(f"{path} does not hold a table as dura writes them: {error}") from None
        return sheet


def plain_markdown(text: str) -> str:
    """Text that neither ends a table's cell nor holds HTML: names of users' files may be anything.

    >>> plain_markdown("<b>bold</b>")
    '&lt;b>bold&lt;/b>'
    """
    return " ".join(_no_html(text).replace("\\", "\\\\").replace("|", "\\|").split())


def _no_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _finite(value: Any) -> Any:
    """The same with null for nan and inf, which JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
