"""Kept: the questions of a large graph as a file in the folder of the graph.

They are made once, part by part, and mapped into memory by every process that needs them. The file is named after the graph's
digest and may be deleted at any time. If the folder cannot be written to, the questions are made in memory.

The folder may come from a stranger, or its file may be damaged. So each file is sealed with a key of this user, which lies in the
cache folder of dura. A file with another seal is made again.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dura.data.catalog import cache_folder
from dura.data.large import in_memory, made
from dura.data.questions import Questions
from dura.records import Damage, Missing, disk_error, read_bytes, write_atomic
from dura.records.reading import MOST_JSON, inside, open_file
from dura.records.tensors import SIZES, Pieces, read_header, read_integers, serialized
from dura.types import IntArray, Sizes

FOLDER = "cache"
FORMAT = 1
"""The format of the files; it is a part of their names."""
BLOCK = 1 << 24
"""How many bytes or numbers are copied or checked in one go."""
_PARTS = ("head", "relation", "answers", "offsets", "time")


def kept(home: Path, name: str, sizes: Sizes, facts: Callable[[], list[IntArray]]) -> Questions:
    """The questions of this name in a graph's folder. They are made of the facts if they are not there yet."""
    file, key = f"{name}-{FORMAT}.safetensors", _key()
    if key and _sealed(home, file, key):
        return _read(home, file, sizes)
    parts = facts()
    with _locked(home) as locked:
        if not locked or not key:
            return in_memory(parts, sizes.relations)
        if not _sealed(home, file, key):  # else another process was faster
            _write(home / FOLDER / file, parts, sizes.relations)
            seal = _seal(home, file, key)
            write_atomic(home / FOLDER / f"{file}.seal", seal.encode())
    return _read(home, file, sizes)


def _key() -> bytes:
    """The secret key of this user, made when it is first needed; empty if there is no place for it."""
    path = cache_folder() / "key"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            file.write(secrets.token_bytes(32))
        return path.read_bytes()
    return b""


def _seal(home: Path, file: str, key: bytes) -> str:
    """What only a holder of the key can compute from the content of a file and its name."""
    code = hmac.new(key, file.encode(), "sha256")
    with open_file(home, f"{FOLDER}/{file}", 2**62) as (opened, _):
        while block := opened.read(BLOCK):
            code.update(block)
    return code.hexdigest()


def _sealed(home: Path, file: str, key: bytes) -> bool:
    """True if this user has written the file as it is."""
    try:
        seal = read_bytes(home, f"{FOLDER}/{file}.seal", 64)
        return hmac.compare_digest(seal, _seal(home, file, key).encode())
    except (Missing, Damage):
        return False


@contextmanager
def _locked(home: Path) -> Iterator[bool]:
    """Hold the lock of a graph's cache; other processes wait. False if the folder cannot be written to."""
    import filelock

    folder = home / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(home)):
            raise Damage(f"{folder} cannot be used: it is a link that leads out of the folder")
        if (folder / ".lock").is_symlink():  # opening a lock file empties it
            raise Damage(f"{folder / '.lock'} cannot be used: it is a link")
        with suppress(Missing):
            inside(folder, ".lock")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        yield False
        return
    with filelock.FileLock(folder / ".lock", thread_local=False):
        yield True


def _write(path: Path, facts: list[IntArray], relations: int) -> None:
    """Make the questions part by part into files without a name, then put these together."""
    dated, rows = facts[0].shape[1] > 3, 2 * sum(map(len, facts))
    offsets = np.int32 if rows < 2**31 else np.int64
    names = _PARTS if dated else _PARTS[:-1]
    with ExitStack() as stack:
        try:
            files = {name: stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for name in names}
            files["offsets"].write(bytes(offsets().itemsize))
            end = 0
            for piece in made(facts, relations):
                ends = end + np.cumsum(piece.counts, dtype=np.int64)
                end = int(ends[-1]) if len(ends) else end
                files["offsets"].write(ends.astype(offsets).data)
                for name in (name for name in names if name != "offsets"):
                    files[name].write(getattr(piece, name).data)
        except OSError as error:
            raise disk_error(error, path, "make room, or copy the graph to another disk") from error
        types = {name: "I64" if name == "offsets" and offsets is np.int64 else "I32" for name in names}
        write_atomic(path, serialized({name: _pieces(files[name], types[name]) for name in names}))


def _pieces(file: BinaryIO, dtype: str) -> Pieces:
    """The content of a file, from its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return Pieces(dtype, (size // SIZES[dtype],), iter(lambda: file.read(BLOCK), b""))


def _read(home: Path, file: str, sizes: Sizes) -> Questions:
    """The questions in a file, mapped into memory. They may come from a stranger, so every number is checked."""
    root, path = home / FOLDER, home / FOLDER / file
    if not root.is_dir():
        raise Missing(f"{path} is missing")
    with open_file(home, f"{FOLDER}/{file}", 2**62) as (opened, size):
        stored = read_header(opened, size, path)
        wrong = [name for name in _PARTS[:4] if name not in stored]
        wrong += [name for name, found in stored.items() if len(found.shape) != 1 or found.dtype not in ("I32", "I64")]
        if wrong or size > MOST_JSON + 8 * sum(found.shape[0] for found in stored.values()):
            raise Damage(f"{path} is damaged: it does not hold questions; delete it")
        arrays = {name: read_integers(opened, stored[name]) for name in _PARTS if name in stored}
    limits = {"head": sizes.entities, "relation": 2 * sizes.relations, "answers": sizes.entities, "time": sizes.times}
    if not _sound(arrays, limits):
        raise Damage(f"{path} is damaged: its numbers are not those of questions of this graph; delete it")
    return Questions(**arrays)


def _sound(arrays: dict[str, IntArray], limits: dict[str, int]) -> bool:
    """True if the arrays fit each other, all ids are below their limits, and the offsets ascend."""
    count, offsets = len(arrays["head"]), arrays["offsets"]
    lengths = {"offsets": count + 1, "answers": int(offsets[-1]) if len(offsets) else -1}
    if any(len(array) != lengths.get(name, count) for name, array in arrays.items()) or offsets[0] != 0:
        return False
    for at in range(0, count, BLOCK):
        if (np.diff(offsets[at : at + BLOCK + 1]) <= 0).any():
            return False
    ids = (
        array[at : at + BLOCK] for name, array in arrays.items() if name in limits for at in range(0, len(array), BLOCK)
    )
    ends = [limits[name] for name, array in arrays.items() if name in limits for at in range(0, len(array), BLOCK)]
    return all(bool(block.min() >= 0 and block.max() < end) for block, end in zip(ids, ends, strict=True))
