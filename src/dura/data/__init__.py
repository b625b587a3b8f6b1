"""The data room: from files of facts to arrays of ids, and back to names.

A fact of a TSV file passes these modules, in this order:
  loading      load(source): a NAME, FOLDER, FILE, database or standard input to a Graph
  readers      files to sheets; READERS, the table of formats; ReadOptions, what the user says
  opening      the bytes of plain and compressed files, as a stream with a ceiling
  separated    TSV and CSV
  sheet        Sheet: rows of text, before it is known what the columns hold; BadLines
  recognition  which column is head, relation, tail and time; words: what titles say; columns: a time that the user named
  facts        sheets to columns of names; what is implausible is a warning or an error
  assembly     columns of names to a Graph, with everything that the user should know
  vocabulary   sorted names <-> ids
  split        train, valid and test from one list of facts; readoff: what train gives away of test
  graph        Graph: train, valid and test as ids
  questions    Questions: distinct questions with their answers (the training set, and the known answers of evaluation)
Other facts pass some of these too:
  memory       from_facts: facts in memory to a Graph
  sources      facts that are not in files of lines: Parquet, JSON Lines, RDF, Neo4j, other programs, databases, data frames
  catalog      the known graphs (catalog.toml), and where they are; download: their files into the cache
  layouts      how the lines of published temporal graphs say when a fact holds
  dates        decide, Rule: columns of dates in any usual form, turned into one spelling; forms: the ways to write a time;
               day_month: which comes first; days: the calendar for columns
  times        Times: a vocabulary of times in their real order with their real distances
  exporting    a graph as files for other programs; WRITERS, the table of formats
Large graphs:
  stored       store(graph, folder): a graph as ids in a folder; names: a vocabulary that stays in its file
  large        questions of many facts, made and shuffled in parts; kept: their files in the folder of the graph
  synthesis    synth(folder): a graph of any size from a seed; patterns: what it plants
Labels:
  descriptions Descriptions: labels, types and descriptions of names; find(label): what is meant by a label
  describing   files and columns to Descriptions; stored_descriptions: their files in stored graphs and run folders
About graphs:
  categories   1-1, 1-N, N-1, N-N
  leaks        relations that repeat or invert others
  doctor       check(source): what is wrong with a graph or worth knowing about it

This room knows no model and needs no torch. Of dura it imports types and text, and records and config for files and settings.
To add a file format: write a Reader, a function (path, options) -> Sheet, and give it a row in READERS. It never guesses what the
columns hold. To write one: a function (frame, path) and a row in WRITERS.
To add a published graph: write a table in catalog.toml with addresses, checksums and counts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dura.data.graph import Graph
    from dura.data.loading import load
    from dura.data.memory import from_facts
    from dura.data.stored import store
    from dura.data.synthesis import synth

__all__ = ["Graph", "from_facts", "load", "store", "synth"]

_HOMES = {
    "Graph": "dura.data.graph",
    "from_facts": "dura.data.memory",
    "load": "dura.data.loading",
    "store": "dura.data.stored",
    "synth": "dura.data.synthesis",
}


def __getattr__(name: str) -> Any:
    # Imported late, so that code that only needs a part of the room does not load all of it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dura.data' has no attribute {name!r}")
