"""JSON Lines: one object or one array per line.

polars parses whole files of objects. What it refuses or might change (a bad line, an array, a lone surrogate, a column that holds
both texts and lists) is parsed line by line, so that a bad line is named. `apoc.export.json` of Neo4j writes such files too: its
lines are nodes and relationships, recognised by their keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dura.data.opening import read_lines
from dura.data.readers import ReadOptions
from dura.data.sheet import BadLines, Sheet
from dura.data.sources.cells import left_out_note
from dura.data.sources.found import FACT_TITLES, Described
from dura.types import BadInput

LONE = re.compile(
    rb"\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89aAbB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
"""Half of a character outside of the basic plane: not text. polars would replace it in silence."""
APOC = re.compile(rb'\s*\{\s*"(type|id)"\s*:')
LABELS = ("name", "title", "label")
"""The properties that can be a node's label, the best first."""
DESCRIPTIONS = ("description", "comment", "abstract")
MOST_COLUMNS = 10_000


class _Bad(ValueError):
    """A line that is not a row, and why."""


def read_json(path: Path, options: ReadOptions) -> Sheet:
    """Read a file with one array of objects or of arrays; if it is no array, it is read as JSON Lines."""
    data = read_lines(path, options.most_gb)
    if not data.lstrip().startswith(b"["):
        return _of_lines(path, data)
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError) as error:
        try:
            return _of_lines(path, data)  # lines of arrays
        except BadInput:
            raise BadInput(f"{path} is neither one JSON array nor JSON Lines: {str(error)[:200]}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict | list) for row in rows):
        return _of_lines(path, data)
    return _of_lines(path, "\n".join(json.dumps(row) for row in rows).encode())


def read_jsonl(path: Path, options: ReadOptions) -> Sheet:
    """Read JSON Lines."""
    return _of_lines(path, read_lines(path, options.most_gb))


def _of_lines(path: Path, data: bytes) -> Sheet:
    if APOC.match(data) and (found := _apoc(path, data)) is not None:
        return found
    return sheet_of(path, data, BadLines(path))


def sheet_of(path: Path, data: bytes, bad: BadLines, arrays: bool | None = None) -> Sheet:
    """The sheet of a text of JSON Lines. `arrays` says whether its rows are arrays or objects; None: as the first one is."""
    halves = (b"\\ud" in data or b"\\uD" in data) and LONE.search(data)
    sheet = None if halves or arrays else _at_once(path, data)
    return sheet or _line_by_line(path, data, bad, arrays)


def pieces_of(path: Path) -> Callable[[bytes, BadLines], Sheet]:
    """`sheet_of` for the pieces of one text: the first row of the first piece decides for all of them."""
    arrays: list[bool] = []

    def piece(data: bytes, bad: BadLines) -> Sheet:
        sheet = sheet_of(path, data, bad, arrays[0] if arrays else None)
        if not arrays and len(sheet):
            arrays.append(sheet.titles is None)
        return sheet

    return piece


def _at_once(path: Path, data: bytes) -> Sheet | None:
    """The sheet as polars reads it, or None if the lines have to be looked at one by one."""
    try:
        schema = pl.read_ndjson(data, infer_schema_length=None, n_rows=0).schema
        flat = {title: pl.String for title, kind in schema.items() if not kind.is_nested()}
        _few_columns(path, len(schema))
        rows = pl.read_ndjson(data, schema=flat)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    numbers = _numbers(data, rows.height)
    texts = [title for title, kind in schema.items() if kind == pl.String]
    if len(numbers) != rows.height or any(rows[title].str.contains(r"^[\[{]").any() for title in texts):
        return None
    left_out = [title for title, kind in schema.items() if kind.is_nested()]
    return Sheet(str(path), rows, titles=tuple(rows.columns), numbers=numbers, notes=left_out_note(left_out))


def _numbers(data: bytes, count: int) -> pl.Series:
    """The numbers of the lines that are not blank."""
    if data.count(b"\n") + (not data.endswith(b"\n")) == count:
        return pl.Series("line", np.arange(1, count + 1, dtype=np.uint32))
    lines = enumerate(data.split(b"\n"), 1)
    return pl.Series("line", [number for number, line in lines if line.strip()], dtype=pl.UInt32)


def _few_columns(path: Path, count: int) -> None:
    if count > MOST_COLUMNS:
        raise BadInput(f"{path} has {count:,} columns, more than {MOST_COLUMNS:,}; write the columns of facts only")


# -- line by line -----------------------------------------------------------------------------------------------------


def _values(data: bytes, bad: BadLines) -> Iterator[tuple[int, Any]]:
    """The value of each good line with its number. Numbers stay as they are written."""
    wrong: list[tuple[int, str]] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, _value(line)
        except _Bad as error:
            wrong.append((number, str(error)))
    numbers, reasons = [number for number, _ in wrong], [reason for _, reason in wrong]
    bad.add(pl.Series(numbers, dtype=pl.UInt32), pl.Series(reasons, dtype=pl.String))


def _value(line: bytes) -> Any:
    try:
        text = line.decode()
        value = json.loads(text, parse_int=str, parse_constant=_constant, object_pairs_hook=_first_wins)
    except UnicodeDecodeError:
        raise _Bad("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _Bad(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _Bad("not a row: nested too deeply") from None
    if not isinstance(value, dict | list):
        raise _Bad("not a row: an object or an array is needed")
    if LONE.search(line):
        _whole(value)
    return value


def _constant(word: str) -> None:
    raise _Bad(f"not JSON: {word} is not a JSON number")


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs)) if len({key for key, _ in pairs}) < len(pairs) else dict(pairs)


