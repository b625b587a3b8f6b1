"""Timed: a sweep without a file. It searches for good settings in a number of minutes and trains the best ones longer.

1. Measure a few steps, and choose rank, batches and sampling that fit (`shape`).
2. Search for half of the time: many short trials, the best third goes on three times as long, twice (successive halving).
3. Train the best settings with the rest of the time at the larger rank, with a falling learning rate.

Trials are compared by valid MRR. The test split is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.loading import anchored, load_dated, load_graph
from dura.data.stored import store
from dura.records import disk_error
from dura.runs.choices import Choices
from dura.runs.defaults import Outline, fit_to
from dura.sweeps.clock import Clock
from dura.sweeps.found import Found
from dura.sweeps.journal import Journal
from dura.sweeps.rounds import Notify, Search
from dura.sweeps.sweep import check_extra
from dura.sweeps.trials import check_free
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.data.readers import ColumnChoice


def sweep_within(
    minutes: float,
    out: Path | Callable[[str], Path],
    *,
    graph: Graph | None = None,
    models: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    time: int | ColumnChoice | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
    notify: Notify = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Found:
    """Search for `minutes` in the new folder `out`, and train the best settings. `settings` are fixed.

    The graph is `graph`, or that of the setting graph.source. Without `models` it is the default model for the graph's facts.
    """
    clock = Clock(minutes)
    check_extra()
    given = dict(settings or {})
    wanted = [Choices(model=name, settings=given) for name in models or [None]]  # type: ignore[list-item]
    if graph is None:
        graph, read = load_dated(wanted[0].start.graph, time, tell)
        source = anchored(read)
    else:
        source = wanted[0].start.graph
    if not len(graph.valid):
        raise BadInput(f"a sweep compares trials on the valid split, but the graph {graph.name!r} has no valid facts")
    outline, dated = Outline.of(graph), graph.times is not None
    bases = [_base(fit_to(choice.experiment(dated=dated, graph=source), outline, choice.chosen)) for choice in wanted]
    folder = out(graph.name) if callable(out) else out
    check_free(folder)
    try:
        (folder / "runs").mkdir(parents=True)
    except OSError as error:
        raise disk_error(error, folder, "name another folder with --out") from error
    if source.source in ("", "-"):
        source = replace(source, source=str(store(graph, folder / "graph").absolute()), columns=())
        bases = [replace(base, graph=source) for base in bases]
    fixed = [path for path, value in given.items() if not (path == "training.batch" and value == "auto")]
    journal = Journal(folder, minutes, seed, graph.digest, bases, fixed)
    return Search(journal, graph, clock, tell, notify, stopped).run()


def continue_within(
    path: Path,
    minutes: float | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    notify: Notify = lambda *_: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Found:
    """Continue a timed sweep with the time that was left. `minutes` is a new time for the whole sweep."""
    check_extra()
    journal = Journal.open(path)
    journal.minutes = journal.minutes if minutes is None else minutes
    clock = Clock(journal.minutes, journal.spent)
    graph = load_graph(journal.models[0].graph)
    if graph.digest != journal.digest:
        raise BadInput(f"the graph has changed since the sweep {path} was started; start a new one with --out")
    return Search(journal, graph, clock, tell, notify, stopped).run()


def _base(experiment: Experiment) -> Experiment:
    """Settings to search around."""
    if experiment.optimizer.name.lower() == "als":
        raise BadInput(
            "a sweep of minutes searches learning rates and batches, which alternating least squares has not"
        )
    if experiment.training.batch == "auto":
        experiment = experiment.with_value("training.batch", Experiment().training.batch)
    return replace(experiment, expected={})


def sweep(
    graph: Graph,
    *,
    minutes: float,
    out: str | Path,
    model: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Found:
    """Search for good settings on a graph for some minutes in the new folder `out`, and train the best ones.

    `model` is one name or several; `settings` are fixed. `progress` is called with sentences. The graph is stored in the folder, so
    that `best.toml` works without this program. `found.open()` is the best model, `found.best` its row, `found.choices` say why.

    >>> found = dura.sweep(dura.load("umls"), minutes=1, out="sweeps/umls")  # doctest: +SKIP
    >>> found.open().evaluate().mrr  # doctest: +SKIP
    """
    if not isinstance(graph, Graph):
        raise BadInput(f"sweep takes a graph, not {graph!r}: load or read it first, such as dura.load('umls')")
    names = [model] if isinstance(model, str) else list(model or ())

    def line(row: Mapping[str, Any], spent: float, every: float) -> str:
        mrr = "no valid MRR" if row["valid_mrr"] is None else f"valid MRR {row['valid_mrr']:.4f}"
        return f"trial {row['trial']}, {spent:.0f} of {every:.0f} s, {row['state']}: {mrr}"

    tell = progress or (lambda _: None)
    return sweep_within(
        minutes,
        Path(out),
        graph=graph,
        models=names,
        settings=settings,
        tell=tell,
        notify=lambda row, spent, every: tell(line(row, spent, every)),
    )
