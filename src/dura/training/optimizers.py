"""Optimizers: Adagrad as in the paper, which updates only rows that have a gradient, and every other optimizer of torch by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad

from dura.tables.table import Table
from dura.training.alternating import Alternating
from dura.types import BadInput

HIDDEN = ("params", "fused", "foreach", "capturable", "differentiable", "maximize")
"""Arguments of torch's classes that users cannot set."""


LARGE_ROW = 4096
"""Rows with at least this many numbers each get their own call of the fused kernel. Smaller rows are copied together first."""


PART = 2**17
"""How many numbers of smaller rows are updated at a time, so that they stay near the processor from the first pass to the last."""


_STEP = inspect.unwrap(torch.optim.Adagrad.step)


class RowAdagrad(torch.optim.Adagrad):
    """torch's Adagrad, but rows of a `Table` that have no gradient are skipped. Adagrad would not change them anyway.

    Often only few rows have a gradient: the heads of CP, the matrices of RESCAL, and all tables if entities are sampled. The other
    rows, their sums and their gradients are then not even read.
    """

    # The wrappers that torch puts around these methods import its compiler, which takes as long as importing torch itself.
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step. Tables with a gradient in most rows use torch's own step."""
        assert closure is None
        put_by: list[tuple[Table, Tensor | None]] = []
        for group in self.param_groups:
            for table in group["params"]:
                if not isinstance(table, Table) or not table.requires_grad:
                    continue
                rows = table.used() if _still(group) else None
                if rows is None:
                    table.gradient()
                else:
                    _step_rows(table, rows.to(table.device), self.state[table], group)
                    put_by.append((table, table.grad))
                    table.grad = None
        loss = _STEP(self)
        for table, gradient in put_by:
            table.grad = gradient
        return loss


RowAdagrad.step.hooked = True  # type: ignore[attr-defined]
"""torch would put a wrapper for its profiler and for hooks around the step, which costs more than the step of a small table."""


def _still(group: Mapping[str, Any]) -> bool:
    """True if these settings do not change rows without a gradient."""
    return not group["weight_decay"] and not group["lr_decay"]


def _rate(group: Mapping[str, Any], table: Table) -> float:
    """The learning rate. torch accepts no number above the largest of its type, and the tables become infinite anyway."""
    rate = float(group["lr"])
    return math.inf if rate > torch.finfo(table.dtype).max else rate


def _step_rows(table: Table, rows: Tensor, state: Mapping[str, Tensor], group: Mapping[str, Any]) -> None:
    """A step of Adagrad on these rows only."""
    total, rate, eps = state["sum"], _rate(group, table), group["eps"]
    if table[0].numel() >= LARGE_ROW:
        whole = (table, table.gradient(), total)
        views, gradients, totals = ([tensor[row] for row in rows.tolist()] for tensor in whole)
        adagrad(
            views, gradients, totals, [state["step"].clone() for _ in views], fused=group["fused"], lr=rate, eps=eps,
            weight_decay=0.0, lr_decay=0.0, maximize=False,
        )  # fmt: skip
    else:
        gradient, part = table.gradient_of(rows), max(1, PART // max(1, table[0].numel()))
        for some, here in zip(rows.split(part), gradient.split(part), strict=True):
            seen = total.index_select(0, some).addcmul_(here, here)
            total.index_copy_(0, some, seen)
            table.index_add_(0, some, here.div_(seen.sqrt_().add_(eps)), alpha=-rate)
    state["step"].add_(1)


def optimizer(name: str, options: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The torch optimizer of this name, in upper or lower case. The fused form is used if torch has one.

    "als" is not one of torch's: it stands for alternating least squares, for models that have `alternate`.

    The defaults of Adagrad are those of the paper: learning rate 0.1, accumulator 0, eps 1e-10.
    """
    known = _known()
    kind = known.get(name.lower())
    if kind is None:
        raise BadInput(f"the optimizer {name!r} is not known; known are {', '.join(sorted(known))}")
    has = inspect.signature(kind).parameters
    if kind is torch.optim.Adagrad:
        options = {"lr": 0.1, **options}
    known_options = {key: parameter.default for key, parameter in has.items() if key not in HIDDEN}
    for key, value in options.items():
        if key not in known_options:
            raise BadInput(f"optimizer.{key} is not a setting of {name!r}; it has {', '.join(known_options)}")
        _check(f"optimizer.{key}", value, known_options[key])
    tables = list(parameters)
    # On the CPU every optimizer with the argument `fused` has such a kernel. On other devices torch chooses.
    fused: dict[str, Any] = {"fused": True} if "fused" in has and all(t.device.type == "cpu" for t in tables) else {}
    try:
        made: torch.optim.Optimizer = (RowAdagrad if kind is torch.optim.Adagrad else kind)(tables, **options, **fused)
    except (ValueError, TypeError) as error:
        raise BadInput(f"the optimizer {name!r} does not accept its settings: {error}") from None
    return made


def _check(path: str, value: Any, default: Any) -> None:
    """Refuse a value whose type differs from torch's default. torch itself would only fail during a step."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise BadInput(f"{path} must be true or false, not {value!r}")
    if isinstance(default, int | float) and not isinstance(default, bool) and not number:
        raise BadInput(f"{path} must be a number, not {value!r}")
    if isinstance(default, tuple) and not (isinstance(value, list | tuple) and len(value) == len(default)):
        raise BadInput(f"{path} must be a list of {len(default)} numbers, not {value!r}")


def _known() -> dict[str, type[torch.optim.Optimizer]]:
    """torch's optimizers by lower-case name, except those that need a closure, sparse gradients or only matrices; and "als"."""
    return {"als": Alternating} | {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if inspect.isclass(kind)
        and issubclass(kind, torch.optim.Optimizer)
        and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
    }
