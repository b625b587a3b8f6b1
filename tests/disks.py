"""Folders, disks and programs beside the test: a real file system of a few kilobytes, a process that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's mount and limits")


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def program(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python program that runs beside the test; it finds what the test finds."""
    return subprocess.Popen(
        _command(code, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    )


def output(code: str, *arguments: object) -> str:
    """What a program prints, when it has ended well."""
    done = subprocess.run(
        _command(code, *arguments), capture_output=True, text=True, timeout=90, check=False, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _command(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A real file system of this size ("64k") at `path`; the test is skipped where it may not mount one."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("may not mount a file system here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
