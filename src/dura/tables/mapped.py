"""Mapped: tensors that are a part of a file, and how they get into memory without a second copy."""

from __future__ import annotations

import ctypes
import mmap

import torch
from torch import Tensor

TAKE_BYTES = 2**24
"""How many bytes of a file are copied at a time."""


def mark_mapped(tensor: Tensor) -> Tensor:
    """Note that a tensor is a part of a mapped file that nobody has written to."""
    tensor.mapped = True  # type: ignore[attr-defined]
    return tensor


def take_(target: Tensor, stored: Tensor, span: tuple[int, int] | None = None) -> Tensor:
    """Copy a stored tensor, or the rows of a span of it, to `target`.

    If the tensor is a part of a mapped file, its pages are given back as they are copied. So the process never has two copies.
    """
    source = stored if span is None else stored[slice(*span)]
    with torch.no_grad():
        if not getattr(stored, "mapped", False) or not (source.is_contiguous() and target.is_contiguous()):
            return target.copy_(source)
        flat, into, step = source.view(-1), target.detach().view(-1), TAKE_BYTES // source.element_size()
        for at in range(0, len(flat), step):
            part = flat[at : at + step]
            into[at : at + step] = part
            _give_back(part)
    return target


def taken(stored: Tensor, span: tuple[int, int] | None = None) -> Tensor:
    """A copy in memory, aligned like a trained table: products with rows of a mapped file may round differently."""
    rows = stored.shape[0] if span is None and stored.dim() else (span[1] - span[0] if span else 0)
    shape = (rows, *stored.shape[1:]) if stored.dim() else stored.shape
    return take_(torch.empty(shape, dtype=stored.dtype), stored, span)


def _give_back(part: Tensor) -> None:
    """Tell the system that the whole pages of this part of a file are not needed any more. It may read them again later."""
    page, end = mmap.PAGESIZE, part.data_ptr() + part.numel() * part.element_size()
    begin = -(-part.data_ptr() // page) * page
    length = (end - begin) // page * page
    if length > 0 and hasattr(mmap, "MADV_DONTNEED"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), mmap.MADV_DONTNEED)
