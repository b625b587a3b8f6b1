"""The models that score by a distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dura.bridges.copies.copy import Copy, State, Tables


class Distance(Copy):
    """Models with a norm."""

    reciprocal = False
    norms: ClassVar[tuple[str, ...]] = ("l1", "l2")
    parts: ClassVar[int] = 1
    """How many tables of PyKEEN are one row of dura."""
    relation_name: ClassVar[str] = "relations"

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "scoring_fct_norm": 1 if _norm_of(model) == "l1" else 2}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"]], [state[self.relation_name]]

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": theirs.entity_representations[0].shape[0], "norm": self._norm(theirs)}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": entities[0], self.relation_name: relations[0]}

    def refused(self, theirs: Any) -> str:
        norm = self._norm(theirs)
        return "" if norm in self.norms else f"its norm is {norm}, and dura's is {' or '.join(self.norms)}"

    def _norm(self, theirs: Any) -> str:
        p, squared = float(theirs.interaction.p), bool(theirs.interaction.power_norm)
        return "squared" if squared and p == 2 else f"l{p:g}" + (" to a power" if squared and p != 1 else "")


class TransE(Distance):
    """−‖h + r − t‖."""

    theirs, relation_name = "TransE", "shifts"


class TransH(Distance):
    """−‖h⊥ + d − t⊥‖²."""

    theirs, norms = "TransH", ("squared",)

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "scoring_fct_norm": 2, "power_norm": True}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        shift, normal = state["relations"].chunk(2, 1)
        return [state["entity"]], [nn.functional.normalize(normal, dim=1), shift]

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        normal, shift = relations
        return {"entity": entities[0], "relations": torch.cat([shift, normal], 1)}

    def refused(self, theirs: Any) -> str:
        with torch.no_grad():
            lengths = theirs.relation_representations[0](None).norm(dim=1)
        unit = bool(((lengths - 1).abs() < 1e-4).all())
        return super().refused(theirs) or (
            "" if unit else "the normals of its hyperplanes have not length 1, and dura's have"
        )


class TransD(Distance):
    """−‖h' + r − t'‖²."""

    theirs, norms = "TransD", ("squared",)

    def options(self, model: Any) -> dict[str, Any]:
        norm = {"p": 2, "power_norm": True}
        return {"embedding_dim": model.rank, "relation_dim": model.rank, "interaction_kwargs": norm}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return list(state["entity"].chunk(2, 1)), list(state["relations"].chunk(2, 1))

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": torch.cat(entities, 1), "relations": torch.cat(relations, 1)}

    def refused(self, theirs: Any) -> str:
        entity, relation = (r[0].shape[0] for r in (theirs.entity_representations, theirs.relation_representations))
        return super().refused(theirs) or (
            "" if entity == relation else "its relations have another width than its entities"
        )


class SE(Distance):
    """−‖A·h − B·t‖."""

    theirs = "SE"

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"]], list(state["relations"].chunk(2))

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": entities[0], "relations": torch.cat(relations)}


class RotatE(Distance):
    """−‖h∘e^{iθ} − t‖₂ in PyKEEN."""

    theirs = "RotatE"
    differs = "PyKEEN takes the norm of all differences, and dura adds up their moduli as the paper's program does"

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        angles = state["angles"]
        return [torch.complex(*state["entity"].chunk(2, 1))], [torch.polar(torch.ones_like(angles), angles)]

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": theirs.entity_representations[0].shape[0]}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        return {"entity": torch.cat([entities[0].real, entities[0].imag], 1), "angles": relations[0].angle()}


class MuRE(Copy):
    """−‖h∘s − (t + r)‖² + b_h + b_t."""

    theirs = "MuRE"

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "p": 2, "power_norm": True}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        scale, shift = state["relations"].chunk(2, 1)
        entity = state["entity"]
        return [entity[:, :-1], state["head_bias"], entity[:, -1:]], [-shift, scale]

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": theirs.entity_representations[0].shape[0]}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        rows, head, tail = (table.reshape(len(table), -1) for table in entities)
        shift, scale = relations
        return {"entity": torch.cat([rows, tail], 1), "head_bias": head, "relations": torch.cat([scale, -shift], 1)}

    def refused(self, theirs: Any) -> str:
        squared = theirs.interaction.p == 2 and theirs.interaction.power_norm
        return "" if squared else "its distance is not squared, and dura's is"


def _norm_of(model: Any) -> str:
    """The norm of a distance model of dura."""
    return str(type(model.comparator).__name__).lower()
