"""Cost: what training will take on this machine, before it begins. The doctor and `dura reproduce` reckon with it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

SCORE_BYTES, FEWEST = 96 << 20, 128
"""Questions are scored at once as long as they take no more than so many bytes, but always so many."""
_GROUPS = (
    ("sys/fs/cgroup/memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where a container finds its limit, what it uses, and how much of that are files that the system gives up (cgroup 2 and 1)."""


@dataclass(frozen=True)
class Cost:
    """Bytes of memory beside torch and the graph, and seconds of one epoch."""

    bytes: int
    seconds_an_epoch: float


def cost(*, numbers: int, width: int, entities: int, questions: int, batch: int, speed: float) -> Cost:
    """The cost of training tables of so many `numbers`, with `width` of them a tail, at `speed` operations a second.

    The tables count thrice (values, gradient, Adagrad), beside one score buffer; an epoch is three products of all questions
    with all `entities` that are scored.

    >>> cost(numbers=1000, width=10, entities=50, questions=20, batch=5, speed=1e6)
    Cost(bytes=13000, seconds_an_epoch=0.06)
    """
    scored = min(batch, max(FEWEST, SCORE_BYTES // (4 * entities)))
    return Cost(3 * 4 * numbers + 4 * entities * scored, 3 * 2 * questions * entities * width / speed)


@cache
def measured_speed(seconds: float = 0.2) -> float:
    """Floating point operations a second of this machine's matrix products, measured for a moment.

    The fastest product counts: others only tell what else the machine was doing.
    """
    left = np.ones((256, 400), dtype=np.float32)
    right = np.ones((400, 4096), dtype=np.float32)
    left @ right
    fastest, start = float("inf"), time.perf_counter()
    while (began := time.perf_counter()) - start < seconds:
        left @ right
        fastest = min(fastest, time.perf_counter() - began)
    return 2 * 256 * 400 * 4096 / fastest


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(0.25), duration(600), duration(1e6)
    ('0.25 s', '10 min', '278 h')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that new processes can have without pushing others out or passing the container's limit; None where nothing tells."""
    kilobytes = _numbers(root / "proc/meminfo").get("MemAvailable:")
    left = [None if kilobytes is None else 1024 * kilobytes]
    for limit, used, cached in _GROUPS:
        folder = (root / limit).parent
        most, now = (_numbers(folder / name).get("") for name in (Path(limit).name, used))
        if most is not None and now is not None:  # a limit of "max" is none
            left.append(max(0, most - now + _numbers(folder / "memory.stat").get(cached, 0)))
    return min((bytes_ for bytes_ in left if bytes_ is not None), default=None)


def _numbers(path: Path) -> dict[str, int]:
    """The numbers of a file of the system by the word before each; what cannot be read is not there."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    pairs = [("", line[0]) if len(line) == 1 else (line[0], line[1]) for line in lines if line]
    return {word: int(number) for word, number in pairs if number.isdecimal()}


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
