"""Models for laws: every row of MODELS by its name, the duals of those that have one, and two doubles that use what no row uses.

The two doubles have targets that depend on the relation (one also on the time), batch norm, dropout, a bias per entity and a
parameter that is not a table. A dual is a row with `comparator = "distance"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor, nn

import oracles
from dura.models import L2, MODELS, Biased, Model
from dura.tables import Table
from dura.types import Sizes


class Grouped(Model):
    """−‖norm(dropout(h + r)) − (t + m_r)‖ + b_t."""

    grouped_by: ClassVar[tuple[Literal["relation", "time"], ...]] = ("relation",)
    comparator = Biased(L2())

    def __init__(self, sizes: Sizes, rank: int = 10) -> None:
        super().__init__(sizes, rank)
        self.entity = Table(torch.randn(sizes.entities, rank + 1))
        self.relations = Table(torch.randn(2 * sizes.relations, rank))
        self.move = nn.Parameter(torch.randn(2 * sizes.relations, rank))
        self.dropout, self.norm = nn.Dropout(0.2), nn.BatchNorm1d(rank)

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        rows: Tensor = self.norm(self.dropout(self.heads(head) + self.relations.read(relation)))
        return rows

    def heads(self, entities: Tensor) -> Tensor:
        return self.entity.read(entities)[:, :-1]

    def moved(self, relation: Tensor, time: Tensor | None) -> Tensor:
        return self.move[relation]

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        assert relation is not None
        rows = self.entity.read(torch.arange(self.sizes.entities) if entities is None else entities)
        return torch.cat([rows[:, :-1] + self.moved(relation, time), rows[:, -1:]], 1)


class GroupedDated(Grouped):
    """The same with t + m_r + n_τ."""

    temporal = True
    grouped_by = ("relation", "time")

    def __init__(self, sizes: Sizes, rank: int = 10) -> None:
        super().__init__(sizes, rank)
        self.times = Table(torch.randn(sizes.times, rank))

    def moved(self, relation: Tensor, time: Tensor | None) -> Tensor:
        assert time is not None
        return self.move[relation] + self.times.read(time)


def _target(state: oracles.State, r: int, t: int, time: int) -> Tensor:
    row = state["entity"][t, :-1] + state["move"][r]
    return row + state["times"][time] if "times" in state else row


def literal_score(state: oracles.State, h: int, r: int, t: int, time: int) -> Tensor:
    x = state["entity"][h, :-1] + state["relations"][r]
    x = (x - state["norm.running_mean"]) / torch.sqrt(state["norm.running_var"] + 1e-5)
    x = x * state["norm.weight"] + state["norm.bias"]
    return -torch.sqrt(((x - _target(state, r, t, time)) ** 2).sum()) + state["entity"][t, -1]


def literal_rows(state: oracles.State, h: int, r: int, t: int, time: int) -> oracles.Rows:
    tail = torch.cat([_target(state, r, t, time), state["entity"][t, -1:]])
    return oracles.Rows(state["entity"][h, :-1], (state["relations"][r],), tail)


DOUBLES: dict[str, type[Model]] = {"double": Grouped, "dated-double": GroupedDated}
for _name in DOUBLES:
    oracles.SCORES[_name], oracles.ROWS[_name] = literal_score, literal_rows


def _dual(name: str) -> type[Model]:
    """The class of a row with another comparator and nothing else changed."""
    kind: Any = MODELS.get(name)

    class Dual(kind):  # type: ignore[misc]
        def __init__(self, sizes: Sizes, rank: int = 10, init_scale: float = 0.3) -> None:
            super().__init__(sizes, rank, init_scale, "distance")

    return Dual


def _dual_score(name: str, state: oracles.State, *fact: int) -> Tensor:
    rows = oracles.ROWS[name](state, *fact)
    assert rows.products is not None
    return -oracles.square(rows.products[0] - rows.numbers(rows.t))


for _name in oracles.SEMANTIC:
    DOUBLES[_dual_name := f"{_name}-dual"] = _dual(_name)
    oracles.SCORES[_dual_name], oracles.ROWS[_dual_name] = partial(_dual_score, _name), oracles.ROWS[_name]


def law_models() -> list[Any]:
    """The parameters of a fixture that gives every model a turn; call `known` in it."""
    return [*MODELS.names(), *DOUBLES]


def known(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name, which now stands in MODELS until the test ends."""
    if name in DOUBLES:
        monkeypatch.setitem(MODELS._members, name, DOUBLES[name])
    return name


def built(
    name: str, sizes: Sizes, rank: int = 4, seed: int = 5, options: Mapping[str, Any] = MappingProxyType({})
) -> Model:
    """A model in float64 and evaluation mode with numbers far from their start, so that a wrong sign shows."""
    torch.manual_seed(seed)
    model = MODELS.build(name, {"rank": rank, **options}, sizes).double().eval()
    for table in model.parameters():
        nn.init.normal_(table)
    for buffer in model.buffers():
        if buffer.is_floating_point():
            nn.init.uniform_(buffer, 0.5, 1.5)  # a variance is positive
    return model


def packable() -> list[str]:
    """The models whose tables of entities an export can make small."""
    sizes = Sizes(entities=3, relations=2, times=2)
    return [name for name in MODELS.names() if MODELS.build(name, {"rank": 2}, sizes).entity_tables]


def collected(parameter: torch.nn.Parameter) -> torch.Tensor:
    """The gradient of a parameter, with zeros where there is none."""
    if isinstance(parameter, Table):
        return parameter.gradient()
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
