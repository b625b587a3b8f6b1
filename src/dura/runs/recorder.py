"""Recorder: a listener that writes the records of a run."""

from __future__ import annotations

from typing import Any

from dura.records import RunFolder
from dura.training.progress import Progress


class Recorder:
    """Writes the run's records during training."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Steps are not recorded."""

    def epoch(self, record: dict[str, Any]) -> None:
        """One line per epoch."""
        self.folder.append({"kind": "epoch", **record})

    def notice(self, sentence: str) -> None:
        """One line per notice."""
        self.folder.append({"kind": "notice", "text": sentence})
