"""The Python functions `load`, `read`, `from_facts`, `fit` and `open`; `dura/__init__.py` offers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dura.config.sections import Splitting, Unit
from dura.data import from_facts, load
from dura.data.graph import Graph
from dura.data.opening import MOST_GB
from dura.runs.choices import Choices, choose
from dura.runs.trained import Trained, open_run
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.runs.trackers import Tracker

__all__ = ["choose", "fit", "from_facts", "load", "open", "read"]


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
    split: Splitting = "random",
    time_format: str | None = None,
    time_unit: Unit = "auto",
    time_zone: str = "UTC",
    most_gb: float = MOST_GB,
    format: str = "",  # noqa: A002
    entities: str | Path | None = None,
    relations: str | Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> Graph:
    """Read your own graph: one file of facts, which is split for you, or a folder with train, valid and test.

    Like `load`, but `path` is neither a catalog name nor a database. `time` names the column of times by position or title, or
    the columns of begin and end. Head, relation and tail are then `columns`, or the columns that titles name, or the first three
    other columns. `time_format`, `time_unit` and `time_zone` say how times are written, cut and placed. `format` is the ending of
    a known format if the file's own says nothing. A file that holds more than `most_gb` gigabytes is refused. `entities` and
    `relations` are files with labels, types and descriptions. `notify` is called with a sentence for each thing worth knowing.

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
        split=split,
        time_format=time_format,
        time_unit=time_unit,
        time_zone=time_zone,
        most_gb=most_gb,
        format=format,
        entities=entities,
        relations=relations,
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
    minutes: float | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
    track: str | Sequence[str | Tracker] = (),
    reviews: str | Path | None = None,
) -> Trained:
    """Train a model on a graph and return it, with its best state by validation.

    What is not given comes from `preset` (a name such as "umls/complex-dura"), or it is chosen for the graph. `minutes` is
    about how long all of it may take. `settings` takes any other setting by its path: `settings={"regularizer.weight": 0.1}`.
    With `out` the run is kept in a folder that `dura.open` and `dura train --resume` read. `progress` shows a live display (the
    default on a terminal). `track` names trackers that get the curves too ("tensorboard", "mlflow"), or holds a `dura.Tracker` of
    your own. `reviews` is a run that people reviewed, or a file of decisions: accepted facts are trained on, and rejected ones
    are taken out and held down.
    """
    if not isinstance(graph, Graph):
        raise BadInput(f"fit takes a graph, not {graph!r}: load or read it first, such as dura.load('umls')")
    choices = Choices(
        preset,
        model=model,
        rank=rank,
        regularizer=regularizer,
        epochs=epochs,
        batch=batch,
        lr=lr,
        seed=seed,
        device=device,
        settings={**(settings or {}), **({} if reviews is None else {"graph.reviews": str(reviews)})},
    )
    from dura.runs.run import start_run

    folder = None if out is None else Path(out)
    return start_run(graph, choices, out=folder, progress=progress is not False, track=track, minutes=minutes)


def open(path: str | Path, device: str = "cpu") -> Trained:  # noqa: A001
    """Open a run folder: the trained model with its graph."""
    return open_run(path, device)
