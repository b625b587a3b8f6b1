"""Readers: files to sheets. Every bad line is reported as file:line.

READERS is the table of formats: file ending -> the function that reads such files. A reader takes a path and the user's
ReadOptions, and returns a Sheet: rows of text. It never guesses what the columns hold. It gets the bytes of a file, plain or
compressed, from `opening`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import cast

from dura.config.sections import Unit
from dura.data.opening import COMPRESSIONS, MOST_GB, STANDARD_INPUT, endings, inner, open_stream, stem
from dura.data.sheet import Sheet
from dura.types import BadInput

FACT = ("head", "relation", "tail")
POINT = (*FACT, "time")
INTERVAL = (*FACT, "begin", "end")
FACTS = (FACT, POINT, INTERVAL)
"""The possible columns of a fact: without a time, with one, or with the begin and the end of the time in which it holds."""
Roles = tuple[str, ...]
"""What the wanted columns hold, in order. Columns after head, relation and tail may be empty or missing in a line."""
ColumnChoice = Sequence[int | str] | str
"""Columns that a user chooses, by position or by name; as text they are separated by commas."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file.

    `columns` are chosen by position (0, 1, 2) or by header name: head, relation and tail, then the time, or begin and end.
    `time` chooses the column of the time, or those of begin and end, alone; `columns` then chooses head, relation and tail
    only, or is None. If `header` is None, the first line is a header only if it holds well-known names or if columns are
    chosen by name. `time_format`, `time_unit` and `time_zone` say how times are written, cut and placed. `query` asks a database.
    A file that holds more than `most_gb` gigabytes when it is unpacked is refused. `format` is an ending, if the file's own says
    nothing. `entities` and `relations` are files with labels, types and descriptions.
    """

    columns: ColumnChoice | None = None
    header: bool | None = None
    separator: str | None = None
    skip_bad: bool = False
    time: int | ColumnChoice | None = None
    time_format: str | None = None
    time_unit: Unit = "auto"
    time_zone: str = "UTC"
    query: str | None = None
    most_gb: float = MOST_GB
    format: str = ""
    entities: str | Path | None = None
    relations: str | Path | None = None

    def __post_init__(self) -> None:
        if self.header not in (None, True, False):
            raise BadInput(f"header must be True, False or None (recognised), not {self.header!r}")
        if self.skip_bad not in (True, False):
            raise BadInput(f"skip_bad must be True or False, not {self.skip_bad!r}")
        object.__setattr__(self, "format", self.format.removeprefix(".").lower())

    @property
    def chosen(self) -> tuple[int | str, ...] | None:
        """The chosen columns one by one.

        >>> ReadOptions(columns="0, 2,name").chosen
        (0, 2, 'name')
        """
        return None if self.columns is None else one_by_one(self.columns)

    def with_columns(self, columns: ColumnChoice) -> ReadOptions:
        """The same options with all columns of facts chosen, those of times included."""
        return replace(self, columns=columns, time=None)


def one_by_one(choice: ColumnChoice) -> tuple[int | str, ...]:
    """The columns of a choice; text is split at its commas, and decimal numbers in it are positions."""
    if not isinstance(choice, str):
        return tuple(choice)
    parts = [part.strip() for part in choice.split(",")]
    return tuple(int(part) if part.isdecimal() else part for part in parts)


Reader = Callable[[Path, ReadOptions], Sheet]
READERS = {
    ".tsv": "separated.read_tsv",
    ".txt": "separated.read_tsv",
    ".tab": "separated.read_tsv",
    ".csv": "sources.neo4j.read_any_csv",
    ".parquet": "sources.columnar.read_parquet",
    ".arrow": "sources.columnar.read_arrow",
    ".feather": "sources.columnar.read_arrow",
    ".ipc": "sources.columnar.read_arrow",
    ".jsonl": "sources.jsonl.read_jsonl",
    ".ndjson": "sources.jsonl.read_jsonl",
    ".json": "sources.jsonl.read_json",
    ".nt": "sources.rdf.read_ntriples",
    ".nq": "sources.rdf.read_nquads",
    ".ttl": "sources.rdf.read_turtle",
    ".n3": "sources.rdf.read_turtle",
    ".trig": "sources.rdf.read_trig",
    ".rdf": "sources.rdf.read_xml",
    ".owl": "sources.rdf.read_xml",
    ".xml": "sources.rdf.read_xml",
}
"""Ending -> module and function of its Reader, imported when a file needs it. An ending of COMPRESSIONS may follow."""
MANIFEST = "graph.json"
"""The file that makes a folder a stored graph."""
FILE_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "entities": "entities",
    "relations": "relations",
}
"""File names in a graph's folder, without endings, and what the files hold. `describing` reads entities and relations."""


def read_sheet(path: Path, options: ReadOptions) -> Sheet:
    """Read a file, or standard input if the path is `-`, by the format that the options or the file's ending name."""
    ending = f".{options.format}" if options.format else endings(inner(path))[0]
    if ending in READERS:
        return _reader(ending)(path, options)
    if options.separator is not None:
        return _reader(".tsv")(path, options)
    if path == STANDARD_INPUT:
        raise BadInput(f"what is the format of standard input? Name it with --format: {', '.join(_formats())}")
    if options.format or path.is_file():
        known = ", ".join(READERS)
        what = f"the format {options.format!r} is not known" if options.format else f"{path} has an unknown ending"
        raise BadInput(
            f"{what}; known are {known} (also with {', '.join(COMPRESSIONS)}); name the format with --format, or the separator "
            "of the fields with --separator"
        )
    with open_stream(path, options.most_gb):  # says what is wrong
        raise BadInput(f"{path} is not a file")


def _formats() -> list[str]:
    return [ending.removeprefix(".") for ending in READERS]


def _reader(ending: str) -> Reader:
    module, function = READERS[ending].rsplit(".", 1)
    return cast(Reader, getattr(import_module(f"dura.data.{module}"), function))


def split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that hold train, valid, test, entities and relations and whose ending is in READERS.

    Two files for one of them are an error.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = FILE_NAMES.get(stem(path))
        if name is None or endings(path)[0] not in READERS or not path.is_file():
            continue
        if name in found:
            raise BadInput(f"{folder} has two files for {name}, {found[name].name} and {path.name}; keep one")
        found[name] = path
    return found
