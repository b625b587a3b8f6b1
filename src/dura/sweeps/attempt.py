"""Attempt: train one trial. What is the trial's own fault becomes a sentence, and everything else is raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dura.config import Experiment
from dura.data.graph import Graph
from dura.runs.work import train_or_resume
from dura.runs.workers import NO_MEMORY, short_of_memory
from dura.training.progress import Interrupted, Listener
from dura.types import DuraError


def attempt(
    experiment: Experiment,
    path: Path,
    graph: Graph,
    *,
    listeners: tuple[Listener, ...] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Train the experiment in a run folder, or continue the run that is there. Returns why it failed, or nothing."""
    try:
        train_or_resume(experiment, path, graph, listeners=listeners, stopped=stopped)
    except Interrupted:
        raise
    except DuraError as error:
        if isinstance(error.__cause__, OSError):  # a full disk is not the fault of this trial
            raise
        return str(error)
    except (MemoryError, RuntimeError) as error:
        if not short_of_memory(error):
            raise
        return NO_MEMORY
    return ""
