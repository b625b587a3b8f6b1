"""Study: what all studies share: their shape, their common options, how they end, and how they call runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from dura.records import RunFolder, exported_as
from dura.types import BadInput, IntArray
from dura.words import spelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dura.config import Experiment
    from dura.models import Model
    from dura.sheets.sheet import Sheet

Found = Mapping[str, Any]
"""What a study found, as plain values that are ready for JSON."""
Count = Callable[[int, int], None]
"""Called with how much is done, and how much there is in all."""
Bar = Callable[[str], AbstractContextManager[Count]]
"""Shows a progress bar with this title; a face passes it to `command`."""
Train = Callable[..., Sequence[Mapping[str, Any]]]
"""Trains variations of an experiment (see `dura.sweeps.vary`); a face passes it to `command`."""


PARTS = ("compute", "sheets", "draw", "command")
"""The functions that a study's module must have; `Study` says what they take."""
HANDED = ("bar", "train")
"""The parameters of `command` that a face fills in; they are keyword-only."""


class SplitName(StrEnum):
    """The splits of a graph."""

    train = "train"
    valid = "valid"
    test = "test"


RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of one graph.")]
SplitOption = Annotated[SplitName, typer.Option(help="The facts to rank.")]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the tables and the figure.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The seed of everything that is drawn at random.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.")]


@dataclass(frozen=True)
class Made:
    """What a study's command made, for a face to show."""

    document: Found
    """What `--json` prints."""
    text: str
    """What people read."""
    files: Sequence[Path]
    failure: str = ""
    """A sentence with which the command must end, although everything was written; empty if all is well."""


class Study(Protocol):
    """The shape of a study's module."""

    def compute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What was found, ready for JSON."""

    def sheets(self, found: Found, /) -> dict[str, Sheet]:
        """The printed tables by the stem of their files; the first is the main one."""

    def draw(self, found: Found, path: Path, /) -> Path:
        """Write the figure."""

    def command(self, *args: Any, **kwargs: Any) -> Made:
        """The command, with its options (`out` is one of them); a face fills in what is called `bar` or `train`."""


def finish(
    found: Found,
    sheets: Mapping[str, Sheet],
    draw: Callable[[Found, Path], Path],
    out: Path,
    failure: str = "",
) -> Made:
    """Write the sheets (the main one with everything that was found) and the figure, and say what to show."""
    (stem, main), *others = sheets.items()
    files = main.write(out, stem, **found)
    for name, sheet in others:
        files += sheet.write(out, name)
    files += [draw(found, out / f"{stem}.{ending}") for ending in ("png", "svg")]
    text = "\n\n".join(sheet.terminal() for sheet in sheets.values())
    return Made({**main.document(), **found, "files": [str(file) for file in files]}, text, files, failure)


def run_labels(runs: Sequence[Path]) -> list[str]:
    """Names for runs of one graph: "RESCAL DURA-I", or "ComplEx DURA, 70 % zeros, int8" for an exported one.

    Runs that would have the same name are called by their folders. Runs of several graphs, or one run twice, are refused.
    """
    folders = [RunFolder.open(run) for run in runs]
    places = [run.resolve() for run in runs]
    for place, times in Counter(places).items():
        if times > 1:
            raise BadInput(f"the run {place} is given {times} times; name each run once")
    graphs = [folder.about().get("graph", {}) for folder in folders]
    for run, graph in zip(runs, graphs, strict=True):
        if graph.get("digest") != graphs[0].get("digest"):
            raise BadInput(
                f"{runs[0]} and {run} are runs of different graphs ({graphs[0].get('name')} and {graph.get('name')}, by their "
                "digests), so their results cannot be compared; give runs of one graph"
            )
    labels = [_label(folder) for folder in folders]
    for names in ([place.name for place in places], [str(run) for run in runs]):
        counts = Counter(labels)
        labels = [name if counts[label] > 1 else label for label, name in zip(labels, names, strict=True)]
    return labels


def _label(folder: RunFolder) -> str:
    from dura.runs.store import read_settings

    return ", ".join(filter(None, (_called(read_settings(folder)), exported_as(folder.records()))))


def _called(experiment: Experiment) -> str:
    """The model and the regularizer, spelled as their classes are."""
    from dura.models import MODELS
    from dura.regularizers import REGULARIZERS

    model, regularizer = experiment.model.name, experiment.regularizer.name
    classes = MODELS.get(model).__name__, REGULARIZERS.get(regularizer).__name__
    dual = "dual " if experiment.model.options.get("comparator") == "distance" else ""
    return f"{dual}{spelled(model, classes[0])} {spelled(regularizer, classes[1])}"


def answer_rows(model: Model, entities: IntArray) -> NDArray[np.floating[Any]]:
    """The rows of these entities as answers. They must not depend on the question."""
    import numpy as np
    import torch

    if model.grouped_by:
        on = " and ".join(model.grouped_by)
        raise BadInput(
            f"the embeddings of answers depend on the {on} in the model {type(model).__name__}, so answers cannot be compared"
        )
    with model.answering():
        rows = model.targets(torch.from_numpy(np.ascontiguousarray(entities)).to(model.device, torch.long))
        assert isinstance(rows, torch.Tensor)
        return rows.cpu().numpy()
