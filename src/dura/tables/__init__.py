"""Tables: rows of numbers, to train and to read.

Holds `Table` (a parameter whose gradient is collected in place), `Sharded` (this process's rows of a larger table), `Partial` (a
table of which some rows learn), `Gathered` (some rows and the room for their gradient), `Fixed` (rows that are never trained),
`Lowered` (rows in the lower precision of the products), `Packed` (a table in few bytes that can be read but not trained), and
`Runs` (items by what they belong to, for sums of rows). No scoring happens here: comparators know what the rows mean. May touch
`types`, `world` and `registry` only.
"""

from dura.tables.packed import Packed
from dura.tables.sharded import Sharded, Spans, entity_table, fill
from dura.tables.table import Collector, Fixed, Gathered, Lowered, Room, Runs, Table, add_product_

__all__ = [
    "Collector",
    "Fixed",
    "Gathered",
    "Lowered",
    "Packed",
    "Room",
    "Runs",
    "Sharded",
    "Spans",
    "Table",
    "add_product_",
    "entity_table",
    "fill",
]
