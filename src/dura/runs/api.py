"""The Python face: `load`, `read`, `from_facts`, `fit`, `open`; `dura/__init__.py` hands them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.config import Experiment
from dura.data import from_facts, load
from dura.data.graph import Graph
from dura.runs.presets import preset
from dura.runs.trained import Trained, open_run
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.runs.trackers import Tracker

__all__ = ["fit", "from_facts", "load", "open", "read"]


def read(
    path: str | Path,
    *,
    columns: Sequence[int | str] | str | None = None,
    time: int | str | Sequence[int | str] | None = None,
    header: bool | None = None,
    separator: str | None = None,
    skip_bad: bool = False,
    valid_share: float | None = None,
    test_share: float | None = None,
    split_seed: int = 0,
    notify: Callable[[str], None] | None = None,
) -> Graph:
    """Read a graph of your own: one file of facts (split for you) or a folder with train, valid and test.

    As `load`, but the path is always a path. `time` names the column of times by position or header name, or those of begin and
    end; head, relation and tail are then `columns`, or where a well-known header names them, or the first three other columns.
    `notify` is called with a sentence for each thing worth knowing.

    >>> dura.read("facts.tsv", columns=("head", "relation", "tail"))  # doctest: +SKIP
    >>> dura.read("visits.csv", time="date"), dura.read("spans.tsv", time=("begin", "end"))  # doctest: +SKIP
    """
    if not Path(path).exists():
        raise BadInput(f"there is no file or folder {str(path)!r} to read")
    return load(
        Path(path),
        columns=columns,
        time=time,
        header=header,
        separator=separator,
        skip_bad=skip_bad,
        valid_share=valid_share,
        test_share=test_share,
        split_seed=split_seed,
        notify=notify,
    )


def fit(
    graph: Graph,
    *,
    preset: str | None = None,
    model: str | None = None,
    rank: int | None = None,
    regularizer: str | None = None,
    epochs: int | None = None,
    batch: int | str | None = None,
    lr: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
    track: str | Sequence[str | Tracker] = (),
) -> Trained:
    """Train a model on a graph and return it, best state by validation.

    What is not given comes from `preset` (a name such as "umls/complex-dura") or the defaults. `settings` takes any other
    setting by its path: `settings={"regularizer.weight": 0.1}`. With `out` the run is kept in a folder that `dura.open` and
    `dura train --resume` read. `progress` shows a live display (the default on a terminal). `track` names trackers that get the
    curves too ("tensorboard", "mlflow"); a `dura.runs.trackers.Tracker` of your own may stand among them.
    """
    from dura.runs.run import train
    from dura.runs.trackers import open_trackers, tracking

    trackers, folder = open_trackers(track), None if out is None else Path(out)
    experiment = choose(
        preset,
        model=model,
        rank=rank,
        regularizer=regularizer,
        epochs=epochs,
        batch=batch,
        lr=lr,
        seed=seed,
        device=device,
        settings=settings,
        dated=graph.times is not None,
    ).with_value("graph.source", graph.name)
    from dura.training.display import display

    with (
        display(experiment, graph.name, quiet=progress is False) as listener,
        tracking(trackers, experiment, graph.name, folder, listener.notice) as others,
    ):
        return train(experiment, graph, folder, listeners=(listener, *others))


def choose(
    name: str | None,
    *,
    graph: str | None = None,
    model: str | None = None,
    rank: int | None = None,
    regularizer: str | None = None,
    epochs: int | None = None,
    batch: int | str | None = None,
    lr: float | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    dated: bool = False,
) -> Experiment:
    """The experiment of a preset (or the defaults) with what the user chose on top; components before their options.

    Facts with times (`dated`) have defaults of their own.
    """
    experiment = preset(name) if name else Experiment.of_dated_facts() if dated else Experiment()
    before = experiment
    chosen = {
        "model.name": model,
        "regularizer.name": regularizer,
        "graph.source": graph,
        "model.rank": rank,
        "training.epochs": epochs,
        "training.batch": batch,
        "optimizer.lr": lr,
        "training.seed": seed,
        "training.device": device,
        **(settings or {}),
    }
    size = experiment.model.options.get("rank")
    if size is not None and chosen["model.rank"] is None:
        chosen["model.rank"] = size  # another model of the same size
    # Names first: another component drops the options of the one before, not those that were asked for.
    for path in sorted(chosen, key=lambda path: not path.endswith(".name")):
        value = chosen[path]
        if value is not None:
            experiment = experiment.with_value(path, value)
    return experiment if experiment == before else replace(experiment, expected={})


def open(path: str | Path, device: str = "cpu") -> Trained:  # noqa: A001
    """Open a run folder: the trained model with its graph."""
    return open_run(path, device)
