"""State: the tensors of a model, compared with those of a checkpoint before they are used.

A checkpoint may come from a stranger, and some kernels of torch trust the shapes that they are given. So names, types and shapes
must be exactly those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dura.models.model import Model
from dura.tables import Sharded, Table
from dura.tables.mapped import take_
from dura.text import shown
from dura.types import DuraError

Form = tuple[torch.dtype, tuple[int, ...]]
"""The type and shape of a tensor."""
MISFIT = "does not fit the settings:"


def forms(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """The type and shape of each tensor."""
    return {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}


def check_forms(wanted: Mapping[str, Form], found: Mapping[str, Form], where: object = "the checkpoint") -> None:
    """Refuse tensors that are not exactly those that are wanted. The sentence begins with `where`."""
    for name, form in wanted.items():
        if name not in found:
            raise DuraError(f"{where} {MISFIT} the table {name!r} is missing")
        if found[name] != form:
            what = f"is {_words(found[name])}, and must be {_words(form)}"
            raise DuraError(f"{where} {MISFIT} the table {name!r} {what}")
    for name in found:
        if name not in wanted:
            raise DuraError(f"{where} {MISFIT} the model has no table {shown(name)}")


def restore(model: Model, state: Mapping[str, Tensor]) -> None:
    """Copy a state into a model. Of a table that is spread over processes, the state may have all rows or those of this one."""
    given = {model.renamed.get(name, name): tensor for name, tensor in state.items()}
    tables = model.state_dict(keep_vars=True)
    spans = {
        name: table.span
        for name, table in tables.items()
        if isinstance(table, Sharded) and given.get(name, table).shape[:1] == (table.spans.rows,)
    }
    check_forms(
        {name: _stored_form(table, name in spans) for name, table in tables.items()},
        forms(given),
    )
    for name, own in tables.items():
        take_(own, given[name], spans.get(name))


def _stored_form(table: Tensor, spread: bool) -> Form:
    """The form of a tensor in a file: that of all rows, if they are spread over processes."""
    rows = (table.spans.rows,) if spread and isinstance(table, Sharded) else tuple(table.shape[:1])
    return table.dtype, (*rows, *table.shape[1:])


def adopt(model: Model, state: Mapping[str, Tensor]) -> None:
    """Make the tensors of a state the model's own, without a copy."""
    given = _checked(model, state)
    for name, own in model.state_dict(keep_vars=True).items():
        path, _, key = name.rpartition(".")
        module = model.get_submodule(path)
        if isinstance(own, Sharded):
            module._parameters[key] = own.like(given[name])
        elif isinstance(own, Table):
            module._parameters[key] = Table(given[name])
        elif isinstance(own, nn.Parameter):
            module._parameters[key] = nn.Parameter(given[name], requires_grad=own.requires_grad)
        else:
            module._buffers[key] = given[name]


def _checked(model: Model, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state with the names that tables have now."""
    given = {model.renamed.get(name, name): tensor for name, tensor in state.items()}
    check_forms(forms(model.state_dict()), forms(given))
    return given


def _words(form: Form) -> str:
    dtype, shape = form
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
