"""Checkpoints: a safetensors file with the tensors and a JSON file with everything else. No pickle.

A checkpoint is a pair of files. The tensors are written first. Then comes the JSON: it names the file of tensors with its size and
SHA-256, and holds a checksum of itself. A checkpoint counts only if its JSON exists, so the process may be killed at any moment.
Old files are removed only after the new pair is complete.

```
step-000000123.safetensors  step-000000123.json     the newest two, to continue from
best-000000100.safetensors  best.json               the best tables by validation
```
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from dura import world
from dura.records import Damage, disk_error, read_json, write_atomic
from dura.records.reading import open_file
from dura.records.schema import WHOLE, check
from dura.records.tensors import SIZES, Stored, read_header
from dura.tables.mapped import mark_mapped
from dura.text import shown
from dura.types import BadInput, DuraError

FORMAT = 1
"""The newest format of checkpoints that this program reads, and the one it writes."""


@dataclass(frozen=True)
class Spread:
    """A tensor whose rows are spread over processes. The first process writes all of them, as they come."""

    rows: Tensor
    """The rows of this process."""
    sizes: tuple[int, ...]
    """How many rows each shard holds."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return (sum(self.sizes), *self.rows.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """The type of its numbers."""
        return self.rows.dtype

    def blocks(self) -> Iterator[Tensor]:
        """All rows, block by block; only the first process gets them. Every process must run through them."""
        return world.stream(self.rows, self.sizes)


Tensors = Mapping[str, Tensor | Spread]
Saved = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and state, as they were given to `save`."""

_STEP = re.compile(r"step-(\d+)\.")
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


_TYPES = {name: dtype for dtype, name in _DTYPES.items()}
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\.safetensors")
_DOCUMENT = {"step": WHOLE, "file": str, "sha256": str, "bytes": WHOLE, "state": {}}
_ODD_FLOATS = ("nan", "inf", "-inf")


@dataclass(frozen=True)
class Outline:
    """What a checkpoint holds, according to its JSON and the header of its tensors. The tensors are not read."""

    path: Path
    """The path of its JSON file."""
    state: dict[str, Any]
    bytes: int
    tensors: dict[str, tuple[torch.dtype, tuple[int, ...]]]


