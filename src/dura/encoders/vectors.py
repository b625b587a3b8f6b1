"""Vectors: the text vectors of entities and relations in a safetensors file, with the names they belong to.

The file holds `entities` [n, w] and `relations` [m, w] as float32, and `entities.names` and `relations.names`: UTF-8 bytes, one
name per line. Its metadata says which encoder made it. It holds no code, and it is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dura.records import write_atomic
from dura.text import shown
from dura.types import BadInput

Vectors = NDArray[np.float32]
KINDS = ("entities", "relations")


@dataclass(frozen=True)
class TextVectors:
    """Vectors by name, for entities and for relations. Row i of `rows[kind]` belongs to `names[kind][i]`."""

    names: Mapping[str, list[str]]
    rows: Mapping[str, Vectors]
    encoder: str
    """The name of the encoder's folder."""

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.rows[KINDS[0]].shape[1])

    def of(self, kind: str, names: Iterable[str], where: object) -> Vectors:
        """The vectors of these names, in their order. A name without a vector is refused; `where` names the file."""
        place = {name: at for at, name in enumerate(self.names[kind])}
        wanted = list(names)
        if missing := [name for name in wanted if name not in place]:
            raise BadInput(
                f"{where} has no vectors for {len(missing):,} of the {len(wanted):,} {kind} of the graph, such as "
                f"{shown(missing[0])}; make the file again for this graph with: dura text"
            )
        chosen: Vectors = self.rows[kind][np.array([place[name] for name in wanted], dtype=np.int64)]
        return chosen


def write_vectors(path: Path, vectors: TextVectors) -> None:
    """Write the file completely or not at all."""
    from safetensors.numpy import save

    tensors: dict[str, NDArray[Any]] = {kind: np.ascontiguousarray(vectors.rows[kind], np.float32) for kind in KINDS}
    for kind in KINDS:
        text = "".join(f"{name}\n" for name in vectors.names[kind]).encode()
        tensors[f"{kind}.names"] = np.frombuffer(text, np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, save(tensors, {"encoder": vectors.encoder, "format": "1"}))


def read_vectors(path: Path) -> TextVectors:
    """The vectors of a file that `write_vectors` wrote."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise BadInput(f"there is no file {path} with text vectors; make it with: dura text GRAPH --out {path}")
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            found = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise BadInput(f"{path} holds no text vectors: it is not a whole safetensors file ({error})") from None
    if set(found) != {*KINDS, *(f"{kind}.names" for kind in KINDS)}:
        raise BadInput(f"{path} holds no text vectors: make it with dura text")
    names = {kind: _lines(found[f"{kind}.names"], path) for kind in KINDS}
    rows = {kind: found[kind] for kind in KINDS}
    widths = {kind: rows[kind].shape[1:] for kind in KINDS}
    fits = all(rows[kind].dtype == np.float32 and len(rows[kind]) == len(names[kind]) for kind in KINDS)
    if not fits or len(set(widths.values())) > 1 or any(len(shape) != 1 for shape in widths.values()):
        raise BadInput(f"{path} is damaged: its names and its vectors do not fit each other")
    if not all(np.isfinite(rows[kind]).all() for kind in KINDS):
        raise BadInput(f"{path} is damaged: some of its numbers are not finite")
    return TextVectors(names, rows, str(about.get("encoder", "")))


def _lines(bytes_: NDArray[Any], path: Path) -> list[str]:
    try:
        return bytes_.astype(np.uint8).tobytes().decode().split("\n")[:-1]
    except UnicodeDecodeError:
        raise BadInput(f"{path} is damaged: its names are not UTF-8 text") from None
