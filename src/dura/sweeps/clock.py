"""Clock: the time of a timed sweep, and a training that should stop after some epochs."""

from __future__ import annotations

import math
import time
from typing import Any

from dura.training.progress import Progress
from dura.types import BadInput

MINUTE = 60.0


class Clock:
    """The time of a sweep: what has passed, also before it was continued, and what is left."""

    def __init__(self, minutes: float, spent: float = 0.0) -> None:
        if not 0 < minutes < math.inf:
            raise BadInput(f"the minutes of a sweep must be a number above 0, not {minutes:g}")
        self.all, self._began = minutes * MINUTE, time.monotonic() - spent

    @property
    def spent(self) -> float:
        """Seconds that have passed."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.all - self.spent


class Until:
    """Watches a training, which should stop after an epoch."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.there = epochs, False

    def step(self, progress: Progress, steps_in_epoch: int) -> None:  # noqa: ARG002
        """A continued run may be there already."""
        self.there = self.there or progress.epoch >= self.epochs

    def epoch(self, record: dict[str, Any]) -> None:
        """Note that the epoch is reached."""
        self.there = self.there or record["epoch"] >= self.epochs

    def notice(self, sentence: str) -> None:
        """Nothing: it is in the run's records."""
