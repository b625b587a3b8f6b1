"""Place: how many processes there are, and which one this is."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dura.types import BadInput, DuraError

Over = Literal["shards", "replicas", "all"]
"""Which processes take part: those of this row of the grid, those of this column, or all of them."""
SECONDS = 300.0
"""How long a process waits for another one, unless the settings say otherwise."""


class Lost(DuraError):
    """Another process of the job is gone or does not answer."""


@dataclass(frozen=True)
class Grid:
    """The grid of processes, and the place of this process in it."""

    shards: int = 1
    replicas: int = 1
    rank: int = 0
    groups: Mapping[str, Any] | None = None
    """The process groups of torch by `Over`; None if there is one process."""

    @property
    def shard(self) -> int:
        """Which span of the tables this process holds."""
        return self.rank % self.shards

    @property
    def replica(self) -> int:
        """Which copy of the tables this process belongs to."""
        return self.rank // self.shards


@dataclass
class _Here:
    """What this process knows about its place."""

    grid: Grid = Grid()
    whole: int = 0
    """How many `whole` contexts are open."""


here = _Here()


def size() -> int:
    """How many processes work on this job: what torchrun says, or 1."""
    return variable("WORLD_SIZE", 1, least=1)


def rank() -> int:
    """The number of this process, from 0."""
    if size() == 1:
        return 0
    number = variable("RANK", -1, least=0)
    if not 0 <= number < size():
        said = "is not set" if number < 0 else f"is {number}"
        raise BadInput(
            f"the environment variable RANK {said}, but with WORLD_SIZE={size()} it must be a number from 0 to {size() - 1}; "
            "start the processes with torchrun, or unset WORLD_SIZE"
        )
    return number


def leads() -> bool:
    """True in the one process that prints and writes files."""
    return rank() == 0


def job() -> str:
    """What stays the same if torchrun starts the job again: its name (--rdzv-id), or else the process of torchrun."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return f"{socket.gethostname()}:{os.getppid()}" if name == "none" else name


def local_rank() -> int:
    """The number of this process on its host, from 0."""
    return variable("LOCAL_RANK", 0, least=0)


def alone(what: str) -> None:
    """Refuse to do something in several processes at once that is made for one; `what` begins the sentence.

    >>> alone("dura export")
    """
    if size() > 1:
        raise BadInput(
            f"{what} runs in one process, but torchrun started {size()} (WORLD_SIZE={size()}); "
            "start it without torchrun, or unset WORLD_SIZE"
        )


def grid() -> Grid:
    """The grid that this process has joined; a grid of one process if it has not joined any."""
    return here.grid


def shards() -> int:
    """Over how many processes the rows of a table are spread; 1 inside `whole`."""
    return 1 if here.whole else here.grid.shards


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Inside, tables are built as one process would build them."""
    here.whole += 1
    try:
        yield
    finally:
        here.whole -= 1


def count(over: Over) -> int:
    """How many processes take part."""
    if here.grid.groups is None:
        return 1
    shards, replicas = here.grid.shards, here.grid.replicas
    return {"shards": shards, "replicas": replicas, "all": shards * replicas}[over]


def group(over: Over) -> Any:
    """The process group of torch."""
    assert here.grid.groups is not None
    return here.grid.groups[over]


_GONE, _LATE = "another process has gone", "another process did not answer in time"
_SIGNS = {
    "timed out": _LATE,
    "timeout": _LATE,
    **dict.fromkeys(("connection", "connect", "broken pipe", "socket", "peer", "econn", "unreachable"), _GONE),
}
"""What the errors of gloo, NCCL and the store say, in lower case, and what it means."""


@contextlib.contextmanager
def reaching() -> Iterator[None]:
    """Turn torch's error for a process that does not answer into one sentence."""
    try:
        yield
    except RuntimeError as error:
        why = next((why for sign, why in _SIGNS.items() if sign in str(error).lower()), "")
        if not why:
            raise
        raise Lost(f"process {rank()} of {size()} stops: {why}") from error


def variable(name: str, default: int, least: int) -> int:
    """A whole number that torchrun has put into the environment."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise BadInput(
            f"the environment variable {name} is {text!r}, but it must be a whole number of at least {least}"
        )
    return int(text)
