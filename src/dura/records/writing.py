"""Writing: write a file completely or not at all (temporary file, fsync, rename), and say in one sentence why it failed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from dura.types import DuraError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NEW = "nothing is lost yet: make room, or name another folder"
_KEPT = "earlier checkpoints are kept: fix this, then continue with --resume"


def write_atomic(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that `path` holds either its old content or all of the new, even after a power cut.

    >>> write_atomic(Path("run/settings.toml"), b"version = 1")  # doctest: +SKIP
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with temporary.open("xb") as file:
                for piece in [data] if isinstance(data, bytes) else data:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        in_run = any((folder / "run.json").exists() for folder in (path.parent, path.parent.parent))
        raise disk_error(error, path, _KEPT if in_run else _NEW) from error


def disk_error(error: OSError, path: Path, then: str = _KEPT) -> DuraError:
    """The error for a file that cannot be written: which file, why, and as `then` what the user can do."""
    if error.errno in _FULL:
        why = "there is no space left (the disk is full or a quota is used up)"
    elif error.errno == errno.EROFS:
        why = "the file system is read-only"
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = "you have no permission to write there"
    else:
        why = error.strerror or str(error)
    return DuraError(f"cannot write {path.name} in the folder {path.parent}: {why}; {then}")


def _sync_folder(folder: Path) -> None:
    """Make a rename permanent. Windows and some network disks cannot sync folders; there nothing is done."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
