"""Every regularizer on every model it applies to: values and gradients against the literal sum over facts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from doubles import built, collected
from dura.models import MODELS, Model
from dura.regularizers import REGULARIZERS, Regularizer, Smoothness
from dura.tables.table import Table
from dura.types import BadInput, Factors, Sizes, Traits
from oracles import PENALTIES, ROWS, formula, literal_smoothness

SIZES = Sizes(entities=6, relations=3, times=3)
TIME = torch.tensor([2, 0, 2])
LAMBDAS = {"lambda1": 0.3, "lambda2": 1.9, "lambda3": 0.7, "lambda4": 1.1}
LAMBDAS |= {"threshold": 0.95, "strength": 0.8, "power": 2.25, "relation": 0.6, "ends": 0.4}
HEAD, RELATION = torch.tensor([0, 3, 3]), torch.tensor([1, 0, 1])
QUESTION, ANSWERS = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([3, 5, 0, 0, 4, 5])
WEIGHT = 0.7


def applicable() -> list[tuple[str, str]]:
    pairs = []
    for name, kind in REGULARIZERS.items():
        for model, model_kind in MODELS.items():
            traits = model_kind.traits()
            needs = {"temporal": kind.needs_time, "diagonal": kind.needs_diagonal, "apart": kind.needs_apart}
            needs["adjoint"] = kind.needs_adjoint
            if all(getattr(traits, what) for what, needed in needs.items() if needed):
                pairs.append((name, model))
    return pairs


def build(name: str) -> Regularizer:
    options = {"weight": WEIGHT} if name != "none" else {}
    return REGULARIZERS.build(name, options | {k: v for k, v in LAMBDAS.items() if k in REGULARIZERS.options(name)})


def factors(model: Model) -> Factors:
    return model.factors(HEAD, RELATION, QUESTION, ANSWERS, TIME if model.temporal else None)


def literal(name: str, model: str, state: dict[str, Tensor]) -> Tensor:
    rows, penalty = formula(ROWS, model), formula(PENALTIES, name)
    facts = [
        penalty(rows(state, int(HEAD[q]), int(RELATION[q]), int(a), int(TIME[q])), LAMBDAS)
        for q, a in zip(QUESTION, ANSWERS, strict=True)
    ]
    return WEIGHT * torch.stack(facts).sum() / len(facts)


@pytest.mark.parametrize(("name", "model"), applicable())
def test_values_and_gradients_equal_the_literal_formula(name: str, model: str) -> None:
    made = built(model, SIZES, rank=4)
    free = {key: table.detach().clone().requires_grad_() for key, table in made.named_parameters()}
    ours = build(name)(factors(made))
    expected = literal(name, model, made.state() | free)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    if name == "none":
        assert ours.item() == 0
        return
    if not (ours.requires_grad or expected.requires_grad):  # all that it sees is fixed, such as texts
        return
    ours.backward()
    expected.backward()
    for key, table in made.named_parameters():
        wanted = free[key].grad
        found = collected(table)
        torch.testing.assert_close(
            found, wanted if wanted is not None else torch.zeros_like(table), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize(("name", "model"), applicable())
def test_gradients_are_finite_at_zero(name: str, model: str) -> None:
    """A square root followed by a square would give NaN here."""
    made = built(model, SIZES, rank=4)
    for table in made.parameters():
        torch.nn.init.zeros_(table)
    penalty = build(name)(factors(made))
    if penalty.requires_grad:
        penalty.backward()
    assert all(bool(collected(table).isfinite().all()) for table in made.parameters())


def test_grouping_facts_by_question_changes_nothing() -> None:
    """The same facts one by one, each its own question, give the same penalty."""
    made = built("tcomplex", SIZES, rank=3)
    for name in REGULARIZERS:
        together = build(name)(factors(made))
        alone = build(name)(made.factors(HEAD[QUESTION], RELATION[QUESTION], torch.arange(6), ANSWERS, TIME[QUESTION]))
        torch.testing.assert_close(together, alone)


@pytest.mark.parametrize(
    ("name", "model", "sentence"),
    [
        (
            "n3",
            "rescal",
            "'n3' needs relations that act element by element, unlike those of 'rescal': use 'dura', 'fro' or",
        ),
        (
            "dura2",
            "trescal",
            "'dura2' needs relations that act element by element, unlike those of 'trescal': use 'dura1'",
        ),
        ("dura1", "complex", "'dura1' needs facts with times, and 'complex' is static: use 'dura'"),
        ("ivr", "rescal", "'ivr' needs relations that act element by element, unlike those of 'rescal': use 'dura'"),
        ("er", "rotate", "'er' needs a semantic matching model such as 'complex' or 'rescal', not 'rotate'"),
        ("dura2", "tntcomplex", "'dura2' would leave a part of the relations of 'tntcomplex' without any penalty"),
    ],
)
def test_not_applicable_is_refused_with_a_sentence(name: str, model: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        REGULARIZERS.build(name, {}).check(name, model, MODELS.get(model).traits())


def test_a_model_without_reverse_queries_has_no_dura() -> None:
    with pytest.raises(
        BadInput, match="'dura' needs a semantic matching model such as 'complex' or 'rescal', not 'mine'"
    ):
        REGULARIZERS.build("dura", {}).check("dura", "mine", Traits(diagonal=True))
    REGULARIZERS.build("fro", {}).check("fro", "mine", Traits())


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(BadInput, match="zero or more"):
        REGULARIZERS.build("dura", {"weight": -1.0})


DIAGONAL = [name for name in ("cp", "distmult", "complex", "tcomplex", "tntcomplex") if name in MODELS]


def same(model: str, one: Regularizer, other: Regularizer) -> None:
    """Two regularizers have the same value and the same gradients."""
    found = []
    for regularizer in (one, other):
        torch.manual_seed(3)
        made = built(model, SIZES, rank=4)
        value = regularizer(factors(made))
        value.backward()
        found.append([value.detach(), *(collected(table) for table in made.parameters())])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", DIAGONAL)
def test_dura_is_a_special_case_of_ivr_and_of_er(model: str) -> None:
    """IVR with squares and without n(r) and n(t∘h); ER with both signs in equal shares, by the law of the parallelogram."""
    dura = REGULARIZERS.build("dura", {"weight": 0.4, "lambda1": 0.3, "lambda2": 1.9})
    lambdas = {"weight": 0.4, "lambda1": 0.3, "lambda2": 1.9}
    same(model, REGULARIZERS.build("ivr", {**lambdas, "power": 2.0, "relation": 0.0, "ends": 0.0}), dura)
    same(model, REGULARIZERS.build("er", {**lambdas, "strength": 0.0}), dura)


@pytest.mark.parametrize("model", ["cp", "distmult", "complex", "tcomplex"])
def test_n3_and_fro_are_special_cases_of_ivr(model: str) -> None:
    for name, power in (("n3", 3.0), ("fro", 2.0)):
        ivr = REGULARIZERS.build("ivr", {"weight": 0.4, "lambda1": 1.0, "lambda2": 0.0, "power": power})
        same(model, ivr, REGULARIZERS.build(name, {"weight": 0.4}))


def test_er_of_a_full_matrix_is_not_dura() -> None:
    """It has t·R where DURA has t·Rᵀ; they differ unless the matrix is symmetric."""
    made = built("rescal", SIZES, rank=4)
    lambdas = {"weight": 0.4, "lambda1": 0.3, "lambda2": 1.9}
    er, dura = REGULARIZERS.build("er", {**lambdas, "strength": 0.0}), REGULARIZERS.build("dura", lambdas)
    assert not torch.isclose(er(factors(made)), dura(factors(made)))
    with torch.no_grad():
        made.relations.copy_(made.relations + made.relations.mT)  # type: ignore[operator]
    torch.testing.assert_close(er(factors(made)), dura(factors(made)))


def test_the_sign_of_er_follows_from_the_distance_of_the_ends() -> None:
    """‖hR − tR‖² for rows that are closer than unrelated ones, ‖hR + tR‖² for others; the scale of the rows does not matter."""
    made = built("distmult", SIZES, rank=2)
    made.requires_grad_(False)
    er = REGULARIZERS.build("er", {"weight": 1.0, "lambda1": 0.0, "lambda2": 1.0, "threshold": 1.0, "strength": 1.0})
    made.relations.fill_(1.0)  # type: ignore[operator]
    for scale in (1e-3, 1.0, 50.0):
        for tail, expected in (([1.0, 0.5], 0.25), ([-1.0, 0.5], 0.25), ([0.1, -2.0], 0.9**2 + 4)):
            made.entity[0] = scale * torch.tensor([1.0, 0.0]).double()  # type: ignore[operator]
            made.entity[1] = scale * torch.tensor(tail).double()  # type: ignore[operator]
            one = torch.tensor([0])
            found = er(made.factors(one, one, one, torch.tensor([1])))
            torch.testing.assert_close(float(found), scale**2 * expected, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9])
def test_er_below_full_strength_keeps_a_share_of_duras_bound(strength: float) -> None:
    """ER ≥ λ₁(…) + (1 − σ)·λ₂(…), so its least value is at least √(1 − σ) times that of DURA. At σ = 1 nothing is left."""
    for seed in range(5):
        torch.manual_seed(seed)
        made = built("cp", SIZES, rank=4)
        er = REGULARIZERS.build("er", {"weight": 1.0, "strength": strength})(factors(made))
        least = REGULARIZERS.build("dura", {"weight": 1.0, "lambda1": 1.0, "lambda2": 1 - strength})(factors(made))
        assert er >= least - 1e-9
    equal = built("distmult", SIZES, rank=4)
    with torch.no_grad():
        rows = equal.entity
        assert isinstance(rows, Table)
        rows.copy_(rows[:1].expand_as(rows) * 1e-6)
        equal.relations.mul_(1e12)  # type: ignore[operator]
    found, relations = REGULARIZERS.build("er", {"weight": 1.0, "strength": 1.0})(factors(equal)), equal.relations
    assert isinstance(relations, Table)
    assert float(found.detach()) < 1e-9 < float(relations.detach().abs().max())


@pytest.mark.parametrize(
    ("name", "option", "sentence"),
    [
        ("er", {"strength": 1.5}, "regularizer.strength is 1.5, but it is 0 to 1"),
        ("er", {"threshold": -1.0}, "regularizer.threshold is -1.0, but a distance is zero or more"),
        ("ivr", {"power": 1.5}, "regularizer.power is 1.5, but it is 2 to 10"),
        ("ivr", {"ends": -1.0}, "zero or more"),
    ],
)
def test_options_out_of_range_are_refused(name: str, option: dict[str, float], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        REGULARIZERS.build(name, option)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
@pytest.mark.parametrize(("shape", "parts"), [((5, 6), 2), ((5, 3), 1), ((4, 3, 3), 1)])
@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("chunk", [1, 12, 2**18])
def test_smoothness_is_its_literal_sum(
    p: int, shape: tuple[int, ...], parts: int, extra: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differences of neighbouring times, moduli over complex numbers; the row of "no time" is left out."""
    monkeypatch.setattr("dura.regularizers.smoothness.CHUNK", chunk)
    torch.manual_seed(p)
    start = torch.randn(shape[0] + extra, *shape[1:], dtype=torch.float64)
    table, free = Table(start.clone()), start.clone().requires_grad_()
    found = Smoothness(0.3, p)(table, shape[0], parts)
    literal = 0.3 * literal_smoothness(free[: shape[0]], p, over_complex=parts == 2)
    literal.backward()
    torch.testing.assert_close(found, literal.detach(), rtol=1e-12, atol=1e-12)
    assert free.grad is not None
    torch.testing.assert_close(table.gradient(), free.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("every", [2, 3, 9])
def test_smoothness_of_each_nth_pair_is_the_whole_sum_after_n_steps(p: int, every: int) -> None:
    """Each step looks at other pairs and touches no other rows; the mean over the steps is the sum over all pairs."""
    torch.manual_seed(every)
    start = torch.randn(8, 4, dtype=torch.float64)
    whole = Table(start.clone())
    expected = Smoothness(0.3, p)(whole, 7, 2)
    found, gradient, touched = [], torch.zeros_like(start), []
    for step in range(5 * every, 6 * every):
        table = Table(start.clone())
        found.append(Smoothness(0.3, p, every)(table, 7, 2, step))
        gradient += table.gradient() / every
        touched.append(set(table.gradient().any(1).nonzero().flatten().tolist()))
    torch.testing.assert_close(torch.stack(found).mean(), expected)
    torch.testing.assert_close(gradient, whole.gradient())
    assert all(len(rows) <= 2 * -(-6 // every) for rows in touched)
    assert set().union(*touched) == set(range(7))


def test_smoothness_that_looks_at_no_pair_is_refused() -> None:
    with pytest.raises(BadInput, match=r"smoothness.every is 0, but it is 1 or more"):
        Smoothness(1.0, 3, 0)


def test_smoothness_is_finite_where_neighbours_are_equal_and_nothing_for_one_time() -> None:
    table = Table(torch.ones(3, 4))
    for p in (2, 3, 4, 5):
        assert Smoothness(1.0, p)(table, 3, 2) == 0
        assert table.gradient().isfinite().all()
    assert Smoothness(1.0)(Table(torch.ones(1, 4)), 1, 2) == 0
    with pytest.raises(BadInput, match="2, 3, 4 or 5"):
        Smoothness(1.0, 6)
