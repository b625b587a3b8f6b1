"""Stored graphs: a graph as ids in a folder that is opened at once, whatever its size.

The files of names and facts are those of a run folder, which uses the same functions. graph.json makes the folder a stored graph:
it holds the format, the counts and the digest. Names are read when one is needed; facts are mapped into memory. The folder may
come from a stranger, so everything is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dura.data.graph import Graph
from dura.data.names import read_vocabulary
from dura.data.readers import MANIFEST
from dura.data.stored_descriptions import read_descriptions, write_descriptions
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.records import GRAPH, Damage, disk_error, read_json, write_atomic
from dura.records.reading import MOST_JSON, open_file
from dura.records.schema import check
from dura.records.tensors import Pieces, read_header, read_integers, serialized
from dura.text import printable, shown
from dura.types import SPLITS, BadInput, DuraError, IntArray, Sizes, Split, __version__

FORMAT = 1
"""The newest format of stored graphs that this program reads, and the one it writes."""
WIDEST = 5
"""The number of columns of a fact with begin and end."""
ROWS = 1 << 20
"""How many facts are looked at in one go."""


def is_stored(folder: Path) -> bool:
    """True if the folder holds a stored graph."""
    return (folder / MANIFEST).is_file()


def store(graph: Graph, out: str | Path) -> Path:
    """Write a graph into a new folder, which `dura.load` and `dura train --graph` read faster than files of names.

    >>> store(load("umls"), "stored/umls")  # doctest: +SKIP
    """
    folder = new_folder(Path(out))
    finish(folder, write_files(folder, graph))
    return folder


def check_free(path: Path) -> None:
    """Refuse to store a graph in a folder that holds files."""
    if is_stored(path):
        raise BadInput(f"{path} already holds a stored graph; name a new folder with --out")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} is not an empty folder; name a new one with --out")


def new_folder(path: Path) -> Path:
    """Make the folder of a new stored graph. A folder that holds files is refused."""
    check_free(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, path, "name another folder") from error
    return path


def finish(folder: Path, about: Mapping[str, Any], planted: Mapping[str, Any] | None = None) -> None:
    """Write graph.json. From now on the folder is a stored graph. There is no date in it, so equal graphs have equal bytes."""
    document = {"format": FORMAT, "dura": __version__, "graph": dict(about)} | ({"planted": planted} if planted else {})
    write_atomic(folder / MANIFEST, (json.dumps(document, indent=2) + "\n").encode())


def read_stored(folder: Path) -> Graph:
    """The graph in a folder."""
    about = describe(folder)["graph"]
    graph = read_files(folder, about, MANIFEST)
    if graph.digest != about["digest"]:
        raise Damage(
            f"the stored graph {folder} was changed or damaged: its digest differs from the one in {MANIFEST}; make it again"
        )
    return graph


def describe(folder: Path) -> dict[str, Any]:
    """The content of graph.json. A graph of a newer program is refused."""
    found = read_json(folder, MANIFEST)
    version = found.get("format")
    if type(version) is int and version > FORMAT:
        raise DuraError(
            f"the stored graph {folder} has format {shown(version)}, but this dura reads formats up to {FORMAT}; update dura"
        )
    try:
        check(found, {"format": Annotated[int, 1, FORMAT], "graph": GRAPH, "planted?": {}})
    except BadInput as error:
        raise Damage(f"{folder / MANIFEST} is damaged: {error}") from None
    return found


# -- the files of names and facts, in stored graphs and in run folders ----------------------------------------------


def write_files(folder: Path, graph: Graph) -> dict[str, Any]:
    """Write vocabularies, labels, types, descriptions and facts. Returns what the manifest says about the graph."""
    write_atomic(folder / "entities.txt", graph.entities.pieces())
    write_atomic(folder / "relations.txt", graph.relations.pieces())
    if graph.times is not None:
        write_atomic(folder / "times.txt", graph.times.pieces())
    write_descriptions(folder, graph)
    facts: dict[str, Pieces] = {split: Pieces.of(graph.facts(split).astype(np.int32, copy=False)) for split in SPLITS}
    write_atomic(folder / "facts.safetensors", serialized(facts))
    return about_graph(graph)


def about_graph(graph: Graph) -> dict[str, Any]:
    """Name, digest and counts."""
    return {
        "name": graph.name,
        "digest": graph.digest,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        **({"times": len(graph.times)} if graph.times is not None else {}),
        **{split: len(graph.facts(split)) for split in SPLITS},
    }


def read_files(folder: Path, about: Mapping[str, Any], manifest: str) -> Graph:
    """The graph whose counts the manifest gives. Its digest must still be compared."""
    entities = read_vocabulary(Vocabulary, folder, "entities.txt", about["entities"], manifest)
    relations = read_vocabulary(Vocabulary, folder, "relations.txt", about["relations"], manifest)
    times = read_vocabulary(Times, folder, "times.txt", about["times"], manifest) if about.get("times") else None
    facts = read_facts(folder, {split: about[split] for split in SPLITS}, manifest)
    assert times is None or isinstance(times, Times)
    name = printable(about["name"], lines=False)
    graph = Graph(name, entities, relations, facts["train"], facts["valid"], facts["test"], times=times, home=folder)
    _check_ids(folder / "facts.safetensors", graph)
    return read_descriptions(folder, graph)


def read_facts(folder: Path, counts: Mapping[Split, int], manifest: str) -> dict[str, IntArray]:
    """The facts of each split. There must be as many as the manifest says."""
    path, facts = folder / "facts.safetensors", dict[str, IntArray]()
    with open_file(folder, path.name, MOST_JSON + 4 * WIDEST * sum(counts.values())) as (file, size):
        stored = read_header(file, size, path)
        for split, count in counts.items():
            found = stored.get(split)
            fits = found is not None and found.dtype == "I32" and len(found.shape) == 2 and found.shape[0] == count
            if found is None or not fits or found.shape[1] > WIDEST:
                raise Damage(f"{path} is damaged: {split} must be {count:,} rows of int32 numbers, as {manifest} says")
            facts[split] = read_integers(file, found)
    return facts


def _check_ids(path: Path, graph: Graph) -> None:
    """Refuse facts with ids that the graph does not have, and intervals that end before they begin."""
    sizes: Sizes = graph.sizes
    limits = (sizes.entities, sizes.relations, sizes.entities, *2 * (sizes.times,))
    none = 0 if graph.times is None else len(graph.times.positions)
    for split in SPLITS:
        for facts in _blocks(graph.facts(split)):
            for ids, names in zip(facts.T, limits, strict=False):
                if not 0 <= ids.min() <= ids.max() < names:
                    raise Damage(
                        f"{path} is damaged: {split} has an id that is not among the {names:,} names of its column"
                    )
            if facts.shape[1] == WIDEST:
                begin, end = facts[:, 3], facts[:, 4]
                if ((begin > end) | ((begin == none) != (end == none))).any():
                    raise Damage(f"{path} is damaged: {split} has a fact that ends before it begins")


def _blocks(facts: IntArray) -> Iterator[IntArray]:
    return (facts[at : at + ROWS] for at in range(0, len(facts), ROWS))
