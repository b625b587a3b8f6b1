"""Changes: what a stranger can do to a run folder, with the checksums recomputed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from dura.training.checkpoint import _checksum
from dura.types import SPLITS

ODD: tuple[Any, ...] = (None, -1, 0, True, "x", [], {}, 1e308, 10**30, [[[]]])
"""Values that hardly any key may have."""


Change = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A change to a valid folder; `free` where other results than before are no fault: no checksum covers what was changed."""

    name: str
    change: Change
    free: bool = False


def one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.glob(pattern))))


def sealed(path: Path, document: dict[str, Any]) -> None:
    """Write the JSON of a checkpoint with its checksums recomputed."""
    document.pop("checksum", None)
    data = path.with_name(str(document.get("file")))
    with contextlib.suppress(OSError, ValueError):
        document |= {"bytes": data.stat().st_size, "sha256": hashlib.sha256(data.read_bytes()).hexdigest()}
    path.write_text(json.dumps(document | {"checksum": _checksum(document)}))


def retold(pattern: str, keys: tuple[str, ...], value: Any, gone: bool = False) -> Change:
    """One key of a JSON file changed or removed; a checkpoint's checksum fits again."""

    def change(folder: Path) -> None:
        path = one(folder, pattern)
        document: dict[str, Any] = json.loads(path.read_text())
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        if gone:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = value
        if path.name == "run.json":
            path.write_text(json.dumps(document))
        else:
            document.pop("checksum", None)
            path.write_text(json.dumps(document | {"checksum": _checksum(document)}))

    return change


def digested(folder: Path) -> None:
    """Write the digest and the counts that the files of the graph have into run.json."""
    about = json.loads((folder / "run.json").read_text())
    names = [folder / f"{kind}.txt" for kind in ("entities", "relations", "times")]
    texts = [path.read_bytes() for path in names if path.exists()]
    digest = hashlib.sha256("".join(hashlib.sha256(text).hexdigest() for text in texts).encode())
    facts = load_file(folder / "facts.safetensors")
    for split in SPLITS:
        digest.update(f"{split}{len(facts[split])}".encode())
        digest.update(np.ascontiguousarray(facts[split], dtype="<i4").tobytes())
        about["graph"][split] = len(facts[split])
    for path, text in zip(names, texts, strict=False):
        about["graph"][path.stem] = text.count(b"\n")
    about["graph"]["digest"] = digest.hexdigest()
    (folder / "run.json").write_text(json.dumps(about))


def facts(edit: Callable[[dict[str, Any]], object]) -> Change:
    def change(folder: Path) -> None:
        path = folder / "facts.safetensors"
        found: dict[str, Any] = {key: array.copy() for key, array in load_file(path).items()}
        edit(found)
        save_file({key: np.array(array, order="C") for key, array in found.items()}, path)
        digested(folder)

    return change


def put(split: str, column: int, value: int) -> Change:
    return facts(lambda found: found[split].__setitem__((0, column), value))


def text(name: str, edit: Callable[[str], str]) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(edit(path.read_text()))
        if name.endswith(".txt"):
            digested(folder)

    return change


def tensors(pattern: str, edit: Callable[[dict[str, Any]], object]) -> Change:
    """The tensors of a checkpoint changed, its checksums recomputed."""

    def change(folder: Path) -> None:
        path = one(folder, pattern)
        document = json.loads(path.read_text())
        data = path.with_name(document["file"])
        found: dict[str, Any] = {key: array.copy() for key, array in load_file(data).items()}
        edit(found)
        save_file({key: np.array(array, order="C") for key, array in found.items()}, data)
        sealed(path, document)

    return change


def header(pattern: str, edit: Callable[[bytes], bytes]) -> Change:
    """The bytes of a safetensors file changed, the checksums of its checkpoint recomputed."""

    def change(folder: Path) -> None:
        data = one(folder, pattern)
        data.write_bytes(edit(data.read_bytes()))
        for path in folder.glob("checkpoints/*.json"):
            if (document := json.loads(path.read_text()))["file"] == data.name:
                sealed(path, document)

    return change


def long_header(content: bytes) -> bytes:
    return (2**62).to_bytes(8, "little") + content[8:]


