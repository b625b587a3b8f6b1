"""Laws that hold for every row of MODELS; a new row is tested without a new test."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
from torch import Tensor

from dura.models import MODELS, Model
from dura.types import Sizes
from oracles import literal_products, literal_score

SIZES = Sizes(entities=7, relations=3)
RANK = 4


@pytest.fixture(params=MODELS.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build(name: str) -> Model:
    """A model in float64 with tables far from zero, so that a wrong sign shows."""
    torch.manual_seed(5)
    model = MODELS.build(name, {"rank": RANK}, SIZES).double()
    for table in model.parameters():
        torch.nn.init.normal_(table)
    return model


def all_facts() -> tuple[Tensor, Tensor, Tensor]:
    grid = itertools.product(range(SIZES.entities), range(2 * SIZES.relations), range(SIZES.entities))
    h, r, t = torch.tensor(list(grid)).unbind(1)
    return h, r, t


def tables(model: Model) -> tuple[Tensor, Tensor, Tensor]:
    parameters = dict(model.named_parameters())
    return parameters["entity"], parameters["relations"], model.tail_table


def test_one_fact_equals_its_place_among_all_tails_equals_the_literal_formula(name: str) -> None:
    model = build(name)
    h, r, t = all_facts()
    heads, relations, tails = tables(model)
    one = model.score(h, r, t)
    among_all = model.compare(model.query(h, r), model.tails())[torch.arange(len(t)), t]
    literal = torch.stack(
        [literal_score(name, heads[i], relations[j], tails[k]) for i, j, k in zip(h, r, t, strict=True)]
    )
    torch.testing.assert_close(one, literal, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(among_all, literal, rtol=1e-12, atol=1e-12)


def test_query_and_reverse_agree(name: str) -> None:
    """<query(h, r), t> = <h, reverse(t, r)>: both directions of one relation are adjoint."""
    model = build(name)
    h, r, t = all_facts()
    forward = (model.query(h, r) * model.tails(t)).sum(1)
    backward = (model.heads(h) * model.reverse(t, r)).sum(1)
    torch.testing.assert_close(forward, backward, rtol=1e-12, atol=1e-12)


def test_query_and_reverse_are_the_papers_products(name: str) -> None:
    model = build(name)
    heads, relations, tails = tables(model)
    for i, j, k in [(0, 0, 1), (3, 5, 3), (6, 2, 0)]:
        query, reverse = literal_products(name, heads[i], relations[j], tails[k])
        for ours, theirs in (
            (model.query(torch.tensor([i]), torch.tensor([j]))[0], query),
            (model.reverse(torch.tensor([k]), torch.tensor([j]))[0], reverse),
        ):
            as_reals = torch.view_as_real(theirs).flatten() if theirs.is_complex() else theirs
            torch.testing.assert_close(ours, as_reals, rtol=1e-12, atol=1e-12)


def test_gradients_of_scores_equal_those_of_the_literal_formula(name: str) -> None:
    """Also with repeated rows, whose gradients must add up."""
    model = build(name)
    h, r, t = torch.tensor([0, 2, 2, 6]), torch.tensor([1, 4, 4, 1]), torch.tensor([2, 2, 0, 0])
    weight = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    (model.score(h, r, t) @ weight).backward()
    ours = {key: table.grad for key, table in model.named_parameters()}
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}
    tail_table = free["entity"] if "answer" not in free else free["answer"]
    literal = [
        literal_score(name, free["entity"][i], free["relations"][j], tail_table[k])
        for i, j, k in zip(h, r, t, strict=True)
    ]
    (torch.stack(literal) @ weight).backward()
    for key, table in free.items():
        torch.testing.assert_close(ours[key], table.grad, rtol=1e-11, atol=1e-11)


def test_factors_hold_what_they_say(name: str) -> None:
    model = build(name)
    head, relation = torch.tensor([1, 4, 0]), torch.tensor([2, 0, 2])
    question, answers = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([3, 5, 1, 0, 6, 2])
    f = model.factors(head, relation, question, answers)
    assert f.facts == 6
    assert f.counts.tolist() == [2, 1, 3]
    torch.testing.assert_close(f.query, model.query(head, relation))
    torch.testing.assert_close(f.head, model.heads(head))
    torch.testing.assert_close(f.tail, model.tails(answers))
    torch.testing.assert_close(f.reverse, model.reverse(answers, relation[question]))
    _, relations, _ = tables(model)
    torch.testing.assert_close(f.relation, relations[[0, 2]])
    assert f.relation_counts.tolist() == [1, 5]


def test_factors_are_freed_at_once(name: str) -> None:
    """No cycle of references: a batch's rows must not wait for the garbage collector."""
    ids = torch.tensor([0, 1])
    gc.disable()
    try:
        f = build(name).factors(ids, ids, ids, ids)
        rows = [weakref.ref(tensor) for tensor in (f.query, f.tail, f.reverse, f.relation)]
        del f
        assert all(row() is None for row in rows)
    finally:
        gc.enable()


def test_tables_have_the_sizes_of_the_graph(name: str) -> None:
    model = build(name)
    entity, relations, tail_table = tables(model)
    width = 2 * RANK if name == "complex" else RANK
    assert entity.shape == tail_table.shape == (7, width)
    assert relations.shape[0] == 2 * SIZES.relations
    assert (tail_table is entity) == (name != "cp")


@pytest.mark.parametrize(("model", "scale"), [("cp", 1e-3), ("distmult", 1e-3), ("complex", 1e-3)])
def test_diagonal_models_start_from_a_small_normal(model: str, scale: float) -> None:
    torch.manual_seed(0)
    built = MODELS.build(model, {"rank": 200}, Sizes(500, 20))
    for table in built.parameters():
        assert table.std().item() == pytest.approx(scale, rel=0.03)


def test_rescal_starts_by_xaviers_rule() -> None:
    """Uniform within ±√(6 / (rows + columns)), a relation being one row of d² numbers."""
    torch.manual_seed(0)
    built = dict(MODELS.build("rescal", {"rank": 30}, Sizes(500, 20)).named_parameters())
    assert built["entity"].abs().max().item() == pytest.approx((6 / 530) ** 0.5, rel=0.01)
    assert built["relations"].abs().max().item() == pytest.approx((6 / 940) ** 0.5, rel=0.01)
