"""Compiled loops over rows of tables. They are used if numba is installed (`pip install dura-kge[fast]`).

They read rows where they are and write them once, where torch needs a copy of the rows and a pass over memory for each operation.
Threads share rows or columns, never a sum, so the number of threads does not change a result. Without numba torch does the same
work; the results differ by rounding only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

Array = Any
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
"""Sums may be taken in any fixed order, so that they use the processor's vectors. NaN and infinity stay what they are."""
PIECES = 8
"""From how many tensors `Loops.adagrad` can take the gradient of a row."""


@dataclass(frozen=True)
class Loops:
    """Each is given numpy arrays, and at the end which of its rows or columns to do."""

    distinct: Callable[..., int]
    """The distinct ids of a list in the order in which they come, the run of each item, and how many there are."""
    adagrad: Callable[..., None]
    """A step of Adagrad on some rows of a table; the gradient of each is a sum of rows of several tensors."""
    pairs: Callable[..., None]
    """The inner product of two rows of two tensors, for each item."""
    sums: Callable[..., None]
    """Add a weighted row to the row of each item's run."""


@cache
def installed() -> bool:
    """True if numba can be imported."""
    return find_spec("numba") is not None


def usable(*tensors: Tensor) -> bool:
    """True if loops can work on these: numba is there, and the tensors are dense numbers of one type in main memory."""
    return installed() and all(
        tensor.device.type == "cpu"
        and tensor.dtype == tensors[0].dtype
        and tensor.dtype in (torch.float32, torch.float64)
        and tensor.is_contiguous()
        for tensor in tensors
    )


def spread(loop: Callable[..., object], size: int, *values: Tensor | tuple[Tensor, ...] | float) -> None:
    """Call a loop for all of its `size` items, a part of them in each thread."""
    arrays = [_array(value) for value in values]
    hands = max(1, min(torch.get_num_threads(), size))
    cuts = [size * i // hands for i in range(hands + 1)]
    if hands == 1:
        loop(*arrays, 0, size)
        return
    with ThreadPoolExecutor(hands) as pool:
        list(pool.map(lambda i: loop(*arrays, cuts[i], cuts[i + 1]), range(hands)))


def _array(value: Tensor | tuple[Tensor, ...] | float) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_array, value))
    return value.detach().numpy() if isinstance(value, Tensor) else value


def jit(function: Any) -> Any:
    """Compile a function when it is first called. The machine code is kept on disk."""
    numba: Any = importlib.import_module("numba")
    return numba.njit(**OPTIONS)(function)


@cache
def loops() -> Loops:
    """The loops. Unsigned numbers tell the compiler that no index counts from the end, without which it uses no vectors."""
    np: Any = importlib.import_module("numpy")

    def distinct(ids: Array, runs: Array, found: Array, run: Array) -> int:
        count = 0
        for i in range(len(ids)):
            at = runs[ids[i]]
            if at < 0:
                at, count = count, count + 1
                runs[ids[i]], found[at] = at, ids[i]
            run[i] = at
        for i in range(count):
            runs[found[i]] = -1
        return count

    def adagrad(
        table: Array, sums: Array, rows: Array, last: Array, before: Array, ends: Array, pieces: Any, settings: Array,
        low: int, high: int,
    ) -> None:  # fmt: skip
        width, rate, eps = np.uint64(table.shape[1]), settings[0], settings[1]
        gradient = np.empty(table.shape[1], table.dtype)
        for i in range(low, high):
            gradient[:] = 0
            item = last[i]
            while item >= 0:
                piece = 0
                while ends[piece] <= item:
                    piece += 1
                one, at = pieces[piece], np.uint64(item - (ends[piece - 1] if piece else 0))
                for j in range(width):
                    gradient[j] += one[at, j]
                item = before[item]
            row = np.uint64(rows[i])
            for j in range(width):
                slope = gradient[j]
                seen = sums[row, j] + slope * slope
                sums[row, j] = seen
                table[row, j] -= rate * (slope / (np.sqrt(seen) + eps))

    def pairs(left: Array, right: Array, a: Array, b: Array, out: Array, low: int, high: int) -> None:
        for i in range(low, high):
            total, x, y = left.dtype.type(0), np.uint64(a[i]), np.uint64(b[i])
            for j in range(np.uint64(left.shape[1])):
                total += left[x, j] * right[y, j]
            out[i] = total

    def sums(rows: Array, which: Array, run: Array, weights: Array, out: Array, low: int, high: int) -> None:
        first, last = np.uint64(low), np.uint64(high)
        for i in range(len(run)):
            weight, x, y = weights[i], np.uint64(which[i]), np.uint64(run[i])
            for j in range(first, last):
                out[y, j] += weight * rows[x, j]

    return Loops(*map(jit, (distinct, adagrad, pairs, sums)))


def chain(run: Tensor, runs: int) -> tuple[Tensor, Tensor]:
    """The last item of each run, and for each item the one before it in its run; -1 if there is none."""
    last, before = torch.full((runs,), -1), torch.empty_like(run)
    _chain()(run.numpy(), last.numpy(), before.numpy())
    return last, before


@cache
def _chain() -> Any:
    def link(run: Array, last: Array, before: Array) -> None:
        for i in range(len(run)):
            before[i] = last[run[i]]
            last[run[i]] = i

    return jit(link)
