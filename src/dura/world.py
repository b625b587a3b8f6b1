"""World: the processes that work on one job together. With one process every call does nothing.

No other module imports torch.distributed or reads the variables by which torchrun tells a process its place.
"""

from __future__ import annotations

import os

from dura.types import BadInput


def size() -> int:
    """How many processes work on this job: what torchrun says, or 1."""
    return _variable("WORLD_SIZE", 1, least=1)


def rank() -> int:
    """The number of this process, from 0."""
    return _variable("RANK", 0, least=0) if size() > 1 else 0


def leads() -> bool:
    """True in the one process that prints."""
    return rank() == 0


def alone(what: str) -> None:
    """Refuse to do something in several processes at once that is made for one; `what` begins the sentence.

    >>> alone("training")
    """
    if size() > 1:
        raise BadInput(
            f"{what} runs in one process, but torchrun started {size()} (WORLD_SIZE={size()}); "
            "start it without torchrun, or unset WORLD_SIZE"
        )


def _variable(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise BadInput(
            f"the environment variable {name} is {text!r}, but it must be a whole number of at least {least}"
        )
    return int(text)
