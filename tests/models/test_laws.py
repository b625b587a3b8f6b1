"""Laws that hold for every row of MODELS, also for those of other packages. A new row is tested without a new test.

The literal formulas are in `oracles.SCORES` and `oracles.ROWS`. Laws of training, ranking and run folders are in
tests/training/test_model_laws.py.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from doubles import built, collected, known, law_models
from dura.models import MODELS, Model, SemanticMatching, adopt, restore
from dura.tables import Table
from dura.types import BadInput, Sizes
from oracles import ROWS, SCORES, formula, literal_relation, tail_table

SIZES = Sizes(entities=7, relations=3, times=4)
RANK = 4
SEMANTIC = [name for name, kind in MODELS.items() if issubclass(kind, SemanticMatching)]
ADJOINT = [name for name, kind in MODELS.items() if kind.adjoint]
HEAD, RELATION = torch.tensor([1, 4, 0]), torch.tensor([2, 0, 2])
QUESTION, ANSWERS = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([3, 5, 1, 0, 6, 2])


@pytest.fixture(params=law_models())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return known(str(request.param), monkeypatch)


def build(name: str, seed: int = 5) -> Model:
    return built(name, SIZES, RANK, seed)


def all_facts() -> tuple[Tensor, Tensor, Tensor]:
    grid = itertools.product(range(SIZES.entities), range(2 * SIZES.relations), range(SIZES.entities))
    h, r, t = torch.tensor(list(grid)).unbind(1)
    return h, r, t


def times(model: Model, n: int) -> Tensor | None:
    """A time for each of n items where the model wants them."""
    return (torch.arange(n) * 5 + 1) % SIZES.times if model.temporal else None


def literal_scores(name: str, state: dict[str, Tensor], h: Tensor, r: Tensor, t: Tensor, at: Tensor | None) -> Tensor:
    score = formula(SCORES, name)
    when = torch.zeros_like(h) if at is None else at
    facts = zip(h.tolist(), r.tolist(), t.tolist(), when.tolist(), strict=True)
    return torch.stack([score(state, *fact) for fact in facts])


def target_rows(model: Model, entities: Tensor) -> Tensor:
    found = model.targets(entities)
    assert isinstance(found, Tensor)
    return found


# -- every model --------------------------------------------------------------------------------------------------------


def test_one_fact_equals_its_place_among_all_tails_equals_the_literal_formula(name: str) -> None:
    model = build(name)
    h, r, t = all_facts()
    at, place = times(model, len(h)), torch.arange(len(h))
    literal = literal_scores(name, model.state(), h, r, t, at)
    with model.answering():
        torch.testing.assert_close(model.score(h, r, t, at), literal, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.score_all(h, r, at)[place, t], literal, rtol=1e-12, atol=1e-12)


def test_compare_gives_each_question_the_scores_of_its_own_targets(name: str) -> None:
    """Also if the targets depend on the relation or the time, and if the caller brings the memory."""
    model = build(name)
    h, r, _ = (ids[::7] for ids in all_facts())
    at = times(model, len(h))
    with model.answering():
        every, query = model.score_all(h, r, at), model.query(h, r, at)
        for i in range(len(h)) if model.grouped_by else [0]:
            own = slice(i, i + 1) if model.grouped_by else slice(None)
            time = None if at is None else at[i : i + 1]
            targets = model.targets(None, r[i : i + 1], time)
            room = torch.full((len(query[own]), SIZES.entities), torch.nan).double()
            torch.testing.assert_close(model.compare(query[own], targets), every[own], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(model.compare(query[own], targets, out=room), every[own], rtol=1e-12, atol=1e-12)


def test_gradients_of_scores_equal_those_of_the_literal_formula(name: str) -> None:
    """Also with repeated rows, whose gradients must add up."""
    model = build(name)
    h, r, t = torch.tensor([0, 2, 2, 6]), torch.tensor([1, 4, 4, 1]), torch.tensor([2, 2, 0, 0])
    weight = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    at = torch.tensor([3, 1, 1, 3]) if model.temporal else None
    (model.score(h, r, t, at) @ weight).backward()
    free = {key: table.detach().clone().requires_grad_() for key, table in model.named_parameters()}
    (literal_scores(name, model.state() | free, h, r, t, at) @ weight).backward()
    for key, table in model.named_parameters():
        wanted = free[key].grad
        ours, expected = collected(table), torch.zeros_like(table) if wanted is None else wanted
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-11)


def test_factors_hold_what_they_say(name: str) -> None:
    model = build(name)
    at = times(model, 3)
    f = model.factors(HEAD, RELATION, QUESTION, ANSWERS, at)
    assert f.facts == 6
    assert f.counts.tolist() == [2, 1, 3]
    torch.testing.assert_close(f.query, model.query(HEAD, RELATION, at))
    read, state = formula(ROWS, name), model.state()
    rows = [
        read(state, int(HEAD[q]), int(RELATION[q]), int(a), 0 if at is None else int(at[q]))
        for q, a in zip(QUESTION, ANSWERS, strict=True)
    ]
    torch.testing.assert_close(f.head[QUESTION], torch.stack([row.h for row in rows]))
    torch.testing.assert_close(f.tail, torch.stack([row.t for row in rows]))
    assert f.complex == rows[0].complex
    assert len(f.relation) == len(rows[0].r)
    assert int(f.relation_counts.sum()) == 6
    for part, literal in zip(f.relation, zip(*(row.r for row in rows), strict=True), strict=True):
        shown = torch.repeat_interleave(part, f.relation_counts.long(), dim=0).flatten(1)
        wanted = torch.stack(literal).flatten(1)
        torch.testing.assert_close(shown[shown[:, 0].argsort()], wanted[wanted[:, 0].argsort()])


def test_factors_are_freed_at_once(name: str) -> None:
    """No cycle of references: a batch's rows must not wait for the garbage collector."""
    ids = torch.tensor([0, 1])
    gc.disable()
    try:
        model = build(name)
        f = model.factors(ids, ids, ids, ids, ids if model.temporal else None)
        tensors = [f.query, f.tail, *f.relation, *([f.reverse] if model.adjoint else [])]
        rows = [weakref.ref(tensor) for tensor in tensors]
        del f, tensors
        assert all(row() is None for row in rows)
    finally:
        gc.enable()


