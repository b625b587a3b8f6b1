"""Progress: how far training is, what the loop is told to do, and who watches it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from dura.types import DuraError


class Interrupted(DuraError):
    """The user stopped training. The last whole step is in the checkpoint."""

    exit_code = 130
    shared = True


@dataclass(frozen=True)
class Progress:
    """How far training is. A checkpoint holds this, the model's state and the optimizer's state."""

    epoch: int = 0
    """Finished epochs."""
    step: int = 0
    """Steps of the current epoch."""
    steps: int = 0
    """Steps of all epochs."""
    loss: float = 0.0
    """Sum over the steps of the current epoch."""
    penalty: float = 0.0
    facts: int = 0
    seconds: float = 0.0
    """Time spent in steps, also before a resume."""
    epoch_seconds: float = 0.0
    best: float = -math.inf
    best_epoch: int = 0
    stale: int = 0
    """Validations since the best one."""
    done: bool = False


class Listener(Protocol):
    """Watches training: a progress display, a log, the run's records."""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """After each step."""

    def epoch(self, record: dict[str, Any]) -> None:
        """After each epoch, with its record."""

    def notice(self, sentence: str) -> None:
        """A sentence for the user."""


@dataclass(frozen=True)
class Plan:
    """The settings that the loop itself reads."""

    epochs: int = 100
    batch: int = 500
    seed: int = 0
    validate_every: int = 1
    patience: int = 0
    checkpoint_every: float = 60.0
    anneal: int = 0
    """The number of last epochs over which the learning rate falls linearly to zero."""
