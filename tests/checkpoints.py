"""Checkpoints whose tensors tell their step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dura.training.checkpoint import Checkpoints


def table(step: int) -> dict[str, Tensor]:
    return {"table": torch.full((50,), float(step)), "steps": torch.tensor(step)}


def save(checkpoints: Checkpoints, *steps: int) -> None:
    for step in steps:
        checkpoints.save(step, table(step), {"step": step})


def step_of(saved: tuple[dict[str, Tensor], dict[str, Any]] | None) -> int:
    """The step of a checkpoint, after checking that its tensors and state belong together."""
    assert saved is not None
    tensors, state = saved
    step: int = state["step"]
    assert tensors["steps"].item() == step and torch.equal(tensors["table"], table(step)["table"])
    return step
