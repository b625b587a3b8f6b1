"""Travel: sums, maxima and rows that go from process to process. With one process every call does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dura.world.place import Over, count, group, here, leads, reaching, shards

if TYPE_CHECKING:
    from torch import Tensor

STREAM_NUMBERS = 2**22
"""How many numbers of a table travel at a time to the process that writes a file."""


def total(values: Tensor, over: Over = "shards") -> Tensor:
    """The sum of a tensor over processes, in place; every process gets it."""
    return _reduce(values, "SUM", over)


def highest(values: Tensor, over: Over = "shards") -> Tensor:
    """The element-wise maximum of a tensor over processes, in place; every process gets it. A NaN counts as infinity."""
    if count(over) > 1 and values.is_floating_point():
        values.masked_fill_(values.isnan(), float("inf"))  # gloo would lose it
    return _reduce(values, "MAX", over)


def _reduce(values: Tensor, operation: str, over: Over) -> Tensor:
    if count(over) == 1:
        return values
    import torch.distributed as dist

    with reaching():
        dist.all_reduce(values, getattr(dist.ReduceOp, operation), group=group(over))
    return values


def gather(rows: Tensor, sizes: Sequence[int], over: Over = "shards") -> Tensor:
    """The rows of all processes, one after the other. `sizes` says how many rows each has."""
    if count(over) == 1:
        return rows
    import torch
    import torch.distributed as dist

    most = max(sizes)
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    with reaching():
        dist.all_gather(parts, padded, group=group(over))
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def gather_any(values: Tensor, over: Over = "all") -> list[Tensor]:
    """The 1-d tensors of all processes, of any lengths."""
    if count(over) == 1:
        return [values]
    import torch

    lengths = gather(torch.tensor([len(values)], device=values.device), [1] * count(over), over).tolist()
    return list(gather(values, lengths, over).split(lengths))


def exchange(rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
    """Send the first `send[0]` rows to shard 0, the next ones to shard 1, and so on; returns what comes, in this order."""
    if count("shards") == 1:
        return rows
    import torch.distributed as dist

    came = rows.new_empty(sum(receive), *rows.shape[1:])
    with reaching():
        dist.all_to_all_single(came, rows.contiguous(), list(receive), list(send), group=group("shards"))
    return came


def scatter_total(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """This shard's part of the sum of `rows` over all shards. `sizes` says how many rows the part of each shard has.

    Each shard sends the others their parts and adds what comes. Gloo's own operation sends twice as much.
    """
    if count("shards") == 1:
        return rows
    own = sizes[here.grid.shard]
    return exchange(rows, sizes, [own] * len(sizes)).view(len(sizes), own, *rows.shape[1:]).sum(0)


def from_first(values: Tensor, over: Over = "all") -> Tensor:
    """The values of the first of the processes, in place."""
    if count(over) == 1:
        return values
    import torch.distributed as dist

    first = {"all": 0, "shards": here.grid.replica * here.grid.shards, "replicas": here.grid.shard}[over]
    with reaching():
        dist.broadcast(values, first, group=group(over))
    return values


def stream(rows: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """All rows of a table that is spread over the shards, block by block, in the first process; no other process gets any.

    Every process must run through the iterator. `sizes` says how many rows each shard holds.
    """
    if shards() == 1:
        yield rows
        return
    import torch.distributed as dist

    if here.grid.replica:
        return
    step = max(1, STREAM_NUMBERS // max(1, rows[:1].numel()))
    for shard, length in enumerate(sizes):
        for at in range(0, length, step):
            until = min(at + step, length)
            if leads() and not shard:
                yield rows[at:until]
            elif leads():
                room = rows.new_empty(until - at, *rows.shape[1:], device="cpu")
                with reaching():
                    dist.recv(room, src=shard)
                yield room
            elif shard == here.grid.shard:
                with reaching():
                    dist.send(rows[at:until].cpu().contiguous(), dst=0)
