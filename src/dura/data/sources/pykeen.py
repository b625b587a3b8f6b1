"""PyKEEN: folders that `TriplesFactory.to_path_binary` or `Dataset.to_directory_binary` wrote.

numeric_triples.tsv.gz holds the facts as numbers, entity_to_id.tsv.gz and relation_to_id.tsv.gz the names. base.pth and
metadata.pth are pickles, which can run any code, so they are never opened. Nothing that a graph needs is in them.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl

from dura.data.opening import read_lines
from dura.data.readers import ReadOptions
from dura.data.sheet import Sheet
from dura.data.sources.found import FACT_TITLES, Found, fact_rows
from dura.data.sources.numbered import ARTICLES, named
from dura.types import BadInput, Split

FACTS, ENTITIES, RELATIONS = "numeric_triples.tsv.gz", "entity_to_id.tsv.gz", "relation_to_id.tsv.gz"
FOLDERS: dict[str, Split] = {"training": "train", "validation": "valid", "testing": "test"}


def fits(path: Path) -> bool:
    """Whether a folder holds a TriplesFactory, or one per split."""
    return (path / FACTS).is_file() or (path / "training" / FACTS).is_file()


def load(path: Path, options: ReadOptions) -> Found:
    """Read a folder."""
    folders = {path: "train"} if (path / FACTS).is_file() else {path / name: split for name, split in FOLDERS.items()}
    sheets: dict[Split, Sheet] = {}
    for folder, split in folders.items():
        if (folder / FACTS).is_file():
            sheets[split] = _facts(folder, options)  # type: ignore[index]
    return Found(sheets, notes=["read as a folder of PyKEEN; its pickles (.pth) are not opened"])


def _facts(folder: Path, options: ReadOptions) -> Sheet:
    path = folder / FACTS
    table, lines = _table(path, FACT_TITLES, options)
    entities, relations = _names(folder / ENTITIES, options), _names(folder / RELATIONS, options)
    rows = fact_rows(
        _named(path, table["head"], entities, "entity", lines),
        _named(path, table["relation"], relations, "relation", lines),
        _named(path, table["tail"], entities, "entity", lines),
    )
    return Sheet(str(path), rows, FACT_TITLES, lines)


def _names(path: Path, options: ReadOptions) -> pl.DataFrame | None:
    """Numbers and names. A CoreTriplesFactory has none; its names are the numbers."""
    if not path.is_file():
        return None
    table, lines = _table(path, ("id", "label"), options)
    numbers = table["id"].cast(pl.Int64, strict=False)
    wrong = (numbers.is_null() | numbers.is_duplicated()).arg_true()
    if len(wrong):
        raise BadInput(
            f"{path}:{lines[int(wrong[0])]}: the id {table['id'][int(wrong[0])]!r} is no number, or is given twice"
        )
    names = table["label"]
    if names.is_duplicated().any():
        raise BadInput(f"{path} gives two ids the label {names.filter(names.is_duplicated())[0]!r}")
    return pl.DataFrame({"id": numbers, "label": names})


def _named(path: Path, numbers: pl.Series, names: pl.DataFrame | None, kind: str, lines: pl.Series) -> pl.Series:
    if names is None:
        return numbers
    table = names.sort("id")
    if len(table) and table["id"].to_list() == list(range(len(table))):
        return named(path, numbers, table["label"], kind, lines)
    found = pl.DataFrame({"id": numbers.cast(pl.Int64, strict=False)}).join(
        names, on="id", how="left", maintain_order="left"
    )
    wrong = found["label"].is_null().arg_true()
    if len(wrong):
        raise BadInput(
            f"{path}:{lines[int(wrong[0])]}: {numbers[int(wrong[0])]!r} is not the id of {ARTICLES[kind]} {kind}"
        )
    return found["label"]


def _table(path: Path, titles: tuple[str, ...], options: ReadOptions) -> tuple[pl.DataFrame, pl.Series]:
    """The columns with these titles, and the line numbers. pandas wrote these files, so fields with a tab or a quote are quoted."""
    data = read_lines(path, options.most_gb)
    try:
        if b'"' in data:
            records = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter="\t", strict=True))
            columns = list(zip(*records[1:], strict=True)) if len(records) > 1 else [()] * len(records[0])
            table = pl.DataFrame(
                dict(zip(records[0], columns, strict=True)), schema=dict.fromkeys(records[0], pl.String)
            )
        else:
            table = pl.read_csv(data, separator="\t", infer_schema=False, quote_char=None).fill_null("")
    except (csv.Error, ValueError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{path} is not a table of PyKEEN: {str(error).splitlines()[0][:200]}") from None
    if not set(titles) <= set(table.columns):
        raise BadInput(f"{path} needs the columns {', '.join(titles)}, but has {', '.join(table.columns[:10])}")
    return table, pl.arange(2, len(table) + 2, eager=True, dtype=pl.UInt32).alias("line")
