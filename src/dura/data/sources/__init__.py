"""Sources other than files of lines: each module turns one kind of source into a Sheet.

  found      Found and Described: sheets with labels, types and descriptions
  cells      columns of any type to text
  columnar   Parquet and Arrow files; claims: how much memory they ask for
  jsonl      JSON Lines, also from apoc.export.json
  rdf        N-Triples, N-Quads, Turtle, TriG and RDF/XML; guards: hostile files; iris: labels for people
  neo4j      admin-import CSV files and apoc.export.csv
  openke     folders of numbered facts; numbered: from numbers to names
  pykeen     folders that TriplesFactory.to_path_binary wrote
  databases  queries: sql (SQLite, DuckDB, PostgreSQL), sparql (endpoints; web, terms)
  frames     data frames, arrays, graphs and rows in memory

A reader of files is a function (path, options) -> Sheet, a loader of folders is a function (path, options) -> Found. Neither
guesses which column is what: a sheet has titles that say it, or none. A library that is not a dependency of dura is imported
inside of a function.
To add a kind of file: write a reader here and give its ending a row in `readers.READERS`. To add a kind of folder: write
`fits(path)` and `load(path, options)` in a module, and name it in FOLDERS.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dura.data.readers import ReadOptions
    from dura.data.sources.found import Found

FOLDERS = ("openke", "pykeen", "neo4j")
"""The modules that know a kind of folder, in the order in which they are asked."""

Loader = Callable[[Path, "ReadOptions"], "Found"]


def folder_kind(path: Path) -> Loader | None:
    """The loader of a folder that another program wrote, or None if it is an ordinary folder."""
    for name in FOLDERS:
        module = import_module(f"dura.data.sources.{name}")
        if module.fits(path):
            return cast(Loader, module.load)
    return None
