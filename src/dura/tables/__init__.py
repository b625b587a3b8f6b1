"""Tables: rows of numbers, to train and to read.

Holds `Table` (a parameter whose gradient is collected in place) and `Packed` (a table in few bytes that is read but not
trained). Both have the same face: `read(ids)`, `product(rows)` and blocks of rows. No scoring happens here: comparators know
what the numbers mean. May touch types and registry only.
"""

from dura.tables.packed import Packed
from dura.tables.table import Table

__all__ = ["Packed", "Table"]
