"""Copy: what is needed to have one model in both programs, and how tables are written and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

State = dict[str, Tensor]
Tables = tuple[list[Tensor], list[Tensor]]
"""PyKEEN's tables of entities and of relations; complex numbers are complex."""


class Copy(ABC):
    """One model in both programs."""

    theirs: ClassVar[str]
    """PyKEEN's class."""
    reciprocal: ClassVar[bool] = True
    """Whether reciprocals have rows of their own, which PyKEEN has if it creates inverse triples."""
    differs: ClassVar[str] = ""
    """Why the scores are not the same, if they are not."""

    @abstractmethod
    def options(self, model: Any) -> dict[str, Any]:
        """The arguments of PyKEEN's class for a model of dura."""

    @abstractmethod
    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        """PyKEEN's tables. Of relations with reciprocals, in dura's order."""

    def layers(self, model: Any, theirs: Any) -> None:
        """Copy what is not a table from dura to PyKEEN."""
        return

    @abstractmethod
    def settings(self, theirs: Any) -> dict[str, Any]:
        """The options of dura's model for a model of PyKEEN."""

    @abstractmethod
    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        """dura's state from PyKEEN's tables, with relations in dura's order."""

    def turned(self, relation: Tensor) -> Tensor | None:
        """The reciprocal rows of a model without inverse relations: those with the same scores. None if there are none."""
        return None

    def refused(self, theirs: Any) -> str:
        """Why a model of PyKEEN is not this model, if it is not."""
        return ""


@torch.no_grad()
def fill(theirs: Any, entities: list[Tensor], relations: list[Tensor]) -> None:
    """Write tables into a model of PyKEEN. Complex numbers become neighbouring reals."""
    for tables, own in ((entities, theirs.entity_representations), (relations, theirs.relation_representations)):
        for table, representation in zip(tables, own, strict=True):
            weight = representation._embeddings.weight
            reals = torch.view_as_real(table.resolve_conj()) if table.is_complex() else table
            weight.copy_(reals.reshape(weight.shape))


@torch.no_grad()
def read(representations: Any) -> list[Tensor]:
    """The tables of a model of PyKEEN, as its scores use them: after normalizers and constrainers."""
    return [representation.eval()(None).detach().clone() for representation in representations]


def doubled(rows: Tensor) -> Tensor:
    """dura's order of relations and reciprocals -> PyKEEN's, where each is followed by its inverse.

    >>> doubled(torch.tensor([[0], [1], [10], [11]])).flatten().tolist()
    [0, 10, 1, 11]
    """
    own, inverse = rows.chunk(2)
    return torch.stack([own, inverse], 1).flatten(0, 1)


def halved(rows: Tensor) -> Tensor:
    """The other way."""
    return torch.cat([rows[::2], rows[1::2]])
