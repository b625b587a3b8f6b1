"""Store: write the graph and the settings of a run into its folder, and read them again.

A run folder holds the names and the facts of its graph, so the run can be evaluated and asked without the original files. The
folder may come from a stranger, so everything is checked before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.times import Times
from dura.data.vocabulary import Vocabulary
from dura.records import PLAIN, Damage, RunFolder, read_names, read_pairs, write_atomic
from dura.records.reading import MOST_JSON, open_file
from dura.records.schema import NUMBER, WHOLE, check
from dura.records.tensors import read_header
from dura.text import printable, shown
from dura.types import SPLITS, BadInput, DuraError, IntArray, Sizes, Split

if TYPE_CHECKING:
    from dura.models.state import Form

V = TypeVar("V", bound=Vocabulary)

WIDEST = 5
"""The number of columns of a fact with begin and end."""
_STATE = {"packed?": {"format": Annotated[int, 1, 2**31]}, "epoch?": WHOLE, "valid_mrr?": NUMBER, "threads?": WHOLE}
MOST_SLOTS = 16
"""A checkpoint with the optimizer's state has at most this many times as many bytes as the model's tables."""


def read_settings(folder: RunFolder) -> Experiment:
    """The settings that a run was started with."""
    return Experiment.from_toml(folder.settings(), where=str(folder.path / "settings.toml"))


def write_graph(folder: RunFolder, graph: Graph, version: int = PLAIN) -> None:
    """Write vocabularies, labels and facts. Then write run.json, with their counts and the format of the folder."""
    import safetensors.numpy

    write_atomic(folder.path / "entities.txt", graph.entities.text().encode())
    write_atomic(folder.path / "relations.txt", graph.relations.text().encode())
    if graph.times is not None:
        write_atomic(folder.path / "times.txt", graph.times.text().encode())
    if graph.labels:
        # Labels are only for people, so white space in them may become a blank. Names must stay as they are.
        labels = {name: " ".join(label.split()) for name, label in graph.labels.items() if name in graph.entities}
        lines = "".join(f"{name}\t{label}\n" for name, label in labels.items())
        write_atomic(folder.path / "labels.tsv", lines.encode())
    facts: dict[str, IntArray] = {split: np.ascontiguousarray(graph.facts(split), dtype=np.int32) for split in SPLITS}
    write_atomic(folder.path / "facts.safetensors", safetensors.numpy.save(facts))
    folder.describe(
        graph={
            "name": graph.name,
            "digest": graph.digest,
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            **({"times": len(graph.times)} if graph.times is not None else {}),
            **{split: len(graph.facts(split)) for split in SPLITS},
        },
        version=version,
    )


def read_graph(folder: RunFolder) -> Graph:
    """The graph that a run was trained on. Its digest shows whether it was changed."""
    about = folder.about()["graph"]
    entities = _vocabulary(Vocabulary, folder, "entities.txt", about["entities"])
    relations = _vocabulary(Vocabulary, folder, "relations.txt", about["relations"])
    times = _vocabulary(Times, folder, "times.txt", about["times"]) if about.get("times") else None
    labels = read_pairs(folder.path, "labels.tsv", len(entities))
    if strange := [name for name in labels if name not in entities]:
        raise Damage(f"{folder.path / 'labels.tsv'} is damaged: {shown(strange[0])} is not an entity of the graph")
    facts = _facts(folder, {split: about[split] for split in SPLITS})
    name = printable(about["name"], lines=False)
    graph = Graph(name=name, entities=entities, relations=relations, labels=labels, times=times, **facts)
    _check_ids(folder, graph)
    if graph.digest != about["digest"]:
        raise DuraError(
            f"the graph in the run folder {folder.path} was changed or damaged: its digest differs from the one in run.json; "
            "restore entities.txt, relations.txt, times.txt and facts.safetensors from a backup"
        )
    return graph


def _vocabulary(kind: type[V], folder: RunFolder, name: str, count: int) -> V:
    """The names of a file. They must be distinct and sorted, or else ids would mean other names."""
    names = read_names(folder.path, name, count)
    vocabulary = kind(names)
    if list(vocabulary) != names:
        raise Damage(f"{folder.path / name} is damaged: its names are not distinct and sorted")
    return vocabulary


def _facts(folder: RunFolder, counts: Mapping[Split, int]) -> dict[str, IntArray]:
    """The facts of each split. There must be as many as run.json says."""
    path, facts = folder.path / "facts.safetensors", dict[str, IntArray]()
    with open_file(folder.path, path.name, MOST_JSON + 4 * WIDEST * sum(counts.values())) as (file, size):
        stored = read_header(file, size, path)
        for split, count in counts.items():
            found = stored.get(split)
            if found is None or found.dtype != "I32" or found.shape[:1] != (count,) or len(found.shape) != 2:
                raise Damage(f"{path} is damaged: {split} must be {count:,} rows of int32 numbers, as run.json says")
            file.seek(found.begin)
            numbers = np.frombuffer(file.read(found.end - found.begin), dtype="<i4")
            facts[split] = numbers.reshape(found.shape).astype(np.int32)
    return facts


def _check_ids(folder: RunFolder, graph: Graph) -> None:
    """Refuse facts with ids that the graph does not have, and intervals that end before they begin."""
    path, sizes = folder.path / "facts.safetensors", graph.sizes
    for split in SPLITS:
        facts = graph.facts(split)
        for ids, names in zip(
            facts.T, (sizes.entities, sizes.relations, sizes.entities, *2 * (sizes.times,)), strict=False
        ):
            if len(ids) and not 0 <= ids.min() <= ids.max() < names:
                raise Damage(
                    f"{path} is damaged: {split} has an id that is not among the {names:,} names of its column"
                )
        if graph.times is not None and facts.shape[1] == WIDEST:
            begin, end, none = facts[:, 3], facts[:, 4], len(graph.times.positions)
            if ((begin > end) | ((begin == none) != (end == none))).any():
                raise Damage(f"{path} is damaged: {split} has a fact that ends before it begins")


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
        declared = _declared(experiment, replace(sizes, entities=1) if packed else sizes)
        if declared is None:
            continue
        bytes_ = sum(math.prod(shape) * (1 if packed else dtype.itemsize) for dtype, shape in declared.values())
        if bytes_ > outline.bytes or (not packed and outline.bytes > MOST_JSON + MOST_SLOTS * bytes_):
            raise DuraError(
                f"{outline.path} {MISFIT} its tables have {outline.bytes:,} bytes, "
                f"but those of the model in the settings have {bytes_:,}"
            )
        if not packed:
            own = {name: form for name, form in outline.tensors.items() if not name.startswith("optimizer.")}
            if outline.path.name.startswith("step"):
                own = {name.removeprefix("model."): form for name, form in own.items()}
            check_forms(declared, {renamed.get(name, name): form for name, form in own.items()}, outline.path)
        elif strange := [name for name in outline.tensors if not _tables(name, renamed) & declared.keys()]:
            raise DuraError(f"{outline.path} {MISFIT} the model has no table {shown(strange[0])}")


def _tables(name: str, renamed: Mapping[str, str]) -> set[str]:
    """The tables that a tensor of a packed model may belong to: the tensor is called TABLE, or TABLE.PART for a part of it."""
    return {renamed.get(table, table) for table in (name, name.rpartition(".")[0])}


def _declared(experiment: Experiment, sizes: Sizes) -> dict[str, Form] | None:
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