def _whole(value: dict[str, Any] | list[Any]) -> None:
    """Refuse half characters."""
    cells = [*value, *value.values()] if isinstance(value, dict) else value
    try:
        for cell in cells:
            if isinstance(cell, str):
                cell.encode()
    except UnicodeEncodeError:
        raise _Bad("a name holds half of a character (a lone surrogate)") from None


def _line_by_line(path: Path, data: bytes, bad: BadLines, arrays: bool | None = None) -> Sheet:
    numbers: list[int] = []
    values: list[dict[str, Any] | list[Any]] = []
    others: list[int] = []
    for number, value in _values(data, bad):
        arrays = isinstance(value, list) if arrays is None else arrays
        if isinstance(value, list) != arrays:
            others.append(number)
            continue
        numbers.append(number)
        values.append(value)
    kinds = ("an object", "arrays") if arrays else ("an array", "objects")
    reason = f"{kinds[0]}, but the lines before are {kinds[1]}; write all lines in the same way"
    bad.add(pl.Series(others, dtype=pl.UInt32), pl.Series([reason] * len(others), dtype=pl.String))
    rows = _array_rows(values) if arrays else _object_rows(values)  # type: ignore[arg-type]
    nested: set[str] = set()
    texts = {title: [_cell(value, title, nested) for value in column] for title, column in rows.items()}
    _few_columns(path, len(texts))
    kept = {title: column for title, column in texts.items() if title not in nested or any(column)}
    frame = pl.DataFrame(kept, schema=dict.fromkeys(kept, pl.String))
    left_out = [title for title in texts if title in nested]
    lines = pl.Series("line", numbers, dtype=pl.UInt32)
    titles = None if arrays else tuple(frame.columns)
    return Sheet(str(path), frame, titles=titles, numbers=lines, bad=bad, notes=left_out_note(left_out))


def _object_rows(values: list[dict[str, Any]]) -> dict[str, list[Any]]:
    titles = dict.fromkeys(title for value in values for title in value)
    return {title: [value.get(title) for value in values] for title in list(titles)[: MOST_COLUMNS + 1]}


def _array_rows(values: list[list[Any]]) -> dict[str, list[Any]]:
    width = min(max(map(len, values), default=0), MOST_COLUMNS + 1)
    return {str(at): [value[at] if at < len(value) else None for value in values] for at in range(width)}


def _cell(value: Any, title: str, nested: set[str]) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    nested.add(title)
    return None


# -- apoc.export.json -------------------------------------------------------------------------------------------------


def _apoc(path: Path, data: bytes) -> Described | None:
    """The facts of relationship lines and the descriptions of nodes, or None if this is another file."""
    bad = BadLines(path)
    rows: list[tuple[int, str, str, str]] = []
    sheet = Described(str(path), pl.DataFrame())
    other = 0
    for number, value in _values(data, bad):
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "node" and _is_node(value):
            _describe(sheet, value)
        elif (
            kind == "relationship"
            and _is_node(value.get("start"))
            and _is_node(value.get("end"))
            and value.get("label")
        ):
            _describe(sheet, value["start"])
            _describe(sheet, value["end"])
            rows.append((number, str(value["start"]["id"]), str(value["label"]), str(value["end"]["id"])))
        elif not rows and not sheet.entities:
            return None
        else:
            other += 1
            bad.add(
                pl.Series([number], dtype=pl.UInt32),
                pl.Series(["neither a node nor a relationship of apoc.export.json"]),
            )
    frame = pl.DataFrame(rows, schema={"line": pl.UInt32, **dict.fromkeys(FACT_TITLES, pl.String)}, orient="row")
    sheet.rows, sheet.numbers, sheet.titles, sheet.bad = frame.drop("line"), frame["line"], FACT_TITLES, bad
    sheet.notes.append("read as an export of apoc.export.json: relationships are facts, nodes are descriptions")
    return sheet


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _describe(sheet: Described, node: dict[str, Any]) -> None:
    properties, labels = node.get("properties"), node.get("labels")
    properties = properties if isinstance(properties, dict) else {}
    types = [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []
    first = [
        next((properties[key] for key in keys if isinstance(properties.get(key), str)), None)
        for keys in (LABELS, DESCRIPTIONS)
    ]
    sheet.entities.add(node["id"], first[0], types, first[1])
