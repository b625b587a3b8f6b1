"""OpenKE: folders of numbered facts.

The first line of each file is the count of the lines that follow. entity2id.txt and relation2id.txt have names and numbers;
train2id.txt, valid2id.txt and test2id.txt have facts in the order head, tail, relation. Read in another order they would be another
graph, so the third column must fit the relations.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from dura.data.opening import read_lines
from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.found import FACT_TITLES, Found, fact_rows
from dura.data.sources.numbered import named, names_by_number
from dura.types import SPLITS, BadInput, Split

ENTITIES, RELATIONS = "entity2id.txt", "relation2id.txt"


def fits(path: Path) -> bool:
    """Whether a folder is one of OpenKE."""
    return all((path / name).is_file() for name in (ENTITIES, RELATIONS, "train2id.txt"))


def load(path: Path, options: ReadOptions) -> Found:
    """Read a folder."""
    entities = _names(path / ENTITIES, options, "entity")
    relations = _names(path / RELATIONS, options, "relation")
    sheets: dict[Split, Sheet] = {}
    for split in SPLITS:
        file = path / f"{split}2id.txt"
        if file.is_file():
            sheets[split] = _facts(file, options, entities, relations)
    return Found(sheets, notes=["read as a folder of OpenKE: its lines are head, tail, relation"])


def _table(path: Path, options: ReadOptions) -> tuple[pl.Series, pl.Series]:
    """The lines after the count, and their numbers. The count must be right."""
    try:
        text = read_lines(path, options.most_gb).decode()
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8") from None
    lines = pl.DataFrame({"text": pl.Series([text]).str.split("\n").explode()}).with_row_index("line", offset=1)
    lines = lines.filter(pl.col("text").str.strip_chars() != "")
    first = lines["text"][0].strip() if len(lines) else ""
    if not first.isdecimal():
        raise BadInput(f"{path}:1: {first[:50]!r} is not the count of the lines that follow")
    if int(first) != len(lines) - 1:
        raise BadInput(
            f"{path}:1: the file says that {first} lines follow, but there are {len(lines) - 1:,}; is it cut short?"
        )
    return lines["text"][1:], lines["line"][1:]


def _names(path: Path, options: ReadOptions, kind: str) -> pl.Series:
    text, lines = _table(path, options)
    parts = pl.select(pl.lit(text).str.extract_groups(r"^(.*\S)\s+(\S+)\s*$")).to_series().struct.unnest()
    name, number = parts.get_columns()
    if number.null_count():
        raise BadInput(f"{path}:{lines[int(number.is_null().arg_true()[0])]}: a name and a number are needed")
    return names_by_number(path, number, name, kind)


def _facts(path: Path, options: ReadOptions, entities: pl.Series, relations: pl.Series) -> Sheet:
    text, lines = _table(path, options)
    parts = pl.select(pl.lit(text).str.extract_groups(r"^\s*(\S+)\s+(\S+)\s+(\S+)\s*$")).to_series().struct.unnest()
    head, tail, relation = parts.get_columns()
    if head.null_count():
        raise BadInput(
            f"{path}:{lines[int(head.is_null().arg_true()[0])]}: three numbers are needed: head, tail, relation"
        )
    _check_order(path, tail, relation, len(relations))
    rows = fact_rows(
        named(path, head, entities, "entity", lines),
        named(path, relation, relations, "relation", lines),
        named(path, tail, entities, "entity", lines),
    )
    return Sheet(str(path), rows, FACT_TITLES, lines)


def _check_order(path: Path, second: pl.Series, third: pl.Series, relations: int) -> None:
    """Refuse lines in the order head, relation, tail: the second column fits the relations, the third does not."""
    highest = [column.cast(pl.Int64, strict=False).max() for column in (second, third)]
    second_most, third_most = (int(value) if isinstance(value, int) else -1 for value in highest)
    if third_most >= relations > second_most >= 0:
        raise BadInput(
            f"the lines of {path} look like head, relation, tail (the third column goes up to {third_most}, but there "
            f"are {relations} relations); OpenKE writes head, tail, relation"
        )
