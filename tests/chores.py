"""Functions that workers call in tests."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dura.types import BadInput

Stopped = Callable[[], bool]
Tell = Callable[[Any], None]


def echo(*, stopped: Stopped, tell: Tell, **values: Any) -> dict[str, Any]:
    """What was handed over, and what the worker is like."""
    sys.stdout.write("on standard output\n")
    sys.stderr.write("on standard error: 漢字\n")
    threads = os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]
    return {"values": values, "threads": threads, "session": os.getsid(0), "pid": os.getpid(), "stopped": stopped()}


def count(upto: int, *, stopped: Stopped, tell: Tell) -> int:
    for number in range(upto):
        tell({"number": number})
    return upto


def fail(how: str, *, stopped: Stopped, tell: Tell) -> None:
    errors: dict[str, Exception] = {
        "bad input": BadInput("the rank must be at least 1"),
        "memory": MemoryError(),
        "torch": RuntimeError("[enforce fail at alloc_cpu.cpp] you tried to allocate 8 bytes of memory"),
        "file": FileNotFoundError(2, "No such file or directory", "facts.tsv"),
        "bug": ValueError("one\ntwo"),
    }
    raise errors[how]


def end(how: str, *, stopped: Stopped, tell: Tell) -> None:
    """End in the middle of it."""
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "segv": signal.SIGSEGV}[how])


def step_until_stopped(mark: str, *, stopped: Stopped, tell: Tell) -> None:
    """Steps as those of training: say so when the first begins, look up between two, and leave a mark at the end."""
    tell(os.getpid())
    while not stopped():
        time.sleep(0.01)
    Path(mark).write_text("stopped after a step")
    from dura.training.trainer import Interrupted  # torch, which the others need not wait for

    raise Interrupted("stopped after step 1")


def never_stop(*, stopped: Stopped, tell: Tell) -> None:
    tell(os.getpid())
    while True:
        time.sleep(0.1)
