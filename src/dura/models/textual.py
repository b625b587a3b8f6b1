"""Textual models: entities and relations are known by their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dura.models.model import Model
from dura.tables import Table
from dura.types import BadInput, Sizes

LARGEST_WIDTH = 100_000


class StAR(Model):
    """<e∘u + d, v>: u is made of the texts of head and relation by a small network, and v is the text vector of the tail.

    StAR ranks by a classifier on [u; v; u − v; u∘v]. What differs between two tails is (e∘u)·v + d·v, where e and d = b − c are its
    weights for u∘v, v and u − v. Here the text encoder is frozen, so results are called "star-like": `vectors` is a file that
    `dura text` made ("": training makes one with the installed encoder), and `width` is how many numbers its vectors have.
    u = norm(h + network([h; r])), with `rank` hidden numbers. A relation is its text vector plus a row that is learned; reciprocals
    have rows of their own.
    """

    state_is_all = True
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "regularizer": {"name": "none"},
        "loss": {"name": "softmax"},
        "candidates": {"name": "all"},
        "optimizer": {"name": "adam", "lr": 1e-3},
        "training": {"batch": 500, "anneal": 20, "validate_every": 5, "patience": 4},
    }
    entity_text: Tensor
    relation_text: Tensor

    def __init__(
        self, sizes: Sizes, rank: int = 512, vectors: str = "", width: int = 384, dropout: float = 0.1
    ) -> None:
        super().__init__(sizes, rank)
        if not 1 <= width <= LARGEST_WIDTH:
            raise BadInput(f"model.width is {width}, but a text vector has 1 to {LARGEST_WIDTH:,} numbers")
        if not 0 <= dropout < 1:
            raise BadInput(f"model.dropout is {dropout:g}, but it is a share from 0 to below 1")
        self.vectors, self.width = vectors, width
        self.register_buffer("entity_text", torch.zeros(sizes.entities, width))
        self.register_buffer("relation_text", torch.zeros(sizes.relations, width))
        self.relations = Table(nn.init.normal_(torch.empty(2 * sizes.relations, width), std=width**-0.5))
        self.inner, self.outer = nn.Linear(2 * width, rank), nn.Linear(rank, width)
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(width)
        self.product, self.lean = nn.Parameter(torch.full((width,), 3.0)), nn.Parameter(torch.zeros(width))

    def read_names(self, entities: Iterable[str], relations: Iterable[str]) -> None:
        """Take the vectors of these names from the file."""
        from dura.encoders.vectors import read_vectors

        path = Path(self.vectors)
        found = read_vectors(path)
        if found.width != self.width:
            raise BadInput(
                f"model.width is {self.width}, but the vectors in {path} have {found.width} numbers: set "
                f"model.width = {found.width}"
            )
        self.entity_text.copy_(torch.from_numpy(found.of("entities", entities, path)))
        self.relation_text.copy_(torch.from_numpy(found.of("relations", relations, path)))

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """e∘u + d."""
        h = self.heads(head)
        r = self.relation_text[relation % self.sizes.relations] + self.relations.read(relation)
        moved = self.outer(self.dropout(F.gelu(self.inner(torch.cat([h, r], 1)))))
        query: Tensor = self.product * self.norm(h + moved) + self.lean
        return query

    def heads(self, entities: Tensor) -> Tensor:
        """The text vectors of these entities."""
        return self.entity_text[entities]

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        """The text vectors, which are never trained."""
        return self.entity_text if entities is None else self.entity_text[entities]
