"""Restoring: what a checkpoint holds, put into a model and an optimizer after it was compared with what they declare.

A checkpoint may come from a stranger, and some kernels of torch trust the shapes that they are given: names, types and shapes must
be exactly those of the live objects.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from dura.records.schema import WHOLE, check
from dura.text import shown
from dura.types import BadInput, DuraError

Form = tuple[torch.dtype, tuple[int, ...]]
"""The type and shape of a tensor."""

PROGRESS: dict[str, Any] = {
    **dict.fromkeys(("epoch", "step", "steps", "facts", "best_epoch", "stale"), WHOLE),
    **dict.fromkeys(("loss", "penalty"), float),
    **dict.fromkeys(("seconds", "epoch_seconds"), Annotated[float, 0, math.inf]),
    "done": bool,
}
"""What a checkpoint says of the progress, next to `best`, which is -inf before the first validation."""
MISFIT = "does not fit the settings:"
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)


def forms(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """The type and shape of each tensor."""
    return {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}


def check_forms(wanted: Mapping[str, Form], found: Mapping[str, Form], where: object = "the checkpoint") -> None:
    """Refuse tensors that are not exactly those that are wanted; `where` begins the sentence."""
    for name, form in wanted.items():
        if name not in found:
            raise DuraError(f"{where} {MISFIT} the table {name!r} is missing")
        if found[name] != form:
            what = f"is {_words(found[name])}, and must be {_words(form)}"
            raise DuraError(f"{where} {MISFIT} the table {name!r} {what}")
    for name in found:
        if name not in wanted:
            raise DuraError(f"{where} {MISFIT} the model has no table {shown(name)}")


def fill(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put tables and buffers into the model; tensors of the optimizer may stand among them."""
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("optimizer.")}
    state: dict[str, Tensor] = model.state_dict()
    check_forms(forms(state), forms(own))
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(own[name])


def fill_optimizer(optimizer: torch.optim.Optimizer, names: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """Put the tensors "optimizer.TABLE.SLOT" into the optimizer, whose parameters have these names."""
    slots: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            name, _, slot = key.removeprefix("optimizer.").rpartition(".")
            slots.setdefault(name, {})[slot] = tensor
    if strange := [name for name in slots if name not in names]:
        raise DuraError(f"the checkpoint {MISFIT} the model has no table {shown(strange[0])} to optimize")
    parameters = [table for group in optimizer.param_groups for table in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for at, (name, table) in enumerate(zip(names, parameters, strict=True)):
        if name in slots or optimizer.state[table]:  # some optimizers have no state before the first step
            named = {f"optimizer.{name}.{slot}": tensor for slot, tensor in slots.get(name, {}).items()}
            wanted = {f"optimizer.{name}.{slot}": form for slot, form in _slots(optimizer, table).items()}
            check_forms(wanted, forms(named))
            state[at] = slots[name]
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _slots(optimizer: torch.optim.Optimizer, table: Tensor) -> dict[str, Form]:
    """What the optimizer keeps for a table, by a step of its kind on a small one with as many dimensions."""
    small = nn.Parameter(torch.zeros(_PRIMES[: table.ndim], dtype=table.dtype))
    small.grad = torch.zeros_like(small)
    options = {
        key: value for key, value in optimizer.defaults.items() if key in inspect.signature(type(optimizer)).parameters
    }
    trial = type(optimizer)([small], **options)
    trial.step()
    size = dict(zip(small.shape, table.shape, strict=True))
    return {
        slot: (value.dtype, tuple(size.get(length, length) for length in value.shape))
        for slot, value in trial.state[small].items()
    }


def check_progress(state: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What a checkpoint's state says of the progress, whose fields are `known`; something wrong in it is an error."""
    try:
        check(state, {"progress": PROGRESS, "threads": Annotated[int, 1, 2**31 - 1]})
        progress: dict[str, Any] = dict(state["progress"])
        best = progress.get("best")
        if isinstance(best, bool) or not isinstance(best, int | float) or math.isnan(best):
            raise BadInput(f"progress.best must be a number, not {shown(best)}")
        if strange := [key for key in progress if key not in known]:
            raise BadInput(f"progress.{shown(strange[0])[1:-1]} is not known")
    except BadInput as error:
        raise DuraError(f"the state of the newest checkpoint is damaged: {error}") from None
    return progress


def _words(form: Form) -> str:
    dtype, shape = form
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"
