"""Agreement: do something in all processes or in the first one, and compare what they know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from dura.types import BadInput, DuraError
from dura.world.place import Lost, count, leads
from dura.world.travel import gather_any

T = TypeVar("T")


def texts(text: str) -> list[str]:
    """A short text of each process, in the order of their numbers."""
    if count("all") == 1:
        return [text]
    import torch

    mine = torch.tensor(list(text.encode()), dtype=torch.uint8)
    return [bytes(other.tolist()).decode() for other in gather_any(mine)]


def together(work: Callable[[], T]) -> T:
    """Do something in every process. If it fails in one of them, all of them raise the same error.

    >>> together(lambda: 3)
    3
    """
    if count("all") == 1:
        return work()
    found: list[T] = []
    error: Exception | None = None
    try:
        found.append(work())
    except Lost:
        raise
    except (DuraError, OSError, MemoryError, RuntimeError) as raised:
        error = raised
    code = 0 if error is None else error.exit_code if isinstance(error, DuraError) else DuraError.exit_code
    told = [json.loads(text) for text in texts(json.dumps([str(error or ""), code]))]
    if error is not None and not isinstance(error, DuraError):
        raise error
    if any(code for _, code in told):
        _raise(told)
    return found[0]


def by_leader(work: Callable[[], T]) -> T | None:
    """Do something in the first process only. If it fails, every process raises its error."""
    return together(lambda: work() if leads() else None)


def _raise(told: Sequence[tuple[str, int]]) -> NoReturn:
    """Raise what went wrong in some processes: the plain sentence if it is the same for all, else with the process's number."""
    number, (sentence, code) = next((at, pair) for at, pair in enumerate(told) if pair[1])
    if number and len({text for text, _ in told}) > 1:
        sentence = f"process {number}: {sentence}"
    error = BadInput(sentence) if code == BadInput.exit_code else DuraError(sentence)
    error.shared = True
    raise error


def agree(facts: Mapping[str, str]) -> None:
    """Refuse to begin if two processes differ in one of these facts. The sentence names the first difference.

    >>> agree({"the version of dura": "0.2.0"})
    """
    if count("all") == 1:
        return
    told: list[dict[str, str]] = [json.loads(text) for text in texts(json.dumps(dict(facts)))]
    for number, other in enumerate(told):
        for what, value in told[0].items():
            if other.get(what) != value:
                error = BadInput(
                    f"the processes disagree about {what}: process 0 has {value} and process {number} has "
                    f"{other.get(what)}; start all of them with the same one"
                )
                error.shared = True
                raise error
