"""Restoring: read progress and the optimizer's state from a checkpoint.

A checkpoint may come from a stranger, so everything is checked before it is used.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from dura.models.state import MISFIT, Form, check_forms, forms
from dura.records.schema import WHOLE, check
from dura.text import shown
from dura.types import BadInput, DuraError

PROGRESS: dict[str, Any] = {
    **dict.fromkeys(("epoch", "step", "steps", "facts", "best_epoch", "stale"), WHOLE),
    **dict.fromkeys(("loss", "penalty"), float),
    **dict.fromkeys(("seconds", "epoch_seconds"), Annotated[float, 0, math.inf]),
    "done": bool,
}
"""The schema of progress in a checkpoint. `best` is checked separately: it is -inf before the first validation."""
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)


def fill_optimizer(
    optimizer: torch.optim.Optimizer,
    names: Sequence[str],
    tensors: Mapping[str, Tensor],
    renamed: Mapping[str, str] | None = None,
) -> None:
    """Load the tensors "optimizer.TABLE.SLOT" into the optimizer. `names` are the names of its parameters, in order."""
    slots: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, slot = key.removeprefix("optimizer.").rpartition(".")
        slots.setdefault((renamed or {}).get(name, name), {})[slot] = tensor
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
    """The types and shapes of what the optimizer keeps for a table.

    They are found by one step on a small table with the same number of dimensions. Its sizes are distinct primes, so each size in a
    result shows which dimension it comes from.
    """
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
    """The progress in a checkpoint's state. All fields must be `known` and have sensible values."""
    try:
        check(state, {"progress": PROGRESS, "threads": Annotated[int, 1, 2**31 - 1]})
        progress: dict[str, Any] = dict(state["progress"])
        best = progress.get("best")
        if isinstance(best, bool) or not isinstance(best, int | float) or math.isnan(best):
            raise BadInput(f"progress.best must be a number, not {shown(best)}")
        if strange := [key for key in progress if key not in known]:
            raise BadInput(f"progress.{shown(strange[0])[1:-1]} is not a known field")
    except BadInput as error:
        raise DuraError(f"the state of the newest checkpoint is damaged: {error}") from None
    return progress
