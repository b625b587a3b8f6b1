"""The models in which a relation acts linearly on the head, which then meets the tail in an inner product."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dura.bridges.copies.copy import Copy, State, Tables


class Diagonal(Copy):
    """DistMult: <h∘r, t>."""

    theirs = "DistMult"

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"]], [state["relations"]]

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": theirs.entity_representations[0].shape[0]}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": entities[0], "relations": relations[0]}

    def turned(self, relation: Tensor) -> Tensor | None:
        return relation


class ComplEx(Diagonal):
    """Re<h∘r∘t̄>."""

    theirs = "ComplEx"

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        entity, relation = (
            torch.view_as_complex(state[name].unflatten(1, (-1, 2))) for name in ("entity", "relations")
        )
        return [entity], [relation.conj().resolve_conj()]

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        pairs = {"entity": entities[0], "relations": relations[0].conj()}
        return {name: torch.view_as_real(rows.resolve_conj()).flatten(1) for name, rows in pairs.items()}

    def turned(self, relation: Tensor) -> Tensor | None:
        return relation.conj()


class CP(Diagonal):
    """<u_h∘r, v_t>."""

    theirs = "CP"

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "rank": 1}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        rows = (state[name][:, None] for name in ("entity", "tail", "relations"))
        head, tail, relation = rows
        return [head, tail], [relation]

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": math.prod(theirs.entity_representations[0].shape)}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": entities[0].flatten(1), "tail": entities[1].flatten(1), "relations": relations[0].flatten(1)}

    def turned(self, relation: Tensor) -> Tensor | None:
        return None  # heads and tails have separate rows, which change places


class RESCAL(Diagonal):
    """h·R·tᵀ."""

    theirs = "RESCAL"

    def turned(self, relation: Tensor) -> Tensor | None:
        return relation.mT
