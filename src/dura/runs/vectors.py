"""Vectors: write the tables of a run with their names, in formats that other programs read.

A format is a function (folder, tables) that writes files. OUT is a new folder. about.json says what is in it; it holds nothing that
depends on this program.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.models.combined import refuse_combined
from dura.records import disk_error, write_atomic
from dura.runs.shapes import KINDS, Kind, rows_per_name
from dura.tables import Packed
from dura.types import BadInput, __version__

if TYPE_CHECKING:
    from dura.runs.trained import Trained

Form = Literal["numpy", "parquet", "word2vec", "safetensors"]
FORMAT = 1
RECIPROCAL = "^-1"
"""Follows the name of a relation in rows of its reciprocal."""
BLOCK = 1 << 14
"""How many rows become text at a time."""
BLANK = re.compile(r"\s")


@dataclass(frozen=True)
class Rows:
    """One table with the names of its rows. `kind` is None for weights that belong to no name."""

    table: str
    kind: Kind | None
    values: NDArray[Any]
    names: list[str]
    labels: list[str] | None

    def file(self, first: bool, ending: str) -> str:
        """The name of its file: the kind, and the table if it is not the first of its kind."""
        return f"{self.kind if first else f'{self.kind}.{self.table}'}{ending}"


@dataclass(frozen=True)
class Written:
    """A file that was written, as plain values."""

    file: str
    kind: str | None
    table: str
    shape: list[int]


def export_vectors(
    trained: Trained, out: Path, form: Form, *, binary: bool = False, notify: Callable[[str], None] | None = None
) -> list[Written]:
    """Write all tables of a run with their names into a new folder. `binary` is for word2vec."""
    refuse_combined(trained.model, "exported")
    if form not in get_args(Form):
        raise BadInput(f"the format {form!r} is not known; known are {', '.join(get_args(Form))}")
    if binary and form != "word2vec":
        raise BadInput(f"binary is a form of word2vec; {form} has only one form")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} exists and is not an empty folder; name a new folder to export to")
    tables = named_tables(trained)
    if form in ("parquet", "word2vec") and not any(one.kind for one in tables):
        raise BadInput(
            f"{form} has one row per name, but the model {trained.experiment.model.name!r} has no such table; use numpy or "
            "safetensors"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise disk_error(error, out, "name another folder") from error
    try:
        written = _write(form, work, tables, binary, notify)
        about = {
            "format": FORMAT,
            "dura": __version__,
            "written_as": form,
            "model": trained.experiment.model.name,
            "rank": trained.model.rank,
            "graph": {"name": trained.graph.name, "digest": trained.graph.digest},
            "files": [asdict(one) for one in written],
        }
        write_atomic(work / "about.json", (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode())
        work.chmod(0o755)
        if out.exists():
            out.rmdir()
        work.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return written


def named_tables(trained: Trained) -> list[Rows]:
    """All tensors of the model; entities first, then relations, times and what belongs to no name."""
    model, graph = trained.model, trained.graph
    packed = {name: table for name, table in model.entity_tables.items() if isinstance(table, Packed)}
    every = {name: tensor.cpu().numpy() for name, tensor in model.state().items()}
    with torch.no_grad():
        for name, table in packed.items():
            every[name] = table.read(torch.arange(len(graph.entities))).numpy()
    found: list[Rows] = []
    for kind in KINDS:
        for name, rows in rows_per_name(model, trained.experiment, kind).items():
            if (rows == 1 or (rows, kind) == (2, "relations")) and not any(one.table == name for one in found):
                names, labels = _names(graph, kind, rows == 2)
                found.append(Rows(name, kind, every[name], names, labels))
    taken = {one.table for one in found}
    return [*found, *(Rows(name, None, values, [], None) for name, values in every.items() if name not in taken)]


def _names(graph: Graph, kind: Kind, twice: bool) -> tuple[list[str], list[str] | None]:
    """The names of rows, and their labels if there are any."""
    if kind == "times":
        return list(graph.times or ()), None
    names = list(graph.entities if kind == "entities" else graph.relations)
    about = graph.about_entities if kind == "entities" else graph.about_relations
    labels = [about.label(name) for name in names]
    if twice:
        names, labels = ([*given, *(f"{name}{RECIPROCAL}" for name in given)] for given in (names, labels))
    return names, labels if about.labels else None


# -- formats ------------------------------------------------------------------------------------------------------------


def _write(
    form: Form, folder: Path, tables: list[Rows], binary: bool, notify: Callable[[str], None] | None
) -> list[Written]:
    if form == "safetensors":
        return _safetensors(folder, tables)
    written, seen, names = [], set[Kind](), dict[str, str]()
    rest = [one for one in tables if one.kind is None]
    for one in tables:
        if one.kind is None:
            continue
        first = one.kind not in seen
        seen.add(one.kind)
        if form == "numpy":
            file = one.file(first, ".npy")
            np.save(folder / file, one.values, allow_pickle=False)
            file_of_names = one.file(first, ".txt")
            write_atomic(folder / file_of_names, "".join(f"{name}\n" for name in one.names).encode())
        elif form == "parquet":
            file = one.file(first, ".parquet")
            _parquet(folder / file, one)
        else:
            file = one.file(first, ".bin" if binary else ".txt")
            changed = _word2vec(folder / file, one, binary)
            names.update(changed)
        written.append(Written(file, one.kind, one.table, list(one.values.shape)))
    for one in rest if form == "numpy" else ():
        np.save(folder / f"weights.{one.table}.npy", one.values, allow_pickle=False)
        written.append(Written(f"weights.{one.table}.npy", None, one.table, list(one.values.shape)))
    if notify is not None:
        _tell(form, tables, names, notify)
    return written


def _tell(form: Form, tables: list[Rows], changed: dict[str, str], notify: Callable[[str], None]) -> None:
    """Say what the format cannot hold."""
    flat = sorted({one.table for one in tables if one.kind and one.values.ndim != 2})
    if flat and form != "numpy":
        notify(f"{form} has one row of numbers per name, so the matrices of {', '.join(flat)} are written row by row")
    rest = [one.table for one in tables if one.kind is None]
    if rest and form != "numpy":
        notify(f"{form} has only rows with names, so these weights are left out: {', '.join(rest)}")
    if changed:
        one = min(changed)
        notify(
            f"word2vec separates by blanks, so blanks in {len(changed):,} names became _, "
            f"such as {changed[one]!r} for {one!r}"
        )


def _safetensors(folder: Path, tables: list[Rows]) -> list[Written]:
    """tables.safetensors holds the tensors by the names that the model gives them, names.json the names of their rows."""
    from safetensors.numpy import save_file

    tensors = {one.table: np.ascontiguousarray(one.values) for one in tables}
    save_file(tensors, folder / "tables.safetensors", {"format": str(FORMAT)})
    rows = {one.table: {"kind": one.kind, "names": one.names, "labels": one.labels} for one in tables if one.kind}
    document = {"format": FORMAT, "tables": rows}
    write_atomic(folder / "names.json", (json.dumps(document, ensure_ascii=False) + "\n").encode())
    return [Written("tables.safetensors", one.kind, one.table, list(one.values.shape)) for one in tables]


def _parquet(path: Path, one: Rows) -> None:
    """Columns name, label if there are labels, and vector, a list of the same length in each row."""
    import polars as pl

    flat = np.ascontiguousarray(one.values.reshape(len(one.values), -1))
    columns = [pl.Series("name", one.names, dtype=pl.String)]
    if one.labels is not None:
        columns.append(pl.Series("label", one.labels, dtype=pl.String))
    columns.append(pl.Series("vector", flat.ravel()).reshape(flat.shape))
    pl.DataFrame(columns).write_parquet(path)


def _word2vec(path: Path, one: Rows, binary: bool) -> dict[str, str]:
    """The text or binary format of word2vec. Returns what became of names with blanks, at which readers split lines."""
    flat = one.values.reshape(len(one.values), -1).astype(np.float32)
    names, changed = _without_blanks(one.names)

    def pieces() -> Iterator[bytes]:
        yield f"{len(flat)} {flat.shape[1]}\n".encode()
        line = " ".join(["%.9g"] * flat.shape[1])  # nine digits give back the same float32
        for at in range(0, len(flat), BLOCK):
            rows = zip(names[at : at + BLOCK], flat[at : at + BLOCK], strict=True)
            if binary:
                yield b"".join(name.encode() + b" " + row.astype("<f4").tobytes() + b"\n" for name, row in rows)
            else:
                yield "".join(f"{name} {line % tuple(row)}\n" for name, row in rows).encode()

    write_atomic(path, pieces())
    return changed


def _without_blanks(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The names with _ for every blank, and those that changed. If another name looks like that already, one more _ follows."""
    changed = {name: BLANK.sub("_", name) or "_" for name in names if BLANK.search(name) or not name}
    used = set(names) - changed.keys()
    for name, plain in changed.items():
        while plain in used:
            plain += "_"
        used.add(plain)
        changed[name] = plain
    return [changed.get(name, name) for name in names], changed
