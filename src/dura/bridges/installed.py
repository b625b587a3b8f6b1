"""Installed: the modules of PyKEEN, or one sentence if it is missing."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from dura.types import DuraError


def part(name: str) -> Any:
    """A module of PyKEEN."""
    if find_spec("pykeen") is None:
        raise DuraError("this needs PyKEEN, which is not installed: pip install pykeen")
    return importlib.import_module(f"pykeen.{name}")
