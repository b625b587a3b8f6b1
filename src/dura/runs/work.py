"""Work: train, continue and evaluate one run, in this process or in a worker (see `workers`)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.loading import load_graph
from dura.runs.evaluations import keep
from dura.runs.run import resume, train
from dura.runs.trained import Trained, open_run
from dura.training.display import display
from dura.training.progress import Interrupted, Listener
from dura.words import finite


def train_or_resume(
    experiment: Experiment,
    out: Path,
    graph: Graph | None = None,
    *,
    listeners: tuple[Listener, ...] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train the experiment in the folder `out`, or continue the run that is there. If `graph` is given, it is not read again."""
    if (out / "run.json").exists():
        return resume(out, listeners=listeners, stopped=stopped)
    graph = load_graph(experiment.graph) if graph is None else graph
    return train(experiment, graph, out, listeners=listeners, stopped=stopped)


# -- calls of workers: plain values in, plain values out ---------------------------------------------------------------


def train_run(settings: str, out: str, *, stopped: Callable[[], bool], tell: Callable[[Any], None]) -> None:  # noqa: ARG001
    """`train_or_resume` with the settings as TOML. The log gets one line per epoch."""
    experiment = Experiment.from_toml(settings)
    with display(experiment, Path(out).name) as listener:
        train_or_resume(experiment, Path(out), listeners=(listener,), stopped=stopped)


def evaluate_run(
    run: str,
    device: str = "cpu",
    *,
    stopped: Callable[[], bool],
    tell: Callable[[Any], None],  # noqa: ARG001
) -> dict[str, Any]:
    """Rank the test facts of a run and keep the result in its records. Returns what `dura evaluate --json` prints."""

    def progress(_done: int, _all: int) -> None:
        if stopped():
            raise Interrupted(f"the evaluation of {run} was stopped")

    result = open_run(run, device).evaluate("test", progress=progress)
    if unkept := keep(Path(run), result):
        print(f"dura: {unkept}", file=sys.stderr)  # noqa: T201
    document: dict[str, Any] = finite({**result.to_dict(), "run": run})
    return document


def ensemble_runs(
    first: str,
    second: str,
    out: str,
    *,
    stopped: Callable[[], bool],
    tell: Callable[[Any], None],  # noqa: ARG001
) -> dict[str, Any]:
    """Let two runs answer together and rank the test facts. Returns what `dura ensemble --json` prints. `out` is made anew."""
    from dura.runs.combining import combine_and_rank

    def progress(_done: int, _all: int) -> None:
        if stopped():
            raise Interrupted(f"the ensemble of {first} and {second} was stopped")

    shutil.rmtree(out, ignore_errors=True)  # what a process that was killed has left
    _, result = combine_and_rank([Path(first), Path(second)], Path(out), fit="adaptive", progress=progress)
    document: dict[str, Any] = finite({**result.to_dict(), "first": first, "second": second, "out": out})
    return document
