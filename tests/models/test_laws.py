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
from oracles import literal_products, literal_relation, literal_score

SIZES = Sizes(entities=7, relations=3, times=4)
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


def times(model: Model, n: int) -> Tensor | None:
    """A time for each of n items where the model wants them."""
    return (torch.arange(n) * 5 + 1) % SIZES.times if model.temporal else None


def all_tables(model: Model) -> dict[str, Tensor]:
    return {key: table.detach() for key, table in model.named_parameters()}


def tables(model: Model) -> tuple[Tensor, Tensor, Tensor]:
    parameters = dict(model.named_parameters())
    return parameters["entity"], parameters["relations"], parameters.get("tail", parameters["entity"])


def target_rows(model: Model, entities: Tensor) -> Tensor:
    found = model.targets(entities)
    assert isinstance(found, Tensor)
    return found


def test_one_fact_equals_its_place_among_all_tails_equals_the_literal_formula(name: str) -> None:
    model = build(name)
    h, r, t = all_facts()
    heads, _, tails = tables(model)
    at = times(model, len(h))
    one = model.score(h, r, t, at)
    among_all = model.compare(model.query(h, r, at), model.targets())[torch.arange(len(t)), t]
    when = [0] * len(h) if at is None else at.tolist()
    literal = torch.stack(
        [
            literal_score(name, heads[i], literal_relation(name, all_tables(model), j, when[n]), tails[k])
            for n, (i, j, k) in enumerate(zip(h.tolist(), r.tolist(), t.tolist(), strict=True))
        ]
    )
    torch.testing.assert_close(one, literal, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(among_all, literal, rtol=1e-12, atol=1e-12)


def test_query_and_reverse_agree(name: str) -> None:
    """<query(h, r), t> = <h, reverse(t, r)>: both directions of one relation are adjoint."""
    model = build(name)
    h, r, t = all_facts()
    at = times(model, len(h))
    forward = (model.query(h, r, at) * target_rows(model, t)).sum(1)
    backward = (model.heads(h) * model.reverse(t, r, at)).sum(1)
    torch.testing.assert_close(forward, backward, rtol=1e-12, atol=1e-12)


def test_query_and_reverse_are_the_papers_products(name: str) -> None:
    model = build(name)
    heads, _, tails = tables(model)
    for i, j, k, time in [(0, 0, 1, 0), (3, 5, 3, 3), (6, 2, 0, 2)]:
        query, reverse = literal_products(name, heads[i], literal_relation(name, all_tables(model), j, time), tails[k])
        h, r, t, at = (torch.tensor([one]) for one in (i, j, k, time))
        when = at if model.temporal else None
        for ours, theirs in ((model.query(h, r, when)[0], query), (model.reverse(t, r, when)[0], reverse)):
            as_reals = torch.view_as_real(theirs).flatten() if theirs.is_complex() else theirs
            torch.testing.assert_close(ours, as_reals, rtol=1e-12, atol=1e-12)


def test_gradients_of_scores_equal_those_of_the_literal_formula(name: str) -> None:
    """Also with repeated rows, whose gradients must add up."""
    model = build(name)
    h, r, t = torch.tensor([0, 2, 2, 6]), torch.tensor([1, 4, 4, 1]), torch.tensor([2, 2, 0, 0])
    weight = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    at = torch.tensor([3, 1, 1, 3]) if model.temporal else None
    (model.score(h, r, t, at) @ weight).backward()
    ours = {key: table.grad for key, table in model.named_parameters()}
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}
    tail_table = free.get("tail", free["entity"])
    literal = [
        literal_score(name, free["entity"][i], literal_relation(name, free, j, time), tail_table[k])
        for i, j, k, time in zip(h.tolist(), r.tolist(), t.tolist(), (3, 1, 1, 3), strict=True)
    ]
    (torch.stack(literal) @ weight).backward()
    for key, table in free.items():
        torch.testing.assert_close(ours[key], table.grad, rtol=1e-11, atol=1e-11)


def test_factors_hold_what_they_say(name: str) -> None:
    model = build(name)
    head, relation = torch.tensor([1, 4, 0]), torch.tensor([2, 0, 2])
    question, answers = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([3, 5, 1, 0, 6, 2])
    at = times(model, 3)
    f = model.factors(head, relation, question, answers, at)
    assert f.facts == 6
    assert f.counts.tolist() == [2, 1, 3]
    torch.testing.assert_close(f.query, model.query(head, relation, at))
    torch.testing.assert_close(f.head, model.heads(head))
    torch.testing.assert_close(f.tail, target_rows(model, answers))
    each = None if at is None else at[question]
    torch.testing.assert_close(f.reverse, model.reverse(answers, relation[question], each))
    if model.temporal:  # one row a pair of relation and time: (0, 2), (2, 1), (2, 3)
        rows = [literal_relation(name, all_tables(model), r, t) for r, t in ((0, 2), (2, 1), (2, 3))]
        torch.testing.assert_close(sum(f.relation), torch.stack(rows))
        assert len(f.relation) == (2 if name == "tntcomplex" else 1)
        assert f.relation_counts.tolist() == [1, 2, 3]
    else:
        torch.testing.assert_close(f.relation, (tables(model)[1][[0, 2]],))
        assert f.relation_counts.tolist() == [1, 5]
    short = f.read_tail_squares(0.3, 2.0)
    assert short is None or torch.isclose(short, 0.3 * f.tail.square().sum() + 2 * f.reverse.square().sum())


def test_factors_are_freed_at_once(name: str) -> None:
    """No cycle of references: a batch's rows must not wait for the garbage collector."""
    ids = torch.tensor([0, 1])
    gc.disable()
    try:
        model = build(name)
        f = model.factors(ids, ids, ids, ids, ids if model.temporal else None)
        rows = [weakref.ref(tensor) for tensor in (f.query, f.tail, f.reverse, f.relation[0])]
        del f
        assert all(row() is None for row in rows)
    finally:
        gc.enable()


def test_tables_have_the_sizes_of_the_graph(name: str) -> None:
    model = build(name)
    entity, relations, tail_table = tables(model)
    width = 2 * RANK if name.endswith("complex") else RANK
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
