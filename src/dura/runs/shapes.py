"""Shapes: which tensors of a model have rows for entities, relations or times."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dura.config import Experiment
from dura.models import Model
from dura.runs.build import blank_model
from dura.runs.store import declared
from dura.types import Sizes

Kind = Literal["entities", "relations", "times"]
KINDS: tuple[Kind, ...] = ("entities", "relations", "times")


def rows_per_name(model: Model, experiment: Experiment, kind: Kind) -> dict[str, int]:
    """The tensors of the state that grow with the number of entities, relations or times, and by how many rows per name.

    A tensor that grows in another way than by rows has 0. A table of relations may have two rows per name: its reciprocals.
    """
    if not getattr(model.sizes, kind):
        return {}
    few, more = (_shapes(experiment, replace(model.sizes, **{kind: count})) for count in (1, 2))
    found = {}
    for name in few:
        if few[name] != more[name]:
            rows = few[name][0]
            found[name] = rows if (2 * rows, *few[name][1:]) == more[name] else 0
    return found


def _shapes(experiment: Experiment, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The shapes of the model's tensors for a graph of these sizes."""
    forms = declared(experiment, sizes)
    if forms is not None:
        return {name: shape for name, (_, shape) in forms.items()}
    return {name: tuple(tensor.shape) for name, tensor in blank_model(experiment, sizes).state_dict().items()}