def overlapping(content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    told = json.loads(content[8 : 8 + length])
    first, second = [key for key in told if key != "__metadata__"][:2]
    told[second]["data_offsets"] = told[first]["data_offsets"]
    again = json.dumps(told).encode()
    return len(again).to_bytes(8, "little") + again + content[8 + length :]


def header_with(**changes: Any) -> Callable[[bytes], bytes]:
    """The header's first tensor told otherwise."""

    def edit(content: bytes) -> bytes:
        length = int.from_bytes(content[:8], "little")
        told = json.loads(content[8 : 8 + length])
        told[next(key for key in told if key != "__metadata__")].update(changes)
        again = json.dumps(told).encode()
        return len(again).to_bytes(8, "little") + again + content[8 + length :]

    return edit


def deep_header(content: bytes) -> bytes:
    again = b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    return len(again).to_bytes(8, "little") + again


LIES: tuple[Callable[[bytes], bytes], ...] = (
    long_header, overlapping, deep_header,
    *(header_with(dtype=dtype) for dtype in ("F64", "I8", "X", 3, None)),
    *(header_with(shape=shape) for shape in ([-1, 3], [2**62, 2**62], "x", [], [1.5], [1] * 100)),
    *(header_with(data_offsets=places) for places in ([0, 2**62], [-8, 0], [8, 0], [0], "x", None)),
)  # fmt: skip


def line(record: Any) -> Change:
    """One more record."""

    def change(folder: Path) -> None:
        with (folder / "records.jsonl").open("ab") as file:
            file.write(record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n")

    return change


def file_changes(pattern: str, free: bool) -> Iterator[Case]:
    """What can be in the place of a file."""

    def replaced(make: Change) -> Change:
        def change(folder: Path) -> None:
            path = one(folder, pattern)
            (folder.parent / "stolen").write_bytes(path.read_bytes())
            path.unlink()
            make(path)

        return change

    def cut(path: Path) -> None:
        content = (path.parent / "../stolen").resolve()
        whole = next(p for p in (content, path.parent.parent.parent / "stolen") if p.exists()).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])

    def sparse(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(1 << 36)

    def outside(path: Path) -> None:
        home = next(folder for folder in path.parents if (folder / "stolen").exists())
        path.symlink_to(home / "stolen")

    yield Case(f"{pattern} is endless", replaced(lambda path: path.symlink_to("/dev/zero")), free)
    yield Case(f"{pattern} is a pipe", replaced(os.mkfifo), free)
    yield Case(f"{pattern} is a folder", replaced(Path.mkdir), free)
    yield Case(f"{pattern} is missing", replaced(lambda _: None), free)
    yield Case(f"{pattern} is empty", replaced(Path.touch), free)
    yield Case(f"{pattern} is cut", replaced(cut), free)
    yield Case(f"{pattern} is 64 GiB of nothing", replaced(sparse), free)
    yield Case(f"{pattern} is a link out of the folder", replaced(outside), free)
    yield Case(f"{pattern} is a link to itself", replaced(lambda path: path.symlink_to(path.name)), free)
    yield Case(f"{pattern} is noise", replaced(lambda path: path.write_bytes(random.Random(0).randbytes(500))), free)


def flips(pattern: str, free: bool, rng: random.Random, count: int = 4) -> Iterator[Case]:
    """Some bytes changed, without new checksums."""
    for _ in range(count):
        where, bit = rng.random(), 1 << rng.randrange(8)

        def change(folder: Path, where: float = where, bit: int = bit) -> None:
            path = one(folder, pattern)
            content = bytearray(path.read_bytes())
            content[int(where * len(content))] ^= bit
            path.write_bytes(content)

        yield Case(f"{pattern} with bit {bit} flipped at {where:.3f}", change, free)


def swapped(left: str, right: str) -> Case:
    def change(folder: Path) -> None:
        first, second = one(folder, left), one(folder, right)
        old = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(old)

    return Case(f"{left} and {right} swapped", change)


def keys(pattern: str, paths: list[str], rng: random.Random, count: int = 3) -> Iterator[Case]:
    """Every key removed, and given some odd values."""
    for path in paths:
        parts = tuple(path.split("/"))
        # What a stranger may say in another way without telling anything wrong.
        free = parts[-1] in (
            "name",
            "dura",
            "created",
            "epoch",
            "step",
            "steps",
            "facts",
            "best",
            "seconds",
            "valid_mrr",
        )
        free |= parts[-1] in ("best_epoch", "stale", "done", "loss", "penalty", "epoch_seconds", "threads", "sparse")
        yield Case(f"{pattern} without {path}", retold(pattern, parts, None, gone=True), free)
        for value in rng.sample(ODD, count):
            yield Case(f"{pattern} with {path} = {str(value)[:20]!r}", retold(pattern, parts, value), free)
