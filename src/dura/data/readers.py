"""Readers: files of facts to columns of names, with every bad line reported as file:line.

READERS is the table of formats (ending -> reader); how TSV and CSV are read stands in `separated`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from dura.data.files import endings, read_bytes, stem
from dura.data.separated import read_separated
from dura.data.table import ReadOptions, Roles, Table
from dura.types import BadInput

Reader = Callable[[Path, ReadOptions, Roles | None], Table]
FILE_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "entities": "entities",
}
"""What the files of a graph's folder are called, and what they hold; entities is id<TAB>label."""

READERS: dict[str, Reader] = {
    ".tsv": partial(read_separated, separator="\t", quotes=False),
    ".txt": partial(read_separated, separator="\t", quotes=False),
    ".tab": partial(read_separated, separator="\t", quotes=False),
    ".csv": partial(read_separated, separator=",", quotes=True),
}
"""Ending -> reader; each ending may be followed by .gz or .zst."""


def read_columns(path: Path, options: ReadOptions | None = None, roles: Roles | None = None) -> Table:
    """Read the columns that stand for `roles` from a file whose ending is in READERS, plain or compressed.

    Without roles they are those of a fact: head, relation, tail, and time or begin and end where the options choose as many
    columns or the header names them.
    """
    options = options or ReadOptions()
    ending, _ = endings(path)
    if ending in READERS:
        return READERS[ending](path, options, roles)
    if options.separator is not None:
        return read_separated(path, options, roles, separator=options.separator, quotes=False)
    if path.is_dir() or not path.exists():
        read_bytes(path)
    known = ", ".join(READERS)
    raise BadInput(f"{path} has an unknown ending; known are {known} (also with .gz or .zst), or give a separator")


def split_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that hold train, valid, test and entities, with an ending a reader takes.

    Valid may be called validation, val or dev; two files for one of them are an error.
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
