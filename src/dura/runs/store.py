"""Store: write the graph and the settings of a run into its folder, and read them again.

A run folder holds the names and the facts of its graph, so the run can be evaluated and asked without the original files. The
folder may come from a stranger, so everything is checked before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.stored import read_files, write_files
from dura.records import PLAIN, Damage, RunFolder
from dura.records.reading import MOST_JSON
from dura.records.schema import NUMBER, WHOLE, check
from dura.runs.reviews import reviews_of, write_reviews
from dura.text import shown
from dura.types import BadInput, DuraError, Sizes

if TYPE_CHECKING:
    from dura.models.state import Form

_STATE = {"packed?": {"format": Annotated[int, 1, 2**31]}, "epoch?": WHOLE, "valid_mrr?": NUMBER, "threads?": WHOLE}
MOST_SLOTS = 16
"""A checkpoint with the optimizer's state has at most this many times as many bytes as the model's tables."""


def read_settings(folder: RunFolder) -> Experiment:
    """The settings that a run was started with."""
    return Experiment.from_toml(folder.settings(), where=str(folder.path / "settings.toml"))


def write_graph(folder: RunFolder, graph: Graph, version: int = PLAIN) -> None:
    """Write vocabularies, labels and facts. Then write run.json, with their counts and the format of the folder."""
    write_reviews(folder.path, graph)
    folder.describe(graph=write_files(folder.path, graph), version=version)


def read_graph(folder: RunFolder, *, trained: bool = False) -> Graph:
    """The graph that a run was trained on. Its digest shows whether it was changed.

    It comes with what people decided about its facts; with `trained` only with that which the run was trained with.
    """
    about = folder.about()["graph"]
    graph = read_files(folder.path, about, "run.json")
    if graph.digest != about["digest"]:
        raise DuraError(
            f"the graph in the run folder {folder.path} was changed or damaged: its digest differs from the one in run.json; "
            "restore entities.txt, relations.txt, times.txt and facts.safetensors from a backup"
        )
    return replace(graph, reviews=reviews_of(folder.path, graph, trained=trained))


def check_checkpoints(folder: RunFolder, experiment: Experiment, sizes: Sizes) -> None:
    """Compare the outlines of all checkpoints with the model of the settings, before memory is allocated for either."""
    from dura.models import MODELS
    from dura.models.state import MISFIT, check_forms
    from dura.training.checkpoint import Checkpoints
    from dura.training.restoring import PROGRESS

    renamed = MODELS.get(experiment.model.name).renamed
    for outline in Checkpoints(folder.path / "checkpoints").outlines():
        try:
            check(outline.state, _STATE | {"progress?": PROGRESS})
        except BadInput as error:
            raise Damage(f"{outline.path} is damaged: {error}") from None
        packed = outline.state.get("packed")
        own_forms = declared(experiment, replace(sizes, entities=1) if packed else sizes)
        if own_forms is None:
            continue
        bytes_ = sum(math.prod(shape) * (1 if packed else dtype.itemsize) for dtype, shape in own_forms.values())
        if bytes_ > outline.bytes or (not packed and outline.bytes > MOST_JSON + MOST_SLOTS * bytes_):
            raise DuraError(
                f"{outline.path} {MISFIT} its tables have {outline.bytes:,} bytes, "
                f"but those of the model in the settings have {bytes_:,}"
            )
        if not packed:
            own = {name: form for name, form in outline.tensors.items() if not name.startswith("optimizer.")}
            if outline.path.name.startswith("step"):
                own = {name.removeprefix("model."): form for name, form in own.items()}
            check_forms(own_forms, {renamed.get(name, name): form for name, form in own.items()}, outline.path)
        elif strange := [name for name in outline.tensors if not _tables(name, renamed) & own_forms.keys()]:
            raise DuraError(f"{outline.path} {MISFIT} the model has no table {shown(strange[0])}")


def _tables(name: str, renamed: Mapping[str, str]) -> set[str]:
    """The tables that a tensor of a packed model may belong to: the tensor is called TABLE, or TABLE.PART for a part of it."""
    return {renamed.get(table, table) for table in (name, name.rpartition(".")[0])}


def declared(experiment: Experiment, sizes: Sizes) -> dict[str, Form] | None:
    """The types and shapes of the model's tensors, without memory for them. None if the model does not allow that."""
    import torch

    from dura.models import MODELS
    from dura.models.state import forms

    try:
        with torch.device("meta"), world.whole():
            return forms(MODELS.build(experiment.model.name, experiment.model.options, sizes).state_dict())
    except RuntimeError as error:  # the constructor of another package's model may compute with its tables
        if "overflow" in str(error):
            raise DuraError("the settings describe a model that is too large for any machine") from None
        return None