class Checkpoints:
    """The checkpoints of one run, in `folder`. The newest `keep` and the best one are kept.

    >>> checkpoints = Checkpoints(Path("run/checkpoints"))  # doctest: +SKIP
    >>> checkpoints.save(100, {"table": torch.zeros(3)}, {"loss": 0.5})  # doctest: +SKIP
    >>> tensors, state = checkpoints.newest()  # doctest: +SKIP
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def save(self, step: int, tensors: Tensors, state: Mapping[str, Any]) -> None:
        """Write the checkpoint of `step`, then remove the ones that are too old.

        Later steps are removed too. They exist only if they were damaged and training continued from an earlier step. If several
        processes train, all of them call this and the first one writes.
        """
        if not world.leads():
            _send(tensors)
            return
        name = f"step-{step:09d}"
        data = self._write(self.folder / f"{name}.json", name, step, tensors, state)
        kept = [known for known in self._steps("json") if known <= step][: self.keep]
        self._remove("step-*", [f"step-{known:09d}" for known in kept if known != step], [f"{name}.json", data])

    def newest(self, notify: Callable[[str], object] = lambda _: None) -> Saved | None:
        """The newest undamaged checkpoint, or None if there is none yet. `notify` gets a sentence for each damaged one."""
        complete, damaged = self._steps("json"), []
        for step in sorted({*complete, *self._steps("safetensors")}, reverse=True):
            path = self.folder / f"step-{step:09d}.json"
            if step not in complete:
                notify(f"the checkpoint {path.stem} was never finished and is skipped: it has no {path.name}")
                continue
            try:
                return _read(path)
            except Damage as error:
                damaged.append(f"{path.stem}: {error}")
                notify(f"the checkpoint {path.stem} is damaged and is skipped: {error}")
        if damaged:
            raise DuraError(
                f"no checkpoint in {self.folder} can be used ({'; '.join(damaged)}); "
                "restore one from a backup, or train again in another folder"
            )
        return None

    def save_best(self, step: int, tensors: Tensors, state: Mapping[str, Any]) -> None:
        """Write the best tables so far. They replace the earlier best ones."""
        if not world.leads():
            _send(tensors)
            return
        data = self._write(self.folder / "best.json", f"best-{step:09d}", step, tensors, state)
        self._remove("best-*", [], [data])

    def best(self) -> Saved | None:
        """The best tables, or None if none were saved."""
        path, error = self.folder / "best.json", None
        for _ in range(3):  # training may replace the pair while it is being read
            if not path.exists():
                return None
            try:
                return _read(path)
            except Damage as damaged:
                error = damaged
        raise DuraError(f"the best checkpoint in {self.folder} is damaged: {error}; resume the run to write it again")

    def digest(self) -> str:
        """The SHA-256 of the best tables, or of the newest ones if none were saved as the best; empty if there are none."""
        for name in ("best", *(f"step-{step:09d}" for step in self._steps("json"))):
            with contextlib.suppress(Damage):
                found: str = _document(self.folder / f"{name}.json")["sha256"]
                return found
        return ""

    def best_is_whole(self) -> bool:
        """True if the best tables exist and are undamaged."""
        try:
            return self.best() is not None
        except DuraError:
            return False

    def outlines(self) -> Iterator[Outline]:
        """The outline of each checkpoint. Damaged checkpoints are left out."""
        for name in ("best", *(f"step-{step:09d}" for step in self._steps("json"))):
            with contextlib.suppress(Damage):
                path = self.folder / f"{name}.json"
                document = _document(path)
                data = self.folder / document["file"]
                with open_file(data.parent.parent, _inner(data), document["bytes"]) as (file, size):
                    found = read_header(file, size, data).items()
                tensors = {key: (_TYPES[stored.dtype], stored.shape) for key, stored in found}
                yield Outline(path, document["state"], size, tensors)

    def _steps(self, ending: str) -> list[int]:
        """The steps that have a file with this ending, newest first."""
        found = (_STEP.match(path.name) for path in self.folder.glob(f"step-*.{ending}"))
        return sorted({int(match[1]) for match in found if match}, reverse=True)

    def _write(self, path: Path, stem: str, step: int, tensors: Tensors, state: Mapping[str, Any]) -> str:
        """Write a pair and return the name of its file of tensors. A pair that it replaces stays complete until the end."""
        data = f"{stem}.safetensors"
        with contextlib.suppress(Damage):
            if path.exists() and _document(path)["file"] == data:
                data = f"{stem}.again.safetensors"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, self.folder) from error
        digest = hashlib.sha256()
        write_atomic(self.folder / data, _hashed(_serialized(tensors), digest))
        document = {
            "format": FORMAT,
            "step": step,
            "file": data,
            "sha256": digest.hexdigest(),
            "bytes": (self.folder / data).stat().st_size,
            "state": _encoded(state),
        }
        document["checksum"] = _checksum(document)
        write_atomic(path, (json.dumps(document, indent=2) + "\n").encode())
        return data

    def _remove(self, pattern: str, stems: list[str], names: list[str]) -> None:
        """Remove the files that match the pattern, except these; each JSON before its tensors. A failure does no harm."""
        found = [path for path in self.folder.glob(pattern) if path.name not in names]
        old = [path for path in found if path.name.split(".")[0] not in stems]
        for path in sorted(old, key=lambda path: path.suffix != ".json"):
            with contextlib.suppress(OSError):
                path.unlink()


def _read(path: Path) -> Saved:
    """Read and check the pair whose JSON is `path`."""
    document = _document(path)
    data = path.with_name(document["file"])
    with open_file(data.parent.parent, _inner(data), sys.maxsize) as (file, size):
        if size != document["bytes"]:
            raise Damage(f"{data.name} has {size} bytes, not {document['bytes']}")
        if hashlib.file_digest(file, "sha256").hexdigest() != document["sha256"]:
            raise Damage(f"the content of {data.name} was changed")
        return _mapped(file, read_header(file, size, data)), document["state"]


def _inner(path: Path) -> str:
    """The path of a checkpoint's file relative to the run folder. `open_file` refuses links that lead out of that folder."""
    return f"{path.parent.name}/{path.name}"


