"""Optimizers: Adagrad as the paper uses it, fused and in place, and any other of torch by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from dura.types import BadInput


def optimizer(name: str, options: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The torch optimizer of this name (any case), fused where torch has a fused form of it.

    Adagrad starts as in the paper: learning rate 0.1, accumulator 0, eps 1e-10.
    """
    known = _known()
    kind = known.get(name.lower())
    if kind is None:
        raise BadInput(f"the optimizer {name!r} is not known; known are {', '.join(sorted(known))}")
    has = inspect.signature(kind).parameters
    if kind is torch.optim.Adagrad:
        options = {"lr": 0.1, **options}
    wrong = [key for key in options if key not in has or key in ("params", "fused", "foreach")]
    if wrong:
        names = ", ".join(key for key in has if key not in ("params", "fused", "foreach"))
        raise BadInput(f"optimizer.{wrong[0]} is not a setting of {name!r}; it has {names}")
    fused: dict[str, Any] = {"fused": True} if "fused" in has else {}
    try:
        made: torch.optim.Optimizer = kind(list(parameters), **options, **fused)
    except (ValueError, TypeError) as error:
        raise BadInput(f"the optimizer {name!r} refuses its settings: {error}") from None
    return made


def _known() -> dict[str, type[torch.optim.Optimizer]]:
    """torch's optimizers by lower-case name, but for those that need a closure or sparse gradients."""
    return {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if inspect.isclass(kind)
        and issubclass(kind, torch.optim.Optimizer)
        and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
    }
