"""Catalog: the known graphs, and where they are on this machine.

A name is looked up in the folders that DURA_DATA names (separated as in PATH), then in the download cache (DURA_CACHE, else
$XDG_CACHE_HOME/dura, else ~/.cache/dura), then among the bundled graphs. Case does not matter. A folder in DURA_DATA that holds
a train file or a stored graph is a graph too, even if it is not in the catalog. The files of catalog graphs are checked against
the published checksums before they are used.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.data.opening import read_lines
from dura.data.readers import MANIFEST, split_files
from dura.types import SPLITS, BadInput, Split

if TYPE_CHECKING:
    from dura.data.graph import Graph

HERE = Path(__file__).parent
BUNDLED = "bundled"
DOWNLOAD = "can be downloaded"


@dataclass(frozen=True)
class Published:
    """One published file: number of facts, checksum ("sha256:…"), address ("" if bundled), size in bytes (0 if unknown)."""

    facts: int
    digest: str
    address: str = ""
    size: int = 0

    def mismatch(self, data: bytes) -> str:
        """How data with LF line ends differs from the published file; "" if it does not."""
        algorithm, _, wanted = self.digest.partition(":")
        found = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
        return "" if found == wanted else f"its {algorithm} is {found[:12]}… instead of {wanted[:12]}…"


@dataclass(frozen=True)
class Entry:
    """A graph of the catalog: its topic, published counts, files, source and licence."""

    name: str
    about: str
    entities: int
    relations: int
    source: str
    licence: str
    files: Mapping[Split, Published]
    times: str = ""
    """The times of a temporal graph in words, such as "365 days"."""
    timestamps: int = 0
    """How many times a temporal graph has, including the extra time of facts without a time."""
    layout: str = ""
    """How its lines say when a fact holds: a row of LAYOUTS."""
    bundled: bool = False


@dataclass(frozen=True)
class Listing:
    """A graph in the list of graphs. `where` is "bundled", a folder, or "can be downloaded"."""

    name: str
    where: str
    path: Path | None
    entry: Entry | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON. A graph that is not in the catalog has only name, where and path."""
        about = asdict(self.entry) if self.entry else {}
        return {
            "name": self.name,
            "where": self.where,
            "path": str(self.path) if self.path else None,
            **about,
        }


@cache
def entries() -> dict[str, Entry]:
    """The catalog by name."""
    tables = tomllib.loads((HERE / "catalog.toml").read_text(encoding="utf-8"))
    return {name: _entry(name, table) for name, table in tables.items()}


def _entry(name: str, table: dict[str, Any]) -> Entry:
    files = {split: Published(**table["files"][split]) for split in SPLITS}
    return Entry(**{**table, "name": name, "files": files})


def cache_folder() -> Path:
    """Where downloads are kept."""
    if os.environ.get("DURA_CACHE"):
        return Path(os.environ["DURA_CACHE"])
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "dura"


def data_folders() -> list[Path]:
    """The folders that DURA_DATA names."""
    return [Path(part) for part in os.environ.get("DURA_DATA", "").split(os.pathsep) if part]


def _graph_folders(parent: Path) -> Iterator[Path]:
    """The folders inside a folder that hold a train file or a stored graph; none if the folder does not exist."""
    try:
        folders = sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return
    for folder in folders:
        try:
            found = "train" in split_files(folder) or (folder / MANIFEST).is_file()
        except BadInput:
            found = True  # it has two train files, which is an error when it is read
        except OSError:
            found = False
        if found:
            yield folder


def find(name: str) -> Listing | None:
    """The graph with this name, or None."""
    wanted = name.casefold()
    entry = entries().get(wanted)
    downloaded = [cache_folder()] if entry is not None and not entry.bundled else []
    for parent in [*data_folders(), *downloaded]:
        for folder in _graph_folders(parent):
            if folder.name.casefold() == wanted:
                return Listing(entry.name if entry else folder.name, str(folder), folder, entry)
    if entry is None:
        return None
    if entry.bundled:
        return Listing(entry.name, BUNDLED, HERE / "bundled" / entry.name, entry)
    return Listing(entry.name, DOWNLOAD, None, entry)


def look_up(name: str) -> Listing:
    """The graph with this name. The error for an unknown name lists the known ones."""
    listing = find(name)
    if listing is None:
        raise BadInput(unknown(name))
    return listing


def unknown(name: str) -> str:
    """The sentence for a name that is not a graph."""
    names = [listing.name for listing in list_graphs()]
    near = difflib.get_close_matches(name.casefold(), names, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    lost = [str(folder) for folder in data_folders() if not folder.is_dir()]
    also = f"; DURA_DATA names {', '.join(lost)}, which is not a folder" if lost else ""
    known = ", ".join(names)
    return f"{name!r} is neither a known graph nor a file or folder{hint} (known graphs: {known}{also})"


def list_graphs() -> list[Listing]:
    """The graphs of the catalog and the others in the folders of DURA_DATA, and where each is."""
    others = {folder.name: folder for parent in reversed(data_folders()) for folder in _graph_folders(parent)}
    names = [*entries(), *sorted(name for name in others if name.casefold() not in entries())]
    return [listing for name in names if (listing := find(name)) is not None]


def show(name: str) -> dict[str, Any]:
    """What is known about a graph, as plain values for JSON. `problem` says what is wrong with its files, if anything."""
    listing = look_up(name)
    problem = None
    try:
        verify(listing)
    except BadInput as error:
        problem = str(error)
    return {**listing.to_dict(), "problem": problem}


def verify(listing: Listing) -> None:
    """Check the files of a catalog graph against the published checksums. Other graphs have none."""
    if listing.entry is None or listing.path is None:
        return
    files = split_files(listing.path)
    for split, published in listing.entry.files.items():
        if split not in files:
            raise BadInput(f"the folder {listing.path} of the graph {listing.name} lacks its {split} file")
        mismatch = published.mismatch(read_lines(files[split]))
        if mismatch:
            raise BadInput(
                f"{files[split]} is not the published {split} file of {listing.name}: {mismatch}; put the "
                "right file there, or give the folder as a path to read it without this check"
            )


def check_counts(entry: Entry, graph: Graph, folder: Path) -> None:
    """Check a graph's counts against the published ones: some published files have only a weak checksum."""
    sizes = graph.sizes
    timed = entry.timestamps > 0
    found = (sizes.entities, sizes.relations, *[sizes.times] * timed, *(len(graph.facts(split)) for split in SPLITS))
    wanted = (entry.entities, entry.relations, *[entry.timestamps] * timed)
    wanted = (*wanted, *(entry.files[split].facts for split in SPLITS))
    if found != wanted:
        times = "times, " if timed else ""
        raise BadInput(
            f"the files in {folder} are not the published {entry.name}: the numbers of entities, relations, {times}train, "
            f"valid and test facts are {found} instead of {wanted}"
        )
