"""Display: the progress of training as a live bar on a terminal, as plain lines in a log, or not at all.

Everything goes to standard error. Standard output is for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dura import world
from dura.config import Experiment
from dura.text import printable
from dura.training.progress import Listener, Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

LINE_SECONDS = 1.0
"""The least time between two plain log lines. The last line is always written."""


class Quiet:
    """Prints notices only."""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Nothing."""

    def epoch(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def notice(self, sentence: str) -> None:
        """Print the notice on its own line."""
        _line(f"dura: {sentence}")


class Silent(Quiet):
    """Prints nothing: another process of the job prints."""

    def notice(self, sentence: str) -> None:
        """Nothing."""


class Lines(Quiet):
    """One plain line per epoch, but at most one per second."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._said, self._valid = 0.0, ""

    def epoch(self, record: dict[str, Any]) -> None:
        """Print a line with the newest validation MRR."""
        now, self._valid = time.monotonic(), valid(record) or self._valid
        if record["epoch"] == self.epochs or now - self._said >= LINE_SECONDS:
            self._said = now
            _line(f"epoch {record['epoch']}/{self.epochs}  {numbers(record)}  {self._valid}".rstrip())


class Live(Quiet):
    """A bar over all steps, with speed, loss, penalty, validation MRR and the remaining time."""

    def __init__(self, bars: Bars, epochs: int) -> None:
        self.bars, self.epochs = bars, epochs
        self.task = bars.add_task("training", total=None, status="", epoch=f"0/{epochs}")
        self._valid = ""

    def step(self, progress: Progress, steps_in_epoch: int) -> None:
        """Move the bar."""
        shown = {
            "loss": progress.loss / progress.step,
            "penalty": progress.penalty / progress.step,
            "facts_per_second": progress.facts / max(progress.epoch_seconds, 1e-9),
        }
        self.bars.update(
            self.task,
            total=steps_in_epoch * self.epochs,
            completed=progress.steps,
            status=f"{self._valid}  {numbers(shown)}".strip(),
            epoch=f"{progress.epoch + 1}/{self.epochs}",
        )

    def epoch(self, record: dict[str, Any]) -> None:
        """Show the newest validation MRR."""
        self._valid = valid(record) or self._valid
        self.bars.update(self.task, status=f"{self._valid}  {numbers(record)}".strip())

    def notice(self, sentence: str) -> None:
        """Print the notice above the bar."""
        self.bars.console.print(printable(f"dura: {sentence}"), markup=False, highlight=False)


def numbers(record: dict[str, Any]) -> str:
    """Loss, penalty and speed as text."""
    speed = record["facts_per_second"]
    pace = f"{speed / 1000:,.0f}k" if speed >= 10_000 else f"{speed:,.0f}"
    return f"loss {record['loss']:.3f}  penalty {record['penalty']:.3f}  {pace} facts/s"


def valid(record: dict[str, Any]) -> str:
    """The validation MRR of an epoch as text, with a star if it is the best so far. Empty if the epoch was not validated."""
    return f"valid MRR {record['valid']['mrr']:.4f}{'*' if record['best'] else ''}" if "valid" in record else ""


def _line(text: str) -> None:
    if sys.stderr is not None:  # None if the parent process closed it; print would then use standard output
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def display(
    experiment: Experiment, title: str, quiet: bool = False, console: Console | None = None
) -> Iterator[Listener]:
    """The listener for this standard error: a bar on a terminal, else lines; notices only if `quiet`."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    console = console or Console(stderr=True)
    epochs = experiment.training.epochs
    if not world.leads():
        yield Silent()
    elif quiet:
        yield Quiet()
    elif not console.is_terminal:
        yield Lines(epochs)
    else:
        name = f"{title} {experiment.model.name} {experiment.regularizer.name}"
        # The most important column is first: a narrow terminal cuts off the last ones.
        columns = (
            TextColumn("{task.fields[epoch]}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=8),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=True, ratio=1)),
        )
        console.print(printable(name), style="bold", markup=False, highlight=False)
        with Bars(*columns, console=console, refresh_per_second=4) as bars:
            yield Live(bars, epochs)
