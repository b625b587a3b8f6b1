"""Evaluation: how well a model answers questions whose truth is known.

Holds the exact filtered ranking (`rank`), the figures of a set of ranks (`metrics`, `by`) and the result that carries its
protocol (`evaluate`, `Result`). May touch data and types, and a model only through the three methods of `Scorer`; knows nothing
of training. To add a figure: a field of `dura.types.Metrics`, its line in `metrics`, and it stands in every result. To add a
breakdown: a row in `GROUPS` and the labels it gives to ranks in `by`.
"""

from dura.evaluation.metrics import GROUPS, Group, by, metrics
from dura.evaluation.ranking import Scorer, block_size, rank
from dura.evaluation.result import Result, evaluate

__all__ = ["GROUPS", "Group", "Result", "Scorer", "block_size", "by", "evaluate", "metrics", "rank"]
