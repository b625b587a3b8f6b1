"""Terms: relations and times as holes, groups of questions that share their targets, computed targets, and their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dura.data.questions import Questions
from dura.models import L1, MODELS, Model, SquaredL2
from dura.objectives import All, Candidates, MarginRanking, Negatives, Sample, Softmax, objective_of
from dura.objectives.terms import Hole
from dura.tables import Table
from dura.types import BadInput, Sizes
from oracles import SEMANTIC, literal_relation, literal_score

SIZES = Sizes(entities=6, relations=2, times=3)
FACTS = np.array([[0, 0, 1, 0], [0, 0, 2, 0], [3, 1, 4, 2], [5, 1, 0, 1], [2, 0, 1, 2]])


def questions(temporal: bool) -> Questions:
    return Questions.of(FACTS if temporal else np.unique(FACTS[:, :3], axis=0), relations=2)


def facts_of(batch: Questions) -> list[tuple[int, int, int, int]]:
    each = batch.one_by_one()
    time = each.time if each.time is not None else np.zeros(len(each), dtype=int)
    return list(zip(each.head.tolist(), each.relation.tolist(), each.answers.tolist(), time.tolist(), strict=True))


def stepped(
    model: Model,
    weights: dict[Hole, float],
    candidates: Candidates | None = None,
    share: float = 1.0,
    seed: int = 4,
) -> float:
    """The loss of one batch, with all gradients collected in the tables."""
    batch = questions(model.temporal)
    ids = [torch.as_tensor(column).long() for column in (batch.head, batch.relation, batch.time) if column is not None]
    objective = objective_of(weights, Softmax(), candidates or All(), share)
    objective.prepare(batch, model)
    loss, carrier = objective(model, model.query(*ids), batch, seed)
    if carrier.requires_grad:
        carrier.backward()
    return float(loss)


@pytest.mark.parametrize("name", [n for n in SEMANTIC if n != "tntcomplex"])
@pytest.mark.parametrize("hole", ["relations", "times"])
def test_a_hole_that_is_no_entity_equals_the_literal_softmax(name: str, hole: Hole) -> None:
    torch.manual_seed(0)
    model = MODELS.build(name, {"rank": 3, "init_scale": 1.0}, SIZES).double()
    if hole == "times" and not model.temporal:
        assert hole not in model.holes
        return
    loss = stepped(model, {"tails": 0.0, hole: 0.7})
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}
    tails, literal = free.get("tail", free["entity"]), torch.zeros(()).double()
    facts = facts_of(questions(model.temporal))
    for h, r, t, time in facts:
        places = [(other, time) for other in range(4)] if hole == "relations" else [(r, other) for other in range(3)]
        scores = torch.stack(
            [literal_score(name, free["entity"][h], literal_relation(name, free, *place), tails[t]) for place in places]
        )
        literal = literal - 0.7 * torch.log_softmax(scores, 0)[r if hole == "relations" else time] / len(facts)
    literal.backward()
    assert loss == pytest.approx(literal.item(), rel=1e-10)
    for key, table in model.named_parameters():
        assert isinstance(table, Table)
        torch.testing.assert_close(table.gradient(), free[key].grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("hole", ["relations", "times"])
def test_the_precision_of_products_holds_for_all_holes(hole: Hole) -> None:
    """Products of a lower precision give nearly the same loss and gradients, but not the same to the last digit."""
    found = []
    for low in (None, torch.bfloat16):
        torch.manual_seed(0)
        model = MODELS.build("tcomplex", {"rank": 8, "init_scale": 1.0}, SIZES)
        candidates = All()
        candidates.product_type = low
        loss = stepped(model, {"tails": 0.0, hole: 0.7}, candidates)
        tables = [table for table in model.parameters() if isinstance(table, Table)]
        found.append((torch.tensor(loss), *(table.gradient() for table in tables)))
    for exact, rounded in zip(*found, strict=True):
        assert (exact - rounded).norm() <= 0.03 * exact.norm()
    assert any(not torch.equal(exact, rounded) for exact, rounded in zip(*found, strict=True))


def test_times_of_tntcomplex_leave_out_what_all_times_share() -> None:
    torch.manual_seed(0)
    model = MODELS.build("tntcomplex", {"rank": 3, "init_scale": 1.0}, SIZES).double()
    loss = stepped(model, {"tails": 0.0, "times": 1.0})
    tables, total = {key: table.detach() for key, table in model.named_parameters()}, 0.0
    facts = facts_of(questions(temporal=True))
    for h, r, t, time in facts:
        entity = tables["entity"]
        scores = [
            literal_score("tntcomplex", entity[h], literal_relation("tntcomplex", tables, r, k), entity[t])
            for k in range(3)
        ]
        total -= float(torch.log_softmax(torch.stack(scores), 0)[time]) / len(facts)
    assert loss == pytest.approx(total, rel=1e-10)
    assert model.holes == ("times",)


def test_terms_add_up_with_their_weights() -> None:
    torch.manual_seed(0)
    model = MODELS.build("complex", {"rank": 3, "init_scale": 1.0}, SIZES).double()
    tails, relations = stepped(model, {"tails": 1.0}), stepped(model, {"tails": 0.0, "relations": 1.0})
    assert stepped(model, {"tails": 2.0, "relations": 0.25}) == pytest.approx(2 * tails + 0.25 * relations)


@pytest.mark.parametrize(("name", "hole"), [("complex", "relations"), ("tcomplex", "times")])
def test_a_share_of_the_facts_stands_for_all_of_them(name: str, hole: Hole) -> None:
    """The mean of many draws is the loss over all facts, and so are the gradients; one draw follows from its seed."""
    torch.manual_seed(0)
    model = MODELS.build(name, {"rank": 3, "init_scale": 1.0}, SIZES).double()
    whole = stepped(model, {"tails": 0.0, hole: 0.7})
    tables = [table for table in model.parameters() if isinstance(table, Table)]
    slopes = [table.gradient().clone() for table in tables]
    for table in tables:
        table.forget()
    draws = [stepped(model, {"tails": 0.0, hole: 0.7}, share=0.3, seed=seed) for seed in range(600)]
    assert np.std(draws) > 0
    assert np.mean(draws) == pytest.approx(whole, abs=4 * np.std(draws) / np.sqrt(len(draws)))
    for table, slope in zip(tables, slopes, strict=True):
        torch.testing.assert_close(table.gradient() / len(draws), slope, rtol=0.2, atol=0.1 * float(slope.abs().max()))
    assert stepped(model, {"tails": 0.0, hole: 0.7}, share=0.3, seed=5) == draws[5]


class Moved(Model):
    """−‖h + r − (t + m_r + n_τ)‖²: targets depend on the relation, on the time, or on both."""

    def __init__(self, sizes: Sizes, by: tuple[Any, ...] = ("relation",)) -> None:
        super().__init__(sizes, rank=3)
        self.grouped_by, self.temporal = by, "time" in by  # type: ignore[misc]
        self.comparator = SquaredL2()
        self.entity = Table(torch.randn(sizes.entities, 3).double())
        self.relations = Table(torch.randn(2 * sizes.relations, 3).double())
        self.move = torch.nn.Parameter(torch.randn(2 * sizes.relations, 3).double())
        self.shift = torch.nn.Parameter(torch.randn(max(1, sizes.times), 3).double())

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        return self.entity.read(head) + self.relations.read(relation)

    def targets(
        self, entities: Tensor | None = None, relation: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        rows = self.entity.read(torch.arange(self.sizes.entities) if entities is None else entities)
        if "relation" in self.grouped_by:
            assert relation is not None
            rows = rows + self.move[relation]
        if "time" in self.grouped_by:
            assert time is not None
            rows = rows + self.shift[time]
        return rows


GROUPS: list[tuple[Any, ...]] = [("relation",), ("time",), ("relation", "time"), ()]
EACH = [(by, candidates) for by in GROUPS for candidates in (All(), All(1), Sample(4))]


@pytest.mark.parametrize(("by", "candidates"), [*EACH, ((), Negatives(3))])  # groups would draw other negatives
def test_targets_that_are_computed_or_depend_on_the_question(by: tuple[Any, ...], candidates: Candidates) -> None:
    torch.manual_seed(0)
    model = Moved(SIZES, by)
    batch = questions(model.temporal)
    loss = stepped(model, {"tails": 1.0}, candidates)
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}

    def score(h: int, r: int, t: int, time: int) -> Tensor:
        target = free["entity"][t]
        target = target + free["move"][r] if "relation" in by else target
        target = target + free["shift"][time] if "time" in by else target
        return -((free["entity"][h] + free["relations"][r] - target) ** 2).sum()

    literal, facts = torch.zeros(()).double(), facts_of(batch)
    answers = {(h, r, time): {t for a, b, t, c in facts if (a, b, c) == (h, r, time)} for h, r, _, time in facts}
    for place, (h, r, t, time) in enumerate(facts):
        own, mine = score(h, r, t, time), answers[h, r, time]
        if isinstance(candidates, Negatives):
            ids, out = candidates.drawn(batch, 4)
            rivals = [score(h, r, e, time) for e in ids[place][~out[place]].tolist()]
            mass = torch.stack([own, *rivals]).exp().sum()
        elif isinstance(candidates, Sample):
            rest = [score(h, r, e, time).exp() * 6 / 4 for e in candidates.drawn(4)[0].tolist() if e not in mine]
            mass = torch.stack([*(score(h, r, e, time).exp() for e in mine), *rest]).sum()
        else:
            mass = torch.stack([score(h, r, e, time) for e in range(6)]).exp().sum()
        literal = literal + (mass.log() - own) / len(facts)
    literal.backward()
    assert loss == pytest.approx(literal.item(), rel=1e-10)
    for key, table in model.named_parameters():
        ours = table.gradient() if isinstance(table, Table) else table.grad
        expected = free[key].grad
        torch.testing.assert_close(
            torch.zeros_like(table) if ours is None else ours,
            torch.zeros_like(table) if expected is None else expected,
            rtol=1e-9, atol=1e-11,
        )  # fmt: skip


def test_scores_of_all_entities_are_those_of_each_fact() -> None:
    torch.manual_seed(0)
    for by in (("relation",), ("time",), ("relation", "time"), ()):
        model = Moved(SIZES, by)
        head, relation, time = torch.tensor([0, 3, 5, 0]), torch.tensor([1, 0, 1, 3]), torch.tensor([2, 2, 0, 1])
        with model.answering():
            every = model.score_all(head, relation, time)
            for t in range(6):
                one = model.score(head, relation, torch.full_like(head, t), time)
                torch.testing.assert_close(every[:, t], one)


def test_a_model_must_not_override_compare() -> None:
    with pytest.raises(TypeError, match="Own overrides compare, which training does not call: set `comparator`"):

        class Own(Moved):
            def compare(self, query: Tensor, targets: Any, out: Tensor | None = None) -> Tensor:
                return L1().scores(query, targets, out)


def test_weights_and_combinations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="terms.relations is -1.0, but a weight is zero or more"):
        objective_of({"relations": -1.0}, Softmax(), All())
    with pytest.raises(BadInput, match="nothing to train"):
        objective_of({"tails": 0.0}, Softmax(), All())
    with pytest.raises(BadInput, match="it is not defined for candidates.name = 'all'"):
        objective_of({"tails": 1.0}, MarginRanking(), All())
