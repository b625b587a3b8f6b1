"""The plainest model: its queries are given, its targets are the rows of one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.models import Model
from dura.tables import Table
from dura.types import Sizes


class Plain(Model):
    """A table of targets; queries are made by the tests themselves."""

    def __init__(self, table: Table, relations: int = 1) -> None:
        super().__init__(Sizes(len(table), relations), int(table.shape[1]))
        self.entity = table

    @property
    def target_table(self) -> Table:
        return self.entity

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.entity.read(head)


def asked(offsets: list[int], answers: np.ndarray[Any, Any]) -> Questions:
    """Questions number 0, 1, … of relation 0 with these answers."""
    count = len(offsets) - 1
    return Questions(np.arange(count), np.zeros(count, dtype=np.int64), np.array(offsets), np.asarray(answers))


def tensor(ids: Any) -> Tensor:
    """Ids as torch takes them."""
    return torch.as_tensor(np.asarray(ids)).long()


def table_of(model: Model) -> Table:
    """The table of a model's targets."""
    table = model.target_table
    assert isinstance(table, Table)
    return table
