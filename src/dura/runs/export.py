"""Export: a run folder with the tables only, as they are, or sparse, or in a small number type.

An exported run is opened, evaluated and asked like any other run, but it cannot be resumed. In the checkpoint's safetensors file a
packed table is stored as TABLE.data, with TABLE.scale if it is int8, and TABLE.indices and TABLE.indptr if it is sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dura import world
from dura.analysis.sparsity import entity_tables, thresholds
from dura.config import Experiment
from dura.data.graph import Graph
from dura.models import Model, adopt
from dura.models.combined import refuse_combined
from dura.records import PACKED, PLAIN, RunFolder, clear_leftovers
from dura.runs.build import blank_model
from dura.runs.store import write_graph
from dura.tables.packed import NUMBER_TYPES, Csr, NumberType, Packed, Small, open_packed
from dura.training.checkpoint import Checkpoints
from dura.types import BadInput, DuraError, Sizes

FORMAT = 1
"""The newest format of packed tables that this program reads, and the one it writes."""


def export(
    model: Model,
    graph: Graph,
    experiment: Experiment,
    path: str | Path,
    *,
    source: Path | None = None,
    sparse: float | None = None,
    dtype: NumberType = "float32",
) -> RunFolder:
    """Write a run folder without the state of training. `sparse` is the share of the entities' entries to make zero.

    Without `sparse` and `dtype` the tables are written as they are. Packed tables stay packed. `source` is the run that the model
    comes from, if it has one.
    """
    out = Path(path)
    refuse_combined(model, "exported or saved")
    check_free(out, source)
    tensors, packed = _stored(model, sparse, dtype)
    folder = RunFolder.create(out)
    with folder.lock():  # so that no other process takes the unfinished folder for a leftover
        folder.write_settings(experiment.to_toml())
        folder.append({"kind": "export", **packed})
        Checkpoints(folder.path / "checkpoints").save_best(0, tensors, {"packed": packed} if packed else {})
        write_graph(folder, graph, PACKED if packed else PLAIN)
    return folder


def check_free(out: Path, source: Path | None, use: str = "to export to", what: str = "exported") -> None:
    """Refuse a folder that holds something, or is inside the run that the model comes from."""
    clear_leftovers(out)
    if out.exists() and (not out.is_dir() or any(file.name != ".lock" for file in out.iterdir())):
        raise BadInput(f"{out} exists and is not an empty folder; name a new folder {use}")
    if source is not None and source.resolve() in out.resolve().parents:
        raise BadInput(f"{out} is inside the run that is {what}; name a folder next to it")


def _stored(model: Model, sparse: float | None, dtype: NumberType) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors to write, and a description of how they are packed. It is empty if they are not packed."""
    if dtype not in NUMBER_TYPES:
        raise BadInput(f"dtype is {dtype!r}, but it must be one of {', '.join(NUMBER_TYPES)}")
    own = {name: table for name, table in model.entity_tables.items() if isinstance(table, Packed)}
    if own:
        if sparse is not None or dtype != "float32":
            entity_tables(model)  # raises: packed tables cannot be packed again
        share = zeros(model) if any(isinstance(table, Csr) for table in own.values()) else None
        about: dict[str, Any] = {"format": FORMAT, "dtype": next(iter(own.values())).number_type, "sparse": share}
    elif sparse is None and dtype == "float32":
        return {name: tensor.cpu() for name, tensor in model.state().items()}, {}
    else:
        tables = entity_tables(model)
        threshold = None if sparse is None else thresholds(model, [sparse])[0]
        about = {"format": FORMAT, "dtype": dtype, "sparse": sparse, "threshold": threshold}
        own = {
            name: Small.of(table, dtype) if threshold is None else Csr.of(table, dtype, threshold)
            for name, table in tables.items()
        }
    rest = {name: tensor.cpu() for name, tensor in model.state().items() if name not in own}
    tensors = {f"{name}.{part}": tensor for name, table in own.items() for part, tensor in table.tensors().items()}
    return tensors | _small(rest, about["dtype"]), about


def _small(tables: Mapping[str, Tensor], dtype: NumberType) -> dict[str, Tensor]:
    """The tables of relations and times, in the same type but never sparse. Vectors and counts stay as they are."""
    if dtype == "float32":
        return dict(tables)
    packed = {
        name: Small.of(table.reshape(-1, table.shape[-1]), dtype)
        for name, table in tables.items()
        if table.ndim > 1 and table.is_floating_point()
    }
    parts = {f"{name}.{part}": tensor for name, table in packed.items() for part, tensor in table.tensors().items()}
    return parts | {name: table for name, table in tables.items() if name not in packed}


def open_exported(
    experiment: Experiment, sizes: Sizes, tensors: Mapping[str, Tensor], about: Mapping[str, Any], device: str
) -> Model:
    """The model of an exported run. Its tables of entities stay packed; all other tables become float32."""
    if about["format"] > FORMAT:
        raise DuraError(
            f"the tables have the packed format {about['format']}, but this dura reads up to {FORMAT}; update dura"
        )
    if device != "cpu":
        raise BadInput(
            f"an exported run with packed tables can only be used on the CPU, not on {device!r}; leave --device out"
        )
    with world.whole():
        model = blank_model(experiment, sizes)
    parts: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        whole = model.renamed.get(key, key) in model.state_dict()
        name, _, part = (key, "", "") if whole else key.rpartition(".")
        parts.setdefault(model.renamed.get(name, name), {})[part] = tensor
    for name, table in entity_tables(model).items():
        packed = open_packed(parts.pop(name, {}), (sizes.entities, table.shape[1]))
        delattr(model, name)
        setattr(model, name, packed)
    adopt(model, {name: _dense(parts.get(name, {}), table) for name, table in model.state_dict().items()})
    return model


def _dense(parts: Mapping[str, Tensor], like: Tensor) -> Tensor:
    """A table of relations or times, unpacked."""
    if "" in parts:
        return parts[""]
    lines = like.numel() // like.shape[-1]
    return open_packed(parts, (lines, like.shape[-1])).unpacked().reshape(like.shape)


def zeros(model: Model) -> float:
    """The share of entries that are not stored in the sparse tables."""
    tables = [table for table in model.entity_tables.values() if isinstance(table, Csr)]
    return 1 - sum(len(table.data) for table in tables) / sum(len(table) * table.shape[1] for table in tables)


def bytes_of(model: Model) -> int:
    """The bytes of all tables if they are stored as they are."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _stored(model, None, "float32")[0].values())
