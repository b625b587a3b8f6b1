"""Versions: settings of version 1 in the form of version 2.

Version 1 had one table `objective` in place of `loss` and `candidates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dura.registry import check_value, did_you_mean
from dura.types import BadInput

VERSION = 2
"""The newest version of settings files that this program reads, and the one it writes."""
_OBJECTIVES = {"cross-entropy": ("softmax", "all"), "sampled-cross-entropy": ("softmax", "sample")}
"""The objectives of version 1, as loss and candidates."""


def current(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of a settings file as version 2 has them."""
    version = data.get("version", VERSION)
    _check_version(version)
    if "objective" not in data:
        return data
    if version >= 2 and "version" in data:
        raise BadInput(
            f"[objective] is a part of version 1, but this file says version = {version}: write [loss] and [candidates] instead, "
            "or version = 1"
        )
    if both := [table for table in ("loss", "candidates") if table in data]:
        raise BadInput(
            f"objective and {both[0]} are both set, but objective is the older form of loss and candidates: keep one"
        )
    given = data["objective"]
    if not isinstance(given, Mapping):
        raise BadInput(f"objective must be a table, [objective], not {given!r}")
    loss, candidates = objective(check_value(given.get("name", "cross-entropy"), str, "objective.name"))
    options = {key: value for key, value in given.items() if key != "name"}
    weight = {"w0": options.pop("w0")} if "w0" in options else {}
    rest = {key: value for key, value in data.items() if key not in ("objective", "version")}
    return {"loss": {"name": loss, **weight}, "candidates": {"name": candidates, **options}, **rest}


def objective(name: str) -> tuple[str, str]:
    """Loss and candidates of an objective of version 1."""
    if name not in _OBJECTIVES:
        known, hint = ", ".join(_OBJECTIVES), did_you_mean(name, _OBJECTIVES)
        raise BadInput(
            f"the objective {name!r} is not known; known are {known}, or set loss.name and candidates.name{hint}"
        )
    return _OBJECTIVES[name]


def _check_version(version: object) -> None:
    number: int = check_value(version, int, "version")
    if number > VERSION:
        raise BadInput(f"has version {number}, but this dura reads versions up to {VERSION}; update dura")
    if number < 1:
        raise BadInput(f"version must be at least 1, not {number}")
