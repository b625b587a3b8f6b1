"""Optimizers: Adagrad as the paper uses it, fused and in place, and any other of torch by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from dura.types import BadInput

HIDDEN = ("params", "fused", "foreach", "capturable", "differentiable", "maximize")
"""Arguments of torch's classes that are no settings of ours."""


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
    known_options = {key: parameter.default for key, parameter in has.items() if key not in HIDDEN}
    for key, value in options.items():
        if key not in known_options:
            raise BadInput(f"optimizer.{key} is not a setting of {name!r}; it has {', '.join(known_options)}")
        _check(f"optimizer.{key}", value, known_options[key])
    tables = list(parameters)
    # Only the CPU surely has a fused kernel for each of them; elsewhere torch chooses.
    fused: dict[str, Any] = {"fused": True} if "fused" in has and all(t.device.type == "cpu" for t in tables) else {}
    try:
        made: torch.optim.Optimizer = kind(tables, **options, **fused)
    except (ValueError, TypeError) as error:
        raise BadInput(f"the optimizer {name!r} refuses its settings: {error}") from None
    return made


def _check(path: str, value: Any, default: Any) -> None:
    """Refuse a value of another kind than torch's default: torch itself would fail in the middle of a step."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise BadInput(f"{path} must be true or false, not {value!r}")
    if isinstance(default, int | float) and not isinstance(default, bool) and not number:
        raise BadInput(f"{path} must be a number, not {value!r}")
    if isinstance(default, tuple) and not (isinstance(value, list | tuple) and len(value) == len(default)):
        raise BadInput(f"{path} must be a list of {len(default)} numbers, not {value!r}")


def _known() -> dict[str, type[torch.optim.Optimizer]]:
    """torch's optimizers by lower-case name, but for those that need a closure or sparse gradients."""
    return {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if inspect.isclass(kind)
        and issubclass(kind, torch.optim.Optimizer)
        and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
    }
