"""Reading: the only way in which the files of a run folder are read.

A run folder may come from a stranger. So a file is read only if it is a regular file inside the folder (no link that leads out of
it, no pipe, no device) and not larger than such a file can be. If a file cannot be used, the error is `Damage`, with a sentence
that names the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from dura.text import parse_json
from dura.types import DuraError

KIB, MIB = 1 << 10, 1 << 20
MOST_JSON = 4 * MIB
"""The most bytes of run.json and of a checkpoint's JSON. In practice they have some hundreds."""
MOST_LINE = 16 * MIB
"""The most bytes of one record. An evaluation by relation has about 250 bytes per relation."""
MOST_RECORDS = 128 * MIB
"""The most bytes of records.jsonl. An epoch takes about 300."""
MOST_NAME = MIB
"""The most bytes of one name or label."""
MEAN_NAME = 64 * KIB
"""The most bytes of a name or label, on average over a file."""

_KINDS = {
    stat.S_IFLNK: "a link to itself",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Damage(DuraError):
    """Why a file of a run folder cannot be used."""


class Missing(Damage):
    """The file does not exist."""


def inside(root: Path, name: str) -> Path:
    """The real path of the file `name` of the folder `root`. It must be a regular file inside the folder."""
    path = root / name
    try:
        real, home = Path(os.path.realpath(path)), Path(os.path.realpath(root))
        mode = real.lstat().st_mode
    except FileNotFoundError:
        raise Missing(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        raise Damage(f"{path} cannot be read: {_why(error)}") from None
    if not real.is_relative_to(home):
        raise Damage(f"{path} cannot be read: it is a link that leads out of the folder")
    _check_regular(path, mode)
    return real


@contextmanager
def remedy(sentence: str, *, missing: bool = False) -> Iterator[None]:
    """Say after each `Damage` what to do about it. A missing file is as usual, unless it is one that must be there."""
    try:
        yield
    except Damage as error:
        if isinstance(error, Missing) and not missing:
            raise
        raise Damage(f"{error}; {sentence}") from None


@contextmanager
def open_file(root: Path, name: str, most: int) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file of the run folder `root` for reading. Yields the file and its size, which is at most `most` bytes."""
    path, real = root / name, inside(root, name)
    # The file may have been replaced by a pipe after the check in `inside`. So do not block, and check the open file again.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(real, flags), "rb") as file:
            about = os.fstat(file.fileno())
            _check_regular(path, about.st_mode)
            if about.st_size > most:
                raise Damage(f"{path} cannot be read: it has {about.st_size:,} bytes, but at most {most:,} are allowed")
            yield file, about.st_size
    except OSError as error:
        raise Damage(f"{path} cannot be read: {_why(error)}") from None


def read_bytes(root: Path, name: str, most: int) -> bytes:
    """The content of a file."""
    with open_file(root, name, most) as (file, _):
        content = file.read(most + 1)
    if len(content) > most:  # it grew, or it reports no size, like files in /proc
        raise Damage(f"{root / name} cannot be read: it has more than {most:,} bytes")
    return content


def read_text(root: Path, name: str, most: int) -> str:
    """The text of a file."""
    return _decoded(read_bytes(root, name, most), root / name)


def read_json(root: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        found = parse_json(read_bytes(root, name, MOST_JSON))
    except ValueError as error:
        raise Damage(f"{root / name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise Damage(f"{root / name} is not a JSON object")
    return found


def read_lines(root: Path, name: str, most: int, longest: int) -> Iterator[bytes]:
    """The lines of a file, one by one, with their line ends."""
    with open_file(root, name, most) as (file, _):
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise Damage(f"{root / name} cannot be read: it has a line of more than {longest:,} bytes")
            yield line


def read_names(root: Path, name: str, count: int, manifest: str = "run.json") -> list[str]:
    """The names of a vocabulary, one per line. There must be exactly `count`, as the manifest says."""
    names: list[str] = []
    path = root / name
    for line in read_lines(root, name, MIB + count * MEAN_NAME, MOST_NAME):
        if len(names) == count or not line.endswith(b"\n"):
            what = "its last line has no line end" if len(names) < count else f"it has more than {count:,} lines"
            raise Damage(f"{path} is damaged: {what}, but {manifest} says {count:,}")
        names.append(_decoded(line[:-1], path))
    if len(names) < count:
        raise Damage(f"{path} is damaged: it has {len(names):,} lines, but {manifest} says {count:,}")
    return names


def read_pairs(root: Path, name: str, count: int) -> dict[str, str]:
    """The labels of at most `count` names. A line is name, tab, label. Empty if there is no such file.

    A name may hold tabs. A label holds none, so it is what follows the last tab.
    """
    found: dict[str, str] = {}
    path = root / name
    try:
        for line in read_lines(root, name, MIB + count * MEAN_NAME, MOST_NAME):
            first, tab, label = _decoded(line, path).removesuffix("\n").rpartition("\t")
            if not tab or first in found or len(found) == count:
                raise Damage(
                    f"{path} is damaged: each line must be a name, a tab and a text, with each name at most once"
                )
            found[first] = label
    except Missing:
        return {}
    return found


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Damage(f"{path} cannot be read: it is not UTF-8 text ({error.reason})") from None


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise Damage(f"{path} cannot be read: it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file")


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
