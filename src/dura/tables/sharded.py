"""Sharded: this process's rows of a table that is spread over several processes.

Each process holds a span of rows with its gradient and the optimizer's state. Rows of other processes travel: `fetch` brings the
rows that a step reads, all in one exchange, and `settle` sends their gradients back to where the rows live.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from dura import world
from dura.tables.table import Table


@dataclass(frozen=True)
class Spans:
    """How the rows of a table are cut: shard i holds the rows from `edges[i]` up to `edges[i + 1]`.

    >>> Spans.even(10, 3).edges, Spans.even(10, 3).sizes
    ((0, 3, 6, 10), (3, 3, 4))
    """

    edges: tuple[int, ...]

    @classmethod
    def even(cls, rows: int, shards: int) -> Spans:
        """Spans that differ by one row at most."""
        return cls(tuple(rows * i // shards for i in range(shards + 1)))

    @property
    def rows(self) -> int:
        """How many rows there are altogether."""
        return self.edges[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many rows each shard holds."""
        return tuple(b - a for a, b in pairwise(self.edges))

    def cut(self, ids: Tensor) -> list[int]:
        """How many of these ascending ids each shard holds."""
        edges = torch.tensor(self.edges, device=ids.device)
        return torch.searchsorted(ids, edges).diff().tolist()


class Sharded(Table):
    """The rows from `span[0]` up to `span[1]` of a table. `read` takes the ids of the whole table.

    In a training step, `fetch` must have brought the rows. When a model is asked, every process asks the same, so `read` brings
    the rows by itself.
    """

    spans: Spans
    place: int
    _asked: Tensor
    _fetched: Table | None
    _sent: Tensor
    _counts: tuple[list[int], list[int]]

    def __new__(cls, data: Tensor, spans: Spans, place: int, requires_grad: bool = True) -> Sharded:
        """The rows of this process."""
        table = super().__new__(cls, data, requires_grad)
        assert isinstance(table, Sharded)
        table.spans, table.place, table._fetched = spans, place, None
        return table

    @property
    def span(self) -> tuple[int, int]:
        """The first row that is here and the one after the last."""
        return self.spans.edges[self.place], self.spans.edges[self.place + 1]

    def like(self, data: Tensor) -> Sharded:
        """The same span with other values."""
        return Sharded(data, self.spans, self.place, self.requires_grad)

    def read(self, index: Tensor) -> Tensor:
        """The rows of these ids, which may live in other processes."""
        if not torch.is_grad_enabled():
            asked = index.unique()
            self.fetch([asked] * len(self.spans.sizes))
        assert self._fetched is not None
        return self._fetched.read(torch.searchsorted(self._asked, index))

    def fetch(self, asked: Sequence[Tensor]) -> None:
        """Bring rows: `asked[i]` are the ids that shard i will read, ascending. Every process knows what the others will read."""
        first, last = self.span
        edges = torch.tensor([first, last], device=self.device)
        wanted = [ids[slice(*torch.searchsorted(ids, edges).tolist())] for ids in asked]
        self._sent = torch.cat(wanted) - first
        self._asked = asked[self.place]
        self._counts = [len(ids) for ids in wanted], self.spans.cut(self._asked)
        rows = world.exchange(self.rows.index_select(0, self._sent), *self._counts)
        self._fetched = Table(rows, self.requires_grad)

    def settle(self) -> None:
        """Send the gradients of the fetched rows back, and add those that come to the rows here."""
        assert self._fetched is not None
        send, receive = self._counts
        came = world.exchange(self._fetched.gradient(), receive, send)
        self.add_rows(self._sent, came)
        self._fetched = None


def entity_table(rows: int, width: int) -> Table:
    """A table with one row per entity, not yet filled: all rows, or this process's span of them."""
    if world.shards() == 1:
        return Table(torch.empty(rows, width))
    spans, place = Spans.even(rows, world.shards()), world.grid().shard
    return Sharded(torch.empty(spans.sizes[place], width), spans, place)


def fill(table: Tensor, scale: float) -> None:
    """Fill a table from N(0, 1) · scale, or by Xavier's rule if the scale is 0. A span gets the numbers of the whole table."""
    rows, width = table.spans.rows if isinstance(table, Sharded) else len(table), table[:1].numel()
    bound = math.sqrt(3.0) * math.sqrt(2.0 / (rows + width)) if rows + width else 0.0

    def draw(numbers: Tensor) -> Tensor:
        return numbers.normal_(std=scale) if scale else numbers.uniform_(-bound, bound)

    with torch.no_grad():
        if isinstance(table, Sharded):
            _fill_span(table, draw)
        else:
            draw(table.data.flatten())


FILL = 2**20
"""How many numbers are drawn at a time for a table of which only a span is kept. A multiple of 16, torch's own unit."""


def _fill_span(table: Sharded, draw: Callable[[Tensor], object]) -> None:
    """Fill a span with the numbers that it would have in the whole table: all are drawn in order, and the others thrown away.

    `draw` fills a flat tensor. torch draws normal numbers in units of 16 and finishes a tensor in its own way, so every block but
    the last is a multiple of 16 and the last has at least 16 numbers.
    """
    width = table[:1].numel()
    numbers, (first, last) = table.spans.rows * width, (edge * width for edge in table.span)
    flat, room = table.data.view(-1), torch.empty(min(numbers, FILL + 16), dtype=table.dtype)
    at = 0
    while at < numbers:
        until = numbers if numbers - at < FILL + 16 else at + FILL
        block = room[: until - at]
        draw(block)
        a, b = max(at, first), min(until, last)
        if a < b:
            flat[a - first : b - first] = block[a - at : b - at]
        at = until
