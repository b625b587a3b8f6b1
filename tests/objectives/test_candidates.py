"""Softmax over all entities, over a sample and over negatives equals the literal formula, values and gradients."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.questions import Questions
from dura.objectives import All, Candidates, Loss, MarginRanking, Negatives, Sample, Softmax, objective_of
from dura.objectives.candidates import LARGEST, SMALLEST
from dura.tables.table import Table
from dura.types import BadInput
from oracles import literal_cross_entropy, literal_weights
from plain import Plain, asked

UNUSED: Any = None


def measured(
    candidates: Candidates,
    loss: Loss,
    query: torch.Tensor,
    table: Table,
    offsets: list[int],
    answers: np.ndarray[Any, Any],
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of a batch and its gradient by the query; that by the targets is added to the table."""
    model, batch = Plain(table), asked(offsets, answers)
    objective = objective_of({"tails": 1.0}, loss, candidates)
    objective.prepare(batch, model)
    live = query.detach().requires_grad_()
    value, carrier = objective(model, live, batch, seed)
    carrier.backward()
    assert live.grad is not None
    return value, live.grad


@settings(max_examples=60)
@given(
    questions=st.integers(1, 9),
    entities=st.integers(2, 13),
    block=st.integers(0, 10),
    w0=st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    scale=st.sampled_from([1e-3, 1.0, 40.0]),
    seed=st.integers(0, 10_000),
)
def test_equals_the_literal_formula(
    questions: int, entities: int, block: int, w0: float, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    answers = [rng.choice(entities, rng.integers(1, entities), replace=False) for _ in range(questions)]
    flat = np.concatenate(answers)
    offsets = np.cumsum([0, *map(len, answers)]).tolist()
    query = torch.tensor(scale * rng.normal(size=(questions, 4)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(entities, 4)), requires_grad=True)
    per_entity = literal_weights(flat, entities, w0)
    already = torch.tensor(rng.normal(size=(entities, 4)))
    targets = Table(table.detach().clone())
    targets.add_rows(torch.arange(entities), already)
    loss, query_gradient = measured(All(block or "auto"), Softmax(w0), query, targets, offsets, flat)

    row = np.repeat(np.arange(questions), [len(a) for a in answers])
    literal = literal_cross_entropy((query @ table.T)[row], flat.tolist(), per_entity[flat].tolist())
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(query_gradient, query.grad, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(targets.gradient() - already, table.grad, rtol=1e-9, atol=1e-10)


def test_scores_beyond_the_range_of_exp_stay_finite() -> None:
    query, table = torch.tensor([[300.0]]), Table(torch.tensor([[1.0], [-1.0], [0.5]]))
    loss, gradient = measured(All(), Softmax(), query, table, [0, 1], np.array([1]))
    assert loss.item() == pytest.approx(600.0)
    assert gradient.item() == pytest.approx(2.0)


def test_bf16_products_are_near_float32() -> None:
    torch.manual_seed(0)
    query, table = torch.randn(20, 16), torch.randn(50, 16)
    offsets, answers = list(range(21)), torch.randint(50, (20,)).numpy()
    exact, low = All(block=7), All(block=7)
    low.product_type = torch.bfloat16
    tables = Table(table), Table(table)
    loss, by_query = measured(exact, Softmax(), query, tables[0], offsets, answers)
    low_loss, low_by_query = measured(low, Softmax(), query, tables[1], offsets, answers)
    gradients = tables[0].gradient(), tables[1].gradient()
    assert low_loss.item() == pytest.approx(loss.item(), rel=0.02)
    assert (by_query - low_by_query).norm() < 0.03 * by_query.norm()
    assert (gradients[0] - gradients[1]).norm() < 0.03 * gradients[0].norm()


@pytest.mark.parametrize("samples", [1, 60, 400])
def test_a_sample_in_bf16_is_near_that_in_float32(samples: int) -> None:
    """It is made longer by entities that stand for none, which changes no loss and no gradient."""
    torch.manual_seed(samples)
    query, table = torch.randn(20, 16), torch.randn(200, 16)
    offsets, answers = list(range(21)), torch.randint(200, (20,)).numpy()
    full, low = Sample(samples), Sample(samples)
    low.product_type = torch.bfloat16
    found = []
    for candidates in (full, low):
        targets = Table(table.clone())
        loss, by_query = measured(candidates, Softmax(), query, targets, offsets, answers)
        found.append((loss, by_query, targets.gradient()))
    for exact, rounded in zip(*found, strict=True):
        assert (exact - rounded).norm() < 0.03 * exact.norm()


def test_the_buffer_is_bounded_and_used_again() -> None:
    candidates = All()
    table = Table(torch.zeros(1000, 2))
    for questions in (1500, 100, 256):
        offsets = list(range(questions + 1))
        measured(candidates, Softmax(), torch.zeros(questions, 2), table, offsets, np.zeros(questions, dtype=np.int64))
        assert candidates._room._memory.numel() == LARGEST * 1000
    assert candidates.size(5000, 14_541) == LARGEST
    assert candidates.size(5000, 10_000_000) == SMALLEST
    assert candidates.size(3, 14_541) == 3


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(BadInput, match="number of questions"):
        All(block=-1)
    with pytest.raises(BadInput, match="at least one entity"):
        Sample(0)
    with pytest.raises(BadInput, match="at least one negative"):
        Negatives(0)


@settings(max_examples=60)
@given(
    questions=st.integers(1, 7),
    entities=st.integers(2, 13),
    samples=st.integers(1, 40),
    draw=st.sampled_from(["uniform", "frequency"]),
    w0=st.sampled_from([0.0, 0.9]),
    seed=st.integers(0, 10_000),
)
def test_the_sampled_loss_equals_its_literal_formula(
    questions: int, entities: int, samples: int, draw: Literal["uniform", "frequency"], w0: float, seed: int
) -> None:
    """Each question's sum: its answers once each, every other drawn entity 1 / (samples · chance) times."""
    rng = np.random.default_rng(seed)
    answers = [rng.choice(entities, rng.integers(1, entities), replace=False) for _ in range(questions)]
    flat, offsets = np.concatenate(answers), np.cumsum([0, *map(len, answers)]).tolist()
    query = torch.tensor(3 * rng.normal(size=(questions, 4)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(entities, 4)), requires_grad=True)
    candidates = Sample(samples, draw)
    frequency = np.bincount(flat, minlength=entities)
    targets = Table(table.detach().clone())
    loss, by_query = measured(candidates, Softmax(w0), query, targets, offsets, flat, seed)

    drawn = candidates.drawn(seed)[0].tolist()
    chance = np.ones(entities) if draw == "uniform" else (frequency + 1.0) ** 0.75
    chance = chance / chance.sum()
    weigh = literal_weights(flat, entities, w0)
    literal, scores = torch.zeros((), dtype=torch.float64), query @ table.T
    for i, mine in enumerate(answers):
        rest = [scores[i, j].exp() / (samples * chance[j]) for j in drawn if j not in mine]
        mass = scores[i, list(mine)].exp().sum() + sum(rest)
        for j in mine:
            literal = literal + weigh[j] * (mass.log() - scores[i, j])
    literal = literal / weigh[flat].sum()
    literal.backward()
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(by_query, query.grad, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(targets.gradient(), table.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("draw", ["uniform", "frequency"])
def test_the_sampled_sum_has_the_expectation_of_the_whole(draw: Literal["uniform", "frequency"]) -> None:
    """exp(loss + own score) is the estimated sum over all entities; over many draws its mean is the exact one."""
    torch.manual_seed(0)
    query, table, answer = torch.randn(1, 8), Table(torch.randn(30, 8)), np.array([4])
    candidates = Sample(20, draw)
    candidates.prepare(UNUSED, torch.arange(30.0))
    own = float(query[0] @ table.detach()[4])
    batch, objective = asked([0, 1], answer), objective_of({"tails": 1.0}, Softmax(), candidates)
    model = Plain(table)
    sums = [np.exp(float(objective(model, query, batch, seed)[0]) + own) for seed in range(3000)]
    exact = float((query @ table.detach().T).exp().sum())
    assert np.mean(sums) == pytest.approx(exact, abs=4 * np.std(sums) / np.sqrt(len(sums)))
    assert np.std(sums) > 0.05 * exact  # it is a sample


def test_what_is_drawn_follows_from_the_seed() -> None:
    candidates = Sample(50, "frequency")
    candidates.prepare(UNUSED, torch.cat([torch.zeros(90), torch.full((10,), 10_000.0)]))
    ids, stands_for = candidates.drawn(1)
    assert torch.equal(ids, candidates.drawn(1)[0])
    assert not torch.equal(ids, candidates.drawn(2)[0])
    assert (ids >= 90).float().mean() > 0.9  # the ten frequent entities have nearly all of the chance
    assert stands_for.exp().max() <= 1e4


def test_a_step_with_a_sample_touches_few_rows() -> None:
    table, query = Table(torch.randn(1000, 4)), torch.randn(3, 4)
    candidates = Sample(5)
    measured(candidates, Softmax(), query, table, [0, 1, 2, 3], np.array([7, 8, 9]))
    used = table.used()
    assert used is not None
    assert set(used.tolist()) == {7, 8, 9, *candidates.drawn(0)[0].tolist()}


@pytest.mark.parametrize("candidates", [All(), Sample(6)])
def test_an_answer_that_is_given_twice_counts_once_in_the_sum(candidates: Candidates) -> None:
    """Its weight counts twice, but there is only one such entity."""
    torch.manual_seed(0)
    query, rows = torch.randn(2, 3).double(), torch.randn(8, 3).double()
    once, twice = Table(rows.clone()), Table(rows.clone())
    both = objective_of({"tails": 1.0}, Softmax(), candidates)
    candidates.prepare(UNUSED, torch.ones(8))
    batches = asked([0, 2, 3], np.array([1, 4, 5])), asked([0, 3, 4], np.array([1, 4, 4, 5]))
    found = [both(Plain(table), query, batch, 3)[0] for table, batch in zip((once, twice), batches, strict=True)]
    drawn = candidates.drawn(3)[0].tolist() if isinstance(candidates, Sample) else range(8)
    stands_for = 8 / 6 if isinstance(candidates, Sample) else 1.0
    literal = torch.zeros(()).double()
    for i, j in ((0, 1), (0, 4), (0, 4), (1, 5)):
        mine = {1, 4} if i == 0 else {5}
        parts = [(query[i] @ rows[e]).exp() for e in mine]
        parts += [stands_for * (query[i] @ rows[e]).exp() for e in drawn if e not in mine]
        mass = torch.stack(parts).sum()
        literal = literal + (mass.log() - query[i] @ rows[j]) / 4
    torch.testing.assert_close(found[1], literal)
    assert not torch.isclose(found[0], found[1])


@pytest.mark.parametrize("level", [-300.0, -44.0, 44.0, 60.0, 300.0])
def test_the_level_of_the_scores_does_not_matter(level: float) -> None:
    """Softmax sees differences only: exponentials of the scores as they are, or without each row's maximum, in 32 bits."""
    torch.manual_seed(0)
    query, rows, answers = torch.randn(5, 4), torch.randn(300, 4), torch.tensor([7, 3, 299, 0, 12])

    def at(level: float) -> tuple[torch.Tensor, ...]:
        targets = Table(torch.cat([rows, torch.ones(300, 1)], 1))
        shifted = torch.cat([query, torch.full((5, 1), level)], 1)
        loss, gradient = measured(All(), Softmax(), shifted, targets, list(range(6)), answers.numpy())
        return loss, gradient[:, :4], targets.gradient()[:, :4]

    for found, expected in zip(at(level), at(0.0), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@settings(max_examples=40)
@given(
    questions=st.integers(1, 6),
    entities=st.integers(2, 9),
    count=st.integers(1, 8),
    filtered=st.booleans(),
    side=st.sampled_from(["uniform", "bernoulli"]),
    seed=st.integers(0, 10_000),
)
def test_negatives_equal_the_literal_formula(
    questions: int, entities: int, count: int, filtered: bool, side: Literal["uniform", "bernoulli"], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    answers = [np.sort(rng.choice(entities, rng.integers(1, entities), replace=False)) for _ in range(questions)]
    flat, offsets = np.concatenate(answers), np.cumsum([0, *map(len, answers)]).tolist()
    query = torch.tensor(rng.normal(size=(questions, 4)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(entities, 4)), requires_grad=True)
    candidates, targets = Negatives(count, side, filtered), Table(table.detach().clone())
    loss, by_query = measured(candidates, MarginRanking(1.5), query, targets, offsets, flat, seed)

    ids, out = candidates.drawn(asked(offsets, flat), seed)
    literal, fact = torch.zeros(()).double(), 0
    for i, mine in enumerate(answers):
        for answer in mine:
            wrong = [e for e, left in zip(ids[fact].tolist(), out[fact].tolist(), strict=True) if not left]
            assert not filtered or not set(wrong) & set(mine.tolist())
            assert int(answer) not in wrong
            hinges = [torch.relu(1.5 + query[i] @ table[e] - query[i] @ table[answer]) for e in wrong]
            factor = 1.0
            if (
                side == "bernoulli"
            ):  # all questions have relation 0; its reciprocal has no facts: one answer per question
                mean = len(flat) / questions
                factor = 2 * 1.0 / (1.0 + mean)
            if hinges:
                literal = literal + factor * torch.stack(hinges).mean() / len(flat)
            fact += 1
    torch.testing.assert_close(loss, literal.detach(), rtol=1e-9, atol=1e-10)
    if literal.requires_grad:
        literal.backward()
        torch.testing.assert_close(by_query, query.grad, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(targets.gradient(), table.grad, rtol=1e-8, atol=1e-10)


def test_negatives_are_drawn_evenly_and_follow_from_the_seed() -> None:
    candidates, batch = Negatives(200, filtered=False), asked(list(range(51)), np.zeros(50, dtype=np.int64))
    objective_of({"tails": 1.0}, MarginRanking(), candidates).prepare(batch, Plain(Table(torch.zeros(20, 2))))
    ids, out = candidates.drawn(batch, 5)
    assert torch.equal(ids, candidates.drawn(batch, 5)[0])
    assert not torch.equal(ids, candidates.drawn(batch, 6)[0])
    counts = torch.bincount(ids.flatten(), minlength=20)
    assert counts.min() > 400 and counts.max() < 600  # 500 each, standard deviation 22
    assert torch.equal(out, ids == 0)


def test_only_training_facts_filter_negatives() -> None:
    """The training questions are all that candidates ever see; a fact that is not among them may be a negative."""
    facts = np.array([[0, 0, 1]])
    candidates = Negatives(300)
    questions = Questions.of(facts, relations=1)
    objective_of({"tails": 1.0}, MarginRanking(), candidates).prepare(questions, Plain(Table(torch.zeros(4, 2))))
    ids, out = candidates.drawn(questions, 0)
    row = questions.head.tolist().index(0)
    kept = set(ids[row][~out[row]].tolist())
    assert kept == {0, 2, 3}


def test_blocks_of_negatives_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, rows, answers = torch.randn(9, 4).double(), torch.randn(12, 4).double(), np.arange(9)
    tables = [Table(rows.clone()) for _ in range(2)]
    one = measured(Negatives(5), Softmax(), query, tables[0], list(range(10)), answers, 1)
    monkeypatch.setattr("dura.objectives.candidates.NEGATIVE_NUMBERS", 50)
    two = measured(Negatives(5), Softmax(), query, tables[1], list(range(10)), answers, 1)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(tables[0].gradient(), tables[1].gradient())


def test_the_last_epochs_score_all_entities_and_samples_grow() -> None:
    rng = torch.Generator().manual_seed(3)
    table, query = Table(torch.randn(40, 4, generator=rng)), torch.randn(2, 4, generator=rng)
    sample = Sample(8, exact=2, growth=2.0)
    objective = objective_of({"tails": 1.0}, Softmax(), sample)
    model, batch = Plain(table), asked([0, 1, 3], np.array([3, 0, 7]))
    objective.prepare(batch, model)
    sizes = []
    for epoch in range(7):
        objective.begin(epoch, 7)
        sizes.append(len(sample.drawn(0)[0]))
        found, _ = objective(model, query, batch, 0)
        exact, _ = measured(All(), Softmax(), query, table, [0, 1, 3], np.array([3, 0, 7]))
        assert (float(found) == pytest.approx(float(exact), rel=1e-6)) == (sizes[-1] == 0)
    assert sizes == [8, 16, 32, 0, 0, 0, 0]  # 64 would be more than all
    for epoch, size in ((0, 8), (4, 8), (5, 0), (6, 0)):
        same = Sample(8, exact=2)
        same.prepare(UNUSED, torch.ones(40))
        same.begin(epoch, 7)
        assert len(same.drawn(0)[0]) == size


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"exact": -1}, "candidates.exact is -1"), ({"growth": 0.5}, "candidates.growth is 0.5, but samples grow")],
)
def test_impossible_plans_of_a_sample_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Sample(**options)
