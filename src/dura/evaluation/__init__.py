"""Evaluation: how well a model answers questions whose answers are known.

Holds the exact filtered ranking (`rank`), the metrics of a set of ranks (`metrics`, `by`) and the result that carries its protocol
(`evaluate`, `Result`). May touch models, data and what lies below; knows nothing of training. To add a metric: a field of
`dura.types.Metrics` and its line in `metrics`; it is then in every result. To add a breakdown: a row in `GROUPS` and its labels in
`by`.
"""

from dura.evaluation.metrics import GROUPS, Group, by, metrics
from dura.evaluation.ranking import block_size, rank
from dura.evaluation.result import Result, evaluate

__all__ = ["GROUPS", "Group", "Result", "block_size", "by", "evaluate", "metrics", "rank"]
