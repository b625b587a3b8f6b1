"""Display: how training looks to a person. A live bar on a terminal, plain lines in a log, nothing when quiet.

All of it goes to standard error: standard output belongs to results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dura.config import Experiment
from dura.training.trainer import Listener, Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

LINE_SECONDS = 1.0
"""Plain log lines come at most this often, but for the last one."""


class Quiet:
    """Says notices only."""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def notice(self, sentence: str) -> None:
        """A notice is worth a line even when quiet."""
        print(f"dura: {sentence}", file=sys.stderr)  # noqa: T201


class Lines(Quiet):
    """One plain line an epoch, at most one a second."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._said = 0.0

    def epoch(self, record: dict[str, Any]) -> None:
        """A line for a log file."""
        now = time.monotonic()
        if record["epoch"] == self.epochs or now - self._said >= LINE_SECONDS:
            self._said = now
            print(f"epoch {record['epoch']}/{self.epochs}  {figures(record)}", file=sys.stderr, flush=True)  # noqa: T201


class Live(Quiet):
    """A bar over all steps with speed, loss, penalty, validation MRR and the time that remains."""

    def __init__(self, bars: Bars, title: str, epochs: int) -> None:
        self.bars, self.epochs = bars, epochs
        self.task = bars.add_task(title, total=None, status="", epoch=f"0/{epochs}")
        self._valid = ""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Move the bar."""
        speed = progress.facts / max(progress.epoch_seconds, 1e-9)
        status = (
            f"{speed:,.0f} facts/s  loss {progress.loss / progress.step:.3f}"
            f"  penalty {progress.penalty / progress.step:.3f}{self._valid}"
        )
        self.bars.update(
            self.task,
            total=steps_in_epoch * self.epochs,
            completed=progress.steps,
            status=status,
            epoch=f"{progress.epoch + 1}/{self.epochs}",
        )

    def epoch(self, record: dict[str, Any]) -> None:
        """Remember the newest validation figure."""
        if "valid" in record:
            self._valid = f"  valid MRR {record['valid']['mrr']:.4f}{'*' if record['best'] else ''}"

    def notice(self, sentence: str) -> None:
        """Above the bar."""
        self.bars.console.print(f"dura: {sentence}", markup=False, highlight=False)


def figures(record: dict[str, Any]) -> str:
    """The figures of one epoch in words; a star marks the best so far."""
    text = f"{record['facts_per_second']:,.0f} facts/s  loss {record['loss']:.4f}  penalty {record['penalty']:.4f}"
    if "valid" in record:
        text += f"  valid MRR {record['valid']['mrr']:.4f}{' *' if record['best'] else ''}"
    return text


@contextmanager
def display(
    experiment: Experiment, title: str, quiet: bool = False, console: Console | None = None
) -> Iterator[Listener]:
    """The listener that fits where standard error goes."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = console or Console(stderr=True)
    epochs = experiment.training.epochs
    if quiet:
        yield Quiet()
    elif not console.is_terminal:
        yield Lines(epochs)
    else:
        name = f"{title} {experiment.model.name} {experiment.regularizer.name}"
        columns = (
            TextColumn("[bold]{task.description}[/] epoch {task.fields[epoch]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=console, refresh_per_second=4) as bars:
            yield Live(bars, name, epochs)
