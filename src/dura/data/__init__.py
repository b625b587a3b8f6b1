"""From files of facts to arrays of ids, and back to names.

This room holds
  files        bytes of a plain, .gz or .zst file, with one sentence for whatever may be wrong with it
  readers      files to columns of names (table READERS: ending -> reader); separated: TSV, CSV; table: Table
  vocabulary   sorted names <-> ids
  times        Times: the vocabulary of times, in their real order with their real distances
  columns      which columns of a file hold the times
  layouts      how the lines of published graphs say when a fact holds; columns of times to ids
  graph        Graph: train, valid and test as ids
  questions    Questions: distinct questions with their answers (training set, known answers of evaluation)
  split        one list of facts to train, valid and test, without unseen entities or relations
  categories   1-1, 1-N, N-1, N-N
  catalog      the known graphs: bundled, found in DURA_DATA, in the cache, or to be downloaded (catalog.toml)
  download     published files into the cache, checked and all at once
  loading      load(source): NAME, FOLDER or FILE to Graph; from_facts (memory): names to Graph
  leaks        relations that repeat others, in the same or the other direction
  cost         what training takes on this machine, before it begins
  doctor       check(source): what is wrong or worth knowing about a graph

It may touch types, registry, config and records, never models or anything above. No torch here.
To add a file format: write a function (path, options, roles) -> Table and give it a row in READERS.
To add a published graph: a table in catalog.toml with addresses, checksums and counts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dura.data.graph import Graph
    from dura.data.loading import load
    from dura.data.memory import from_facts

__all__ = ["Graph", "from_facts", "load"]

_HOMES = {"Graph": "dura.data.graph", "from_facts": "dura.data.memory", "load": "dura.data.loading"}


def __getattr__(name: str) -> Any:
    # Late, so that importing the room for its catalog or types does not pay for polars.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dura.data' has no attribute {name!r}")
