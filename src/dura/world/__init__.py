"""World: the processes that work on one job together. With one process every call does nothing.

`torchrun` starts the processes and tells each one its place. They form a grid of `replicas` rows and `shards` columns. The
processes of one row hold one copy of the tables, each a span of its rows. No other room imports torch.distributed or reads the
variables by which torchrun tells a process its place. May touch `types` only.
"""

from __future__ import annotations

from dura.world.agreement import agree, by_leader, texts, together
from dura.world.joining import join, leave
from dura.world.place import (
    Grid,
    Lost,
    Over,
    alone,
    count,
    grid,
    job,
    leads,
    local_rank,
    rank,
    shards,
    size,
    whole,
)
from dura.world.travel import exchange, from_first, gather, gather_any, highest, scatter_total, stream, total

__all__ = [
    "Grid",
    "Lost",
    "Over",
    "agree",
    "alone",
    "by_leader",
    "count",
    "exchange",
    "from_first",
    "gather",
    "gather_any",
    "grid",
    "highest",
    "job",
    "join",
    "leads",
    "leave",
    "local_rank",
    "rank",
    "scatter_total",
    "shards",
    "size",
    "stream",
    "texts",
    "together",
    "total",
    "whole",
]