@pytest.mark.parametrize("give", [adopt, restore])
def test_a_model_with_the_state_of_another_gives_its_scores(
    name: str, give: Callable[[Model, dict[str, Tensor]], None]
) -> None:
    """Buffers are part of the state; tables stay tables, whose gradient is collected in place."""
    one, other = build(name), build(name, seed=6)
    h, r, t = all_facts()
    at = times(one, len(h))
    state = {key: tensor.clone() for key, tensor in one.state().items()}
    assert state.keys() == {key for key, _ in (*one.named_parameters(), *one.named_buffers())}
    with one.answering(), other.answering():
        assert not torch.equal(one.score(h, r, t, at), other.score(h, r, t, at))
        give(other, state)
        assert torch.equal(one.score(h, r, t, at), other.score(h, r, t, at))
    assert other.state().keys() == state.keys()
    assert all(torch.equal(tensor, state[key]) for key, tensor in other.state().items())
    kinds = ({key: type(tensor) for key, tensor in model.named_parameters()} for model in (one, other))
    assert next(kinds) == next(kinds)


def test_answers_are_those_of_evaluation_mode_and_leave_the_mode_as_it_was(name: str) -> None:
    model = build(name)
    h, r, t = all_facts()
    at = times(model, len(h))
    with model.answering():
        expected, state = model.score(h, r, t, at), {key: tensor.clone() for key, tensor in model.state().items()}
    for training in (True, False):
        model.train(training)
        with model.answering():
            assert not torch.is_grad_enabled() and not any(part.training for part in model.modules())
            assert torch.equal(model.score(h, r, t, at), expected)
        assert torch.is_grad_enabled() and all(part.training is training for part in model.modules())
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state().items())


def test_a_rank_that_makes_no_sense_is_refused(name: str) -> None:
    for rank in (0, -1, 1_000_000):
        with pytest.raises(BadInput, match=f"model.rank is {rank}, but an embedding has 1 to"):
            MODELS.build(name, {"rank": rank}, SIZES)


def test_tables_that_an_export_may_pack_are_tables_of_the_entities(name: str) -> None:
    model = build(name)
    for key, table in model.entity_tables.items():
        assert isinstance(table, Table) and len(table) == SIZES.entities
        assert getattr(model, key) is table and key in model.state()


