"""Comparators: how a query meets its targets.

A comparator turns queries [m, v] and target rows [n, w] into scores [m, n]. Training, ranking, prediction and explanation all go
through it. Everything that a score depends on is in the two rows, so comparators hold no state. Queries and targets may have
different widths. To add one, write a class with `pairs`: all other methods have a default that derives from it, block by block.
Override them where a formula is faster.
"""

from dura.models.comparators.ball import Poincare
from dura.models.comparators.base import Comparator
from dura.models.comparators.boxes import Boxes
from dura.models.comparators.distances import L1, L2, Modulus, SquaredL2
from dura.models.comparators.filters import Filters
from dura.models.comparators.polar import Polar
from dura.models.comparators.products import Biased, Dot
from dura.models.comparators.projections import Hyperplane, Pushed

__all__ = [
    "L1",
    "L2",
    "Biased",
    "Boxes",
    "Comparator",
    "Dot",
    "Filters",
    "Hyperplane",
    "Modulus",
    "Poincare",
    "Polar",
    "Pushed",
    "SquaredL2",
]
