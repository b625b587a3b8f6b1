"""TuckER: head, relation and tail meet in one core tensor that all facts share."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from dura.models.model import Model
from dura.models.neural import OVER_ALL, Defaults, dropout
from dura.tables import Packed, Table
from dura.types import BadInput, Sizes


class TuckER(Model):
    """W ×₁ h ×₂ r ×₃ t: a relation mixes the slices of the core W to a matrix that moves the head.

    Heads and what becomes of them are batch-normed. Both and the matrix have dropout. "Rank d" is the width of entities and
    `relation_rank` that of relations (0 = the rank, but 30 at most). The matrix of a relation is computed once per step, and the
    questions of the step share what dropout leaves out of it. The published program draws that anew for each question.
    """

    state_is_all = True
    defaults: ClassVar[Defaults] = OVER_ALL
    entity: Table | Packed

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 200,
        relation_rank: int = 0,
        input_dropout: float = 0.2,
        matrix_dropout: float = 0.2,
        hidden_dropout: float = 0.3,
    ) -> None:
        super().__init__(sizes, rank)
        if relation_rank < 0:
            raise BadInput(f"model.relation_rank is {relation_rank}, but it is 0 or a number of dimensions")
        width = relation_rank or min(rank, 30)
        self.entity = Table(nn.init.xavier_normal_(torch.empty(sizes.entities, rank)))
        self.relations = Table(nn.init.xavier_normal_(torch.empty(2 * sizes.relations, width)))
        self.core = nn.Parameter(nn.init.uniform_(torch.empty(width, rank, rank), -1, 1))
        self.norm_input, self.norm_hidden = nn.BatchNorm1d(rank), nn.BatchNorm1d(rank)
        self.drop_input = dropout("input_dropout", input_dropout, nn.Dropout)
        self.drop_matrix = dropout("matrix_dropout", matrix_dropout, nn.Dropout)
        self.drop_hidden = dropout("hidden_dropout", hidden_dropout, nn.Dropout)

    @property
    def target_table(self) -> Table | Packed:
        """The entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What an export may pack."""
        return {"entity": self.entity}

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """norm(norm(h)·M_r), where M_r = Σ r_k·W_k."""
        x = self.drop_input(self.norm_input(self.heads(head)))
        distinct, place = torch.unique(relation, return_inverse=True)
        matrices = self.relations.read(distinct) @ self.core.flatten(1)
        matrices = self.drop_matrix(matrices).view(-1, self.rank, self.rank)
        moved: Tensor = self.drop_hidden(self.norm_hidden(moved_by(x, matrices, place)))
        return moved


def moved_by(x: Tensor, matrices: Tensor, place: Tensor) -> Tensor:
    """`x[i] @ matrices[place[i]]`, as one product per matrix; every matrix has a row."""
    order = torch.argsort(place, stable=True)
    runs = x[order].split(torch.bincount(place, minlength=len(matrices)).tolist())
    products = [run @ matrix for run, matrix in zip(runs, matrices.unbind(), strict=True)]
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return torch.cat(products)[back] if products else x
