"""Packed tables: the rows of entities in few bytes, to ask but not to train.

A model with packed tables answers like any other: `read` gives the few rows that a block of questions needs, `product`
multiplies queries with all rows, and `blocks` gives all rows, one part of the table after the other. The whole table is never
made dense.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from dura.types import BadInput, DuraError

NumberType = Literal["float32", "float16", "int8"]
NUMBER_TYPES: tuple[NumberType, ...] = get_args(NumberType)
"""How an entry may be stored; int8 has one scale per row."""
PART = 2**18
"""How many numbers of the table, or of its products, are in use at a time: about what a processor's cache holds."""
GROUP = 32
"""How many queries are multiplied with sparse rows at a time. They then stay in the cache, which is three times as fast."""
LARGEST_INT8 = 127


class Packed(ABC):
    """Rows [n, w] that are read as float32: `data`, times the `scale` of its row if there is one."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, data: Tensor, scale: Tensor | None, shape: tuple[int, int]) -> None:
        self.data, self.scale, self.shape = data, scale, shape
        if scale is None and data.dtype == torch.int8:
            raise DuraError("a packed table is damaged: its int8 numbers have no scale")
        if scale is not None and (scale.shape != shape[:1] or scale.dtype != torch.float32):
            raise DuraError("a packed table is damaged: it needs one float32 scale per row")

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def number_type(self) -> NumberType:
        """How its entries are stored."""
        return next(kind for kind in NUMBER_TYPES if getattr(torch, kind) == self.data.dtype)

    def tensors(self) -> dict[str, Tensor]:
        """What is stored, by name. `open_packed` makes the same table from it."""
        return {"data": self.data} | ({} if self.scale is None else {"scale": self.scale})

    @property
    def bytes(self) -> int:
        """The size of what is stored."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    @abstractmethod
    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`."""

    def unpacked(self) -> Tensor:
        """All rows at once, as large as the table was."""
        return self.read(torch.arange(len(self)))

    @torch.no_grad()
    def product(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """x·rowsᵀ [m, n] for x [m, w]."""
        product = x.new_empty(len(x), len(self)) if out is None else out
        for part in _slices(len(self), PART // self._numbers_per_row()):
            self._product(x.detach(), part, product[:, part])
        return product

    def _numbers_per_row(self) -> int:
        """How many numbers of a row are in use during a product."""
        return self.shape[1]

    @abstractmethod
    def _product(self, x: Tensor, part: slice, out: Tensor) -> None:
        """Write the product of x with some rows."""

    def fingerprints(self) -> Tensor:
        """Two integers per row, [n, 2]. Equal rows have equal integers. Different rows have equal ones with a chance of 2⁻⁶⁶."""
        weights = np.random.default_rng(0).integers(-(2**63), 2**63, size=(self.shape[1], 2), dtype=np.int64) | 1
        marks = np.empty(
            (len(self), 2), dtype=np.int64
        )  # whole from the start: pieces between large ones would tear the heap
        for part, rows in self.blocks():
            np.matmul(rows.add_(0).numpy().view(np.int32).astype(np.int64), weights, out=marks[part])
        return torch.from_numpy(marks)

    def longest(self) -> float:
        """The largest norm of a row."""
        return max((float(torch.linalg.vector_norm(rows, dim=1).max()) for _, rows in self.blocks()), default=0.0)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All rows as float32, a part of the table at a time."""
        for part in _slices(len(self), PART // self.shape[1]):
            yield part, self.read(torch.arange(part.start, part.stop))

    def _scaled(self, rows: Tensor, which: Tensor | slice) -> Tensor:
        return rows if self.scale is None else rows.mul_(self.scale[which, None])


class Small(Packed):
    """Every entry, in a small type.

    >>> table = Small.of(torch.tensor([[1.27, -0.5], [0.0, 0.0]]), "int8")
    >>> table.data.tolist(), table.bytes
    ([[127, -50], [0, 0]], 12)
    """

    def __init__(self, data: Tensor, scale: Tensor | None = None) -> None:
        if data.ndim != 2 or data.dtype not in _STORED:
            raise DuraError("a packed table is damaged: its data must be rows of float32, float16 or int8")
        super().__init__(data, scale, (data.shape[0], data.shape[1]))

    @classmethod
    def of(cls, table: Tensor, kind: NumberType) -> Small:
        """The rows of a table in a small type."""
        data, scales = torch.empty(table.shape, dtype=getattr(torch, kind)), []
        for part in _slices(len(table), PART // table.shape[1]):
            data[part], scale = _encoded(table[part].detach().cpu(), kind)
            scales.append(scale)
        return cls(data, torch.cat(scales) if kind == "int8" else None)

    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`."""
        return self._scaled(self.data[index].to(self.dtype), index)

    def _product(self, x: Tensor, part: slice, out: Tensor) -> None:
        torch.mm(x, self._scaled(self.data[part].to(self.dtype), part).mT, out=out)


class Csr(Packed):
    """Compressed sparse rows (CSR): the entries that are not zero, with their columns.

    Row i has the entries `indptr[i]` to `indptr[i + 1]` of `data` and `indices`.

    >>> table = Csr.of(torch.tensor([[0.5, -0.01], [0.0, -2.0]]), "float32", threshold=0.1)
    >>> table.unpacked().tolist(), table.bytes
    ([[0.5, 0.0], [0.0, -2.0]], 13)
    """

    def __init__(
        self, data: Tensor, indices: Tensor, indptr: Tensor, shape: tuple[int, int], scale: Tensor | None = None
    ) -> None:
        super().__init__(data, scale, shape)
        self.indices, self.indptr = indices, indptr
        self._check()
        _announced()

    def _check(self) -> None:
        """Refuse numbers that do not fit: products use them as addresses in memory."""
        ends = self.indptr
        sound = (
            self.data.ndim == self.indices.ndim == ends.ndim == 1
            and self.data.dtype in _STORED
            and self.indices.dtype in _INDEX_TYPES
            and ends.dtype in _INDEX_TYPES
            and len(ends) == len(self) + 1
            and len(self.data) == len(self.indices) == int(ends[-1])
            and int(ends[0]) == 0
            and bool((ends[1:] >= ends[:-1]).all())
        )
        if not sound or (
            len(self.data) and not 0 <= int(self.indices.min()) <= int(self.indices.max()) < self.shape[1]
        ):
            raise DuraError("a packed table is damaged: its data, indices and indptr do not fit its shape")

    @classmethod
    def of(cls, table: Tensor, kind: NumberType, threshold: float = 0.0) -> Csr:
        """The entries of a table that are not zero and not below the threshold in absolute value."""
        width, data, columns, counts, scales = table.shape[1], [], [], [], []
        for part in _slices(len(table), PART // width):
            rows = table[part].detach().cpu()
            entries, scale = _encoded(rows.masked_fill(rows.abs() < threshold, 0), kind)
            row, column = entries.nonzero(as_tuple=True)
            data.append(entries[row, column])
            columns.append(column.to(index_type(width)))
            counts.append(torch.bincount(row, minlength=len(rows)))
            scales.append(scale)
        ends = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(counts).cumsum(0)])
        return cls(
            torch.cat(data),
            torch.cat(columns),
            ends.to(index_type(int(ends[-1]) + 1)),
            (len(table), width),
            torch.cat(scales) if kind == "int8" else None,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Entries, their columns, where each row begins, and the scales."""
        return {**super().tensors(), "indices": self.indices, "indptr": self.indptr}

    def read(self, index: Tensor) -> Tensor:
        """The rows at `index`, with their zeros."""
        begin, end = self.indptr[index].long(), self.indptr[index + 1].long()
        counts = end - begin
        first = counts.cumsum(0) - counts
        at = torch.repeat_interleave(begin - first, counts) + torch.arange(int(counts.sum()))
        rows = torch.zeros(len(index), self.shape[1], dtype=self.dtype)
        rows[torch.repeat_interleave(counts), self.indices[at].long()] = self.data[at].to(self.dtype)
        return self._scaled(rows, index)

    def _numbers_per_row(self) -> int:
        """Its entries or its products, whichever are more."""
        return max(GROUP, len(self.data) // len(self))

    def _product(self, x: Tensor, part: slice, out: Tensor) -> None:
        ends = self.indptr[part.start : part.stop + 1].long()
        own = slice(int(ends[0]), int(ends[-1]))
        rows = torch.sparse_csr_tensor(
            (ends - ends[0]).int(),
            self.indices[own].int(),
            self.data[own].to(self.dtype),
            size=(part.stop - part.start, self.shape[1]),
            check_invariants=False,
        )
        for few, scores in zip(x.split(GROUP), out.split(GROUP), strict=True):
            scores.copy_(self._scaled(torch.mm(rows, few.mT.contiguous()), part).mT)


_STORED = tuple(getattr(torch, kind) for kind in NUMBER_TYPES)
_INDEX_TYPES = (torch.uint8, torch.int16, torch.int32, torch.int64)


def index_type(count: int) -> torch.dtype:
    """The smallest type that holds the numbers from 0 to count - 1.

    >>> index_type(256), index_type(257), index_type(40_943)
    (torch.uint8, torch.int16, torch.int32)
    """
    return next(kind for kind in _INDEX_TYPES if count - 1 <= torch.iinfo(kind).max)


def open_packed(tensors: Mapping[str, Tensor], shape: tuple[int, int]) -> Packed:
    """The table that `Packed.tensors` stored."""
    try:
        scale = tensors.get("scale")
        if "indptr" in tensors:
            return Csr(tensors["data"], tensors["indices"], tensors["indptr"], shape, scale)
        table = Small(tensors["data"], scale)
    except KeyError as error:
        raise DuraError(f"a packed table is damaged: it has no {error}") from None
    if table.shape != shape:
        raise DuraError(f"a packed table is damaged: it has the shape {table.shape}, not {shape}")
    return table


def _encoded(rows: Tensor, kind: NumberType) -> tuple[Tensor, Tensor]:
    """The entries in their stored type, and the scale of each row (1 if it has none)."""
    if not torch.isfinite(rows).all():
        raise DuraError(
            "the model's tables hold numbers that are not finite, so they cannot be packed; train the model again"
        )
    largest, scale = rows.abs().amax(dim=1), torch.ones(len(rows))
    if kind == "int8":
        scale = torch.where(largest > 0, largest / LARGEST_INT8, scale)
        return (rows / scale[:, None]).round_().clamp_(-LARGEST_INT8, LARGEST_INT8).to(torch.int8), scale
    if kind == "float16" and float(largest.max()) > torch.finfo(torch.float16).max:
        raise BadInput(
            f"the tables hold {float(largest.max()):g}, and float16 ends at {torch.finfo(torch.float16).max:,.0f}; "
            "use --int8 instead"
        )
    return rows.to(getattr(torch, kind)), scale


def _slices(count: int, size: int) -> Iterator[slice]:
    """Slices of about `size` that cover 0 to count; at least 64 each."""
    size = max(64, size)
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


@cache
def _announced() -> None:
    """Take in the warning that torch's sparse rows are in beta, which torch gives once per process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)
