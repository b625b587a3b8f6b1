"""Download: the published files of a catalog graph into the cache. They are checked, and all of them are kept or none."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from dura.data.catalog import Entry, Listing, Published, cache_folder, look_up, verify
from dura.types import BadInput, DuraError, __version__

TIMEOUT = 30
"""A download stops after this many seconds without an answer."""
LEAST_SPEED = 1_000
"""A download stops if it is slower than this many bytes per second, after the first TIMEOUT seconds."""
CHUNK = 1 << 16
MOST_LINE = 1_000
"""The most bytes that a fact is expected to take, for published files whose size is not known."""


def get(name: str, *, progress: bool | None = None) -> Path:
    """The folder of a graph. If it is not on this machine, it is downloaded into the cache.

    `progress` shows a bar on stderr (None: only if stderr is a terminal).
    """
    listing = look_up(name)
    if listing.path is not None:
        try:
            verify(listing)
            return listing.path
        except BadInput:
            if listing.path.parent != cache_folder():  # never replace files that users put elsewhere
                raise
    assert listing.entry is not None, "only catalog graphs can be in the cache"
    return _download(listing.entry, sys.stderr.isatty() if progress is None else progress)


def _download(entry: Entry, progress: bool) -> Path:
    home = cache_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{entry.name}-", dir=home))
    except OSError as error:
        raise DuraError(f"the cache {home} cannot be written ({error.strerror}); set DURA_CACHE") from None
    try:
        with _bar(entry, progress) as advance:
            for split, published in entry.files.items():
                data = _fetch(entry, published, advance).replace(b"\r\n", b"\n")
                mismatch = published.mismatch(data)
                if mismatch:
                    raise DuraError(
                        f"what {published.address} sent is not the published {split} file of {entry.name}: "
                        f"{mismatch}; nothing was kept"
                    )
                _write(temporary / f"{split}.txt", data)
        return _move(temporary, home / entry.name, entry)
    except OSError as error:
        raise DuraError(f"{entry.name} cannot be written to {home}: {error.strerror}; nothing was kept") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fetch(entry: Entry, published: Published, advance: Callable[[int], None]) -> bytes:
    """The bytes at an address, as long as they can still be the published file."""
    address = published.address
    # The published size is of a file with LF line ends; the server may send CR and LF.
    most = published.size + published.facts if published.size else MOST_LINE * published.facts
    request = urllib.request.Request(address, headers={"User-Agent": f"dura/{__version__}"})
    parts: list[bytes] = []
    size, begin = 0, time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            expected = _length(response.headers.get("Content-Length"))
            while size <= most and (part := response.read1(CHUNK)):
                parts.append(part)
                size += len(part)
                advance(len(part))
                spent = time.monotonic() - begin
                if spent > TIMEOUT and size < LEAST_SPEED * spent:
                    raise TimeoutError(f"it sent only {size:,} bytes in {spent:.0f} seconds")
    except urllib.error.HTTPError as error:
        error.close()
        raise DuraError(_by_hand(entry, f"{address} answers {error.code} {error.reason}")) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DuraError(_by_hand(entry, f"{address} cannot be reached: {reason}")) from None
    if size > most:
        raise DuraError(
            _by_hand(entry, f"{address} sends more than the {most:,} bytes that the published file can have")
        )
    if size < expected:
        raise DuraError(_by_hand(entry, f"{address} broke off after {size:,} of {expected:,} bytes"))
    return b"".join(parts)


def _length(text: str | None) -> int:
    """The number of bytes that a server promises; 0 if it promises none, or something that is not a number."""
    return int(text) if text and text.isascii() and text.strip().isdecimal() and len(text) < 20 else 0


def _by_hand(entry: Entry, reason: str) -> str:
    """The sentence that says why the download failed, and how to get the files by hand."""
    addresses = ", ".join(published.address for published in entry.files.values())
    return (
        f"the graph {entry.name} could not be downloaded ({reason}); without a network put {addresses} as "
        f"train.txt, valid.txt and test.txt (or .gz) into {cache_folder() / entry.name}, or into a folder "
        f"{entry.name} in a folder that DURA_DATA names"
    )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _move(temporary: Path, target: Path, entry: Entry) -> Path:
    """Put the whole folder in its place at once. A damaged one that is there is removed."""
    if target.exists():
        try:
            verify(Listing(entry.name, str(target), target, entry))
            return target  # another process was faster
        except BadInput:
            shutil.rmtree(target)
    temporary.chmod(0o755)
    temporary.rename(target)
    return target


@contextlib.contextmanager
def _bar(entry: Entry, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr. Yields the function that advances it by a number of bytes."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    total = sum(published.size for published in entry.files.values())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"downloading {entry.name}", total=total or None)
        yield lambda size: bar.advance(task, size)
