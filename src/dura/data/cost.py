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


def free_memory() -> int | None:
    """Bytes that new processes can have without pushing others out; None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
