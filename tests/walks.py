"""Walks: the source files of dura that a call passes through."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dura

HOME = str(Path(dura.__file__).parent) + "/"


def files_of(call: Callable[[], Any]) -> list[str]:
    """The files under src/dura, such as "data/graph.py", whose functions ran in a call, in the order of their first function.

    What runs while a module is imported does not count: a file that is only imported is no part of the walk. New threads
    count, other processes do not.
    """
    seen: dict[str, None] = {}
    importing = threading.local()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "<module>":
            importing.depth = getattr(importing, "depth", 0) + (1 if event == "call" else -1)
        elif event == "call" and not getattr(importing, "depth", 0) and _is_function_of_dura(code):
            seen.setdefault(code.co_filename.removeprefix(HOME))

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(seen)


def _is_function_of_dura(code: CodeType) -> bool:
    """True for functions and methods of dura; bodies of classes are not functions."""
    return code.co_filename.startswith(HOME) and bool(code.co_flags & inspect.CO_OPTIMIZED)
