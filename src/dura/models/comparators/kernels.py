"""Compiled loops for distances that no matrix product computes. They are used if numba is installed (`pip install dura-kge[fast]`).

They read the rows of a table where they are and add to its gradient there, so nothing is copied and no difference is kept. Threads
share queries or columns, never a sum, so the number of threads does not change a result. Without numba torch does the same work in
tiles; the results differ by rounding only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor

Array = Any
Kind = Literal["l1", "modulus"]
OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
"""Sums may be taken in any fixed order, so that they use the processor's vectors. NaN and infinity stay what they are."""
STRIP = 8
"""How many queries meet a target before the next one is read."""
TINY = 1e-36
"""Shorter differences (this is a square) have a gradient shorter than 1, down to zero at zero."""


@dataclass(frozen=True)
class Kernels:
    """The loops of one distance. Each is given numpy arrays, and at the end which of its queries, facts or columns to do."""

    parts: int
    """How many numbers of a row belong together: column j, j + w / parts and so on."""
    scores: Callable[..., None]
    pull: Callable[..., None]
    some_scores: Callable[..., None]
    some_pull: Callable[..., None]


def usable(*tensors: Tensor) -> bool:
    """True if kernels can work on these: numba is there, and the tensors are dense numbers of one type in main memory."""
    return installed() and all(
        tensor.device.type == "cpu"
        and tensor.dtype == tensors[0].dtype
        and tensor.dtype in (torch.float32, torch.float64)
        and tensor.is_contiguous()
        for tensor in tensors
    )


@cache
def installed() -> bool:
    """True if numba can be imported."""
    return find_spec("numba") is not None


def by_target(ids: Tensor) -> Tensor:
    """One number per cell of `ids` [f, k], ascending by id and then by cell: id · cells + cell.

    In this order each row of a table is read and written once, and neighbours follow each other in memory.
    """
    cells = ids.numel()
    keys = ids.flatten() * cells + torch.arange(cells)
    return torch.from_numpy(importlib.import_module("numpy").sort(keys.numpy()))


def spread(kernel: Callable[..., None], size: int, *tensors: Tensor) -> None:
    """Call a kernel for all of its `size` items, a part of them in each thread."""
    arrays = [tensor.detach().numpy() for tensor in tensors]
    hands = max(1, min(torch.get_num_threads(), size))
    cuts = [size * i // hands for i in range(hands + 1)]
    if hands == 1:
        kernel(*arrays, 0, size)
        return
    with ThreadPoolExecutor(hands) as pool:
        list(pool.map(lambda i: kernel(*arrays, cuts[i], cuts[i + 1]), range(hands)))


@cache
def kernels_of(kind: Kind) -> Kernels:
    """The kernels of a distance. numba compiles each when it is first called, and keeps it on disk."""
    numba: Any = importlib.import_module("numba")
    np: Any = importlib.import_module("numpy")

    def jit(function: Any) -> Any:
        return numba.njit(**OPTIONS)(function)

    def l1_distance(t: Array, e: Any, q: Array, i: Any) -> Any:
        total = q.dtype.type(0)
        for j in range(q.shape[1]):
            total += abs(t[e, j] - q[i, j])
        return total

    def l1_turn(t: Array, e: Any, q: Array, slope: Any, out: Array, low: Any, high: Any) -> None:
        zero = q.dtype.type(0)
        for j in range(low, high):
            d = t[e, j] - q[j]
            out[j] = (slope if d < zero else zero) - (slope if d > zero else zero)

    def modulus_distance(t: Array, e: Any, q: Array, i: Any) -> Any:
        half, total = q.shape[1] // 2, q.dtype.type(0)
        for j in range(half):
            a, b = t[e, j] - q[i, j], t[e, half + j] - q[i, half + j]
            total += np.sqrt(a * a + b * b)
        return total

    def modulus_turn(t: Array, e: Any, q: Array, slope: Any, out: Array, low: Any, high: Any) -> None:
        half, tiny = np.uint64(len(q) // 2), q.dtype.type(TINY)
        for j in range(low, high):
            a, b = t[e, j] - q[j], t[e, half + j] - q[half + j]
            factor = -slope / np.sqrt(max(a * a + b * b, tiny))
            out[j], out[half + j] = a * factor, b * factor

    if kind == "l1":
        return _loops(jit, np, 1, jit(l1_distance), jit(l1_turn))
    return _loops(jit, np, 2, jit(modulus_distance), jit(modulus_turn))


def _loops(jit: Any, np: Any, parts: int, distance: Any, turn: Any) -> Kernels:
    """The loops around the distance of two rows and around `turn`, slope times its gradient by the target.

    Unsigned numbers tell the compiler that no index counts from the end, without which it uses no vectors.
    """

    def scores(q: Array, t: Array, out: Array, low: int, high: int) -> None:
        for top in range(low, high, STRIP):
            for e in range(t.shape[0]):
                for i in range(top, min(top + STRIP, high)):
                    out[i, e] = -distance(t, e, q, i)

    def add(x: Array, e: Any, turned: Array, low: Any, high: Any) -> None:
        half = np.uint64(len(turned) // parts)
        for j in range(low, high):
            x[e, j] += turned[j]
        if parts == 2:
            for j in range(half + low, half + high):
                x[e, j] += turned[j]

    add = jit(add)

    def pull(slopes: Array, q: Array, t: Array, by_q: Array, by_t: Array, low: int, high: int) -> None:
        turned, first, last = np.empty(q.shape[1], q.dtype), np.uint64(low), np.uint64(high)
        for top in range(0, q.shape[0], STRIP):
            for e in range(t.shape[0]):
                for i in range(top, min(top + STRIP, q.shape[0])):
                    turn(t, e, q[i], slopes[i, e], turned, first, last)
                    add(by_t, e, turned, first, last)
                    add(by_q, i, turned, first, last)

    def some_scores(q: Array, row: Array, t: Array, keys: Array, out: Array, low: int, high: int) -> None:
        for p in range(low, high):
            e, cell = divmod(keys[p], len(keys))
            f, k = divmod(cell, out.shape[1])
            out[f, k] = -distance(t, np.uint64(e), q, np.uint64(row[f]))

    def some_pull(
        slopes: Array, q: Array, row: Array, t: Array, keys: Array, by_q: Array, by_t: Array, low: int, high: int
    ) -> None:
        turned, own = np.empty(q.shape[1], q.dtype), np.zeros((1, q.shape[1]), q.dtype)
        first, last, before = np.uint64(low), np.uint64(high), keys[0] // len(keys)
        for key in keys:
            e, cell = divmod(key, len(keys))
            f, k = divmod(cell, slopes.shape[1])
            if e != before:
                add(by_t, np.uint64(before), own[0], first, last)
                own[:], before = 0, e
            turn(t, np.uint64(e), q[row[f]], slopes[f, k], turned, first, last)
            add(by_q, np.uint64(row[f]), turned, first, last)
            add(own, 0, turned, first, last)
        add(by_t, np.uint64(before), own[0], first, last)

    return Kernels(parts, jit(scores), jit(pull), jit(some_scores), jit(some_pull))
