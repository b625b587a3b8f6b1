"""Checkpoints: tensors in safetensors beside a JSON file with the rest; no pickle.

A checkpoint is a pair of files. The tensors are written first, then the JSON that names them with their size
and SHA-256 and carries a checksum of itself: a checkpoint counts only where its JSON stands, so that the
process may be killed at any moment. Old files go only after the new pair is complete.

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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dura.records import disk_error, write_atomic
from dura.types import DuraError

FORMAT = 1
"""The newest format of checkpoints that this program reads, and the one it writes."""

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


class _DamageError(Exception):
    """Why a checkpoint cannot be used."""


class Checkpoints:
    """The checkpoints of one run, in `folder`; the newest `keep` are kept, and the best one.

    >>> checkpoints = Checkpoints(Path("run/checkpoints"))  # doctest: +SKIP
    >>> checkpoints.save(100, {"table": torch.zeros(3)}, {"loss": 0.5})  # doctest: +SKIP
    >>> tensors, state = checkpoints.newest()  # doctest: +SKIP
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write the checkpoint of `step`, then remove the ones that are too old.

        Steps after this one are removed too: training went back to before them, because they were damaged.
        """
        name = f"step-{step:09d}"
        data = self._write(self.folder / f"{name}.json", name, step, tensors, state)
        kept = [known for known in self._steps("json") if known <= step][: self.keep]
        self._remove("step-*", [f"step-{known:09d}" for known in kept if known != step], [f"{name}.json", data])

    def newest(self, notify: Callable[[str], object] = lambda _: None) -> Saved | None:
        """The newest whole checkpoint, or None before the first; `notify` is told of those passed over."""
        complete, damaged = self._steps("json"), []
        for step in sorted({*complete, *self._steps("safetensors")}, reverse=True):
            path = self.folder / f"step-{step:09d}.json"
            if step not in complete:
                notify(f"the checkpoint {path.stem} was never finished and is passed over: it has no {path.name}")
                continue
            try:
                return _read(path)
            except _DamageError as error:
                damaged.append(f"{path.stem}: {error}")
                notify(f"the checkpoint {path.stem} is damaged and is passed over: {error}")
        if damaged:
            raise DuraError(
                f"no checkpoint in {self.folder} can be used ({'; '.join(damaged)}); "
                "put back a copy of one or train anew in another folder"
            )
        return None

    def save_best(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write the best tables so far in place of the former best."""
        data = self._write(self.folder / "best.json", f"best-{step:09d}", step, tensors, state)
        self._remove("best-*", [], [data])

    def best(self) -> Saved | None:
        """The best tables, or None where none were saved."""
        path, error = self.folder / "best.json", None
        for _ in range(3):  # a run that is being trained may replace the pair while it is read
            if not path.exists():
                return None
            try:
                return _read(path)
            except _DamageError as damaged:
                error = damaged
        raise DuraError(f"the best checkpoint in {self.folder} is damaged: {error}; resume the run to make it anew")

    def best_is_whole(self) -> bool:
        """True where the best tables are there and undamaged."""
        try:
            return self.best() is not None
        except DuraError:
            return False

    def _steps(self, ending: str) -> list[int]:
        """The steps that have a file with this ending, newest first."""
        found = (_STEP.match(path.name) for path in self.folder.glob(f"step-*.{ending}"))
        return sorted({int(match[1]) for match in found if match}, reverse=True)

    def _write(self, path: Path, stem: str, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> str:
        """Write a pair and return the name of its tensors' file; a pair it replaces stays whole till then."""
        data = f"{stem}.safetensors"
        with contextlib.suppress(_DamageError):
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
        """Remove the files of a pattern but for these, each JSON before its tensors; failing is harmless."""
        found = [path for path in self.folder.glob(pattern) if path.name not in names]
        old = [path for path in found if path.name.split(".")[0] not in stems]
        for path in sorted(old, key=lambda path: path.suffix != ".json"):
            with contextlib.suppress(OSError):
                path.unlink()


def _read(path: Path) -> Saved:
    """The pair whose JSON is `path`, checked."""
    document = _document(path)
    data = path.with_name(document["file"])
    try:
        if data.stat().st_size != document["bytes"]:
            raise _DamageError(f"{data.name} has {data.stat().st_size} bytes, not {document['bytes']}")
        with data.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != document["sha256"]:
                raise _DamageError(f"the content of {data.name} was changed")
        # Mapped, not read: pages come when they are used, and writing to a tensor does not reach the file.
        return safetensors.torch.load_file(data), _decoded(document["state"])
    except FileNotFoundError:
        raise _DamageError(f"{data.name} is missing") from None
    except (OSError, safetensors.SafetensorError) as error:
        raise _DamageError(f"{data.name} cannot be read: {error}") from None


def _document(path: Path) -> dict[str, Any]:
    """The JSON of a pair, checked against its own checksum."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _DamageError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise _DamageError(f"{path.name} is not a JSON object")
    version = document.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise DuraError(f"{path} has format {version}, but this dura reads formats up to {FORMAT}; update dura")
    checksum = document.pop("checksum", None)
    if checksum != _checksum(document):
        raise _DamageError(f"the content of {path.name} was changed")
    if Path(document["file"]).name != document["file"]:
        raise _DamageError(f"{path.name} names a file outside its folder")
    return document


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _serialized(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, tensor by tensor without a copy.

    The library's writers either copy all tensors at once or hide the file and its errors from `write_atomic`.
    """
    header: dict[str, Any] = {}
    begin = 0
    for name, tensor in tensors.items():
        end = begin + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _hashed(pieces: Iterable[bytes | memoryview], digest: hashlib._Hash) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        digest.update(piece)
        yield piece


def _encoded(value: Any) -> Any:
    """JSON has no nan and inf: they become {"$float": "nan"}."""
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) or key == "$float" for key in value):
            raise ValueError(f"the keys of a checkpoint's state must be texts other than '$float': {list(value)}")
        return {key: _encoded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["$float"]) if "$float" in value else {key: _decoded(v) for key, v in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value