def test_only_a_model_with_an_adjoint_has_reverse_queries(name: str) -> None:
    model, ids = build(name), torch.tensor([0, 1])
    time = ids if model.temporal else None
    if model.adjoint:
        assert model.reverse(ids, ids, time).shape == model.query(ids, ids, time).shape
    else:
        with pytest.raises(BadInput, match="has none"):
            model.reverse(ids, ids, time)


def test_a_model_without_a_literal_formula_fails_with_a_sentence_that_says_where_to_write_it() -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"'mine' has no literal formula: write oracles.SCORES\['mine'\], in"
    ):
        formula(SCORES, "mine")


# -- models with an adjoint ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ADJOINT)
def test_query_and_reverse_agree(name: str) -> None:
    """<query(h, r), t> = <h, reverse(t, r)>: both directions of one relation are adjoint."""
    model = build(name)
    h, r, t = all_facts()
    at = times(model, len(h))
    forward = (model.query(h, r, at) * target_rows(model, t)).sum(1)
    backward = (model.heads(h) * model.reverse(t, r, at)).sum(1)
    torch.testing.assert_close(forward, backward, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ADJOINT)
def test_query_and_reverse_are_the_literal_products(name: str) -> None:
    model = build(name)
    for i, j, k, time in [(0, 0, 1, 0), (3, 5, 3, 3), (6, 2, 0, 2)]:
        products = formula(ROWS, name)(model.state(), i, j, k, time).products
        assert products is not None
        h, r, t, at = (torch.tensor([one]) for one in (i, j, k, time))
        when = at if model.temporal else None
        f = model.factors(h, r, torch.tensor([0]), t, when)
        for ours, theirs in zip((model.query(h, r, when)[0], model.reverse(t, r, when)[0]), products, strict=True):
            as_reals = torch.view_as_real(theirs).flatten() if theirs.is_complex() else theirs
            torch.testing.assert_close(ours, as_reals, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(f.reverse, model.reverse(t, r, when))
        short = f.read_tail_squares(0.3, 2.0)
        assert short is None or torch.isclose(short, 0.3 * f.tail.square().sum() + 2 * f.reverse.square().sum())


# -- semantic matching models, whose tables have names ------------------------------------------------------------------


@pytest.mark.parametrize("name", SEMANTIC)
def test_tables_have_the_sizes_of_the_graph(name: str) -> None:
    model = build(name)
    state = model.state()
    width = 2 * RANK if name.endswith("complex") else RANK
    assert state["entity"].shape == tail_table(state).shape == (7, width)
    assert len(state["relations"]) == 2 * SIZES.relations
    assert (model.target_table is model.entity) == (name != "cp")


@pytest.mark.parametrize("name", [name for name in SEMANTIC if MODELS.get(name).temporal])
def test_relations_of_dated_facts_occur_once_per_pair_of_relation_and_time(name: str) -> None:
    model = build(name)
    f = model.factors(HEAD, RELATION, QUESTION, ANSWERS, times(model, 3))
    rows = [literal_relation(name, model.state(), r, t) for r, t in ((0, 2), (2, 1), (2, 3))]
    torch.testing.assert_close(sum(f.relation), torch.stack(rows))
    assert f.relation_counts.tolist() == [1, 2, 3]
    assert len(f.relation) == (2 if name == "tntcomplex" else 1)


@pytest.mark.parametrize(("model", "scale"), [("cp", 1e-3), ("distmult", 1e-3), ("complex", 1e-3)])
def test_diagonal_models_start_from_a_small_normal(model: str, scale: float) -> None:
    torch.manual_seed(0)
    started = MODELS.build(model, {"rank": 200}, Sizes(500, 20))
    for table in started.parameters():
        assert table.std().item() == pytest.approx(scale, rel=0.03)


def test_rescal_starts_by_xaviers_rule() -> None:
    """Uniform within ±√(6 / (rows + columns)), a relation being one row of d² numbers."""
    torch.manual_seed(0)
    started = dict(MODELS.build("rescal", {"rank": 30}, Sizes(500, 20)).named_parameters())
    assert started["entity"].abs().max().item() == pytest.approx((6 / 530) ** 0.5, rel=0.01)
    assert started["relations"].abs().max().item() == pytest.approx((6 / 940) ** 0.5, rel=0.01)