def _document(path: Path) -> dict[str, Any]:
    """The JSON of a pair, after its checksum and its keys were checked."""
    document = read_json(path.parent.parent, _inner(path))
    version = document.get("format")
    if type(version) is int and version > FORMAT:
        raise DuraError(f"{path} has format {shown(version)}, but this dura reads formats up to {FORMAT}; update dura")
    checksum = document.pop("checksum", None)
    if checksum != _checksum(document):
        raise Damage(f"the content of {path.name} was changed")
    try:
        check(document, {"format": Annotated[int, 1, FORMAT], **_DOCUMENT})
        if not _FILE.fullmatch(document["file"]):
            raise BadInput(f"its file {shown(document['file'])} is not the name of a .safetensors file")
        return document | {"state": _decoded(document["state"])}
    except BadInput as error:
        raise Damage(f"{path.name} is damaged: {error}") from None


def _mapped(file: BufferedReader, stored: Mapping[str, Stored]) -> dict[str, Tensor]:
    """The tensors of a file, mapped into memory: a page is read when it is used. The file never changes."""
    whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return {name: _tensor(whole, tensor) for name, tensor in stored.items()}


def _tensor(whole: mmap.mmap, stored: Stored) -> Tensor:
    dtype, size = _TYPES[stored.dtype], SIZES[stored.dtype]
    if stored.begin == stored.end:
        return torch.empty(stored.shape, dtype=dtype)
    if dtype == torch.bool:  # a byte may be neither 0 nor 1
        return (
            torch.frombuffer(bytearray(whole[stored.begin : stored.end]), dtype=torch.uint8).reshape(stored.shape) != 0
        )
    if stored.begin % size:  # torch only reads numbers at multiples of their size
        return torch.frombuffer(bytearray(whole[stored.begin : stored.end]), dtype=dtype).reshape(stored.shape)
    count = (stored.end - stored.begin) // size
    return mark_mapped(torch.frombuffer(whole, dtype=dtype, count=count, offset=stored.begin).reshape(stored.shape))


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _send(tensors: Tensors) -> None:
    """Send this process's rows to the one that writes."""
    for tensor in tensors.values():
        if isinstance(tensor, Spread):
            for _ in tensor.blocks():
                pass


def _serialized(tensors: Tensors) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, one tensor after the other, without copies.

    The functions of the safetensors library either copy all tensors at once, or write the file themselves, so that `write_atomic`
    cannot be used.
    """
    header: dict[str, Any] = {}
    begin = 0
    for name, tensor in tensors.items():
        end = begin + math.prod(tensor.shape) * tensor.dtype.itemsize
        shape = list(tensor.shape)
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        for block in tensor.blocks() if isinstance(tensor, Spread) else (tensor,):
            yield block.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _hashed(pieces: Iterable[bytes | memoryview], digest: hashlib._Hash) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def _encoded(value: Any) -> Any:
    """The value as JSON can hold it: nan and inf become {"$float": "nan"} and so on."""
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) or key == "$float" for key in value):
            raise ValueError(f"the keys of a checkpoint's state must be text other than '$float', not {list(value)}")
        return {key: _encoded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict) and "$float" in value:
        if value["$float"] not in _ODD_FLOATS:
            raise BadInput(f"$float is {shown(value['$float'])}, but must be one of {', '.join(_ODD_FLOATS)}")
        return float(value["$float"])
    if isinstance(value, dict):
        return {key: _decoded(inner) for key, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value
