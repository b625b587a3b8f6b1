from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data import large
from dura.data import questions as questions_module
from dura.data.questions import Questions
from dura.objectives import known as known_module
from dura.objectives.known import Known, Mapped, known_of
from dura.types import IntArray, Sizes

QUICK = settings(max_examples=40)
RELATIONS = 3


def facts_of(columns: int) -> st.SearchStrategy[IntArray]:
    numbers = [st.integers(0, 6), st.integers(0, RELATIONS - 1), st.integers(0, 6), st.integers(0, 3)][:columns]
    rows = st.lists(st.tuples(*numbers), min_size=1, max_size=40)
    return rows.map(lambda facts: np.array(facts, dtype=np.int32).reshape(-1, columns))


FACTS = st.one_of(facts_of(3), facts_of(4))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that is large from a few questions on."""
    for module, name, value in (
        (questions_module, "MANY", 4),
        (known_module, "MANY", 4),
        (large, "ROWS", 5),
        (large, "BLOCK", 3),
        (large, "WINDOW", 20),
    ):
        monkeypatch.setattr(module, name, value)
    yield


def same(left: Questions, right: Questions) -> bool:
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("head", "relation", "offsets", "answers", *(["time"] if left.time is not None else []))
    ) and (left.time is None) == (right.time is None)


@QUICK
@given(FACTS, st.integers(0, 40))
def test_questions_made_in_parts_are_the_same(facts: IntArray, cut: int) -> None:
    whole = Questions.of(facts, relations=RELATIONS)
    for rows in (1, 5, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "ROWS", rows)
            parts = [part for part in (facts[:cut], facts[cut:]) if len(part)]
            made = large.in_memory(parts, RELATIONS)
            assert same(made, whole)
            assert made.head.dtype == np.int32 and made.offsets.dtype == np.int64


@QUICK
@given(FACTS)
def test_numbers_that_are_too_large_for_one_key_are_sorted_by_columns(facts: IntArray) -> None:
    apart = facts.copy()
    apart[:, [0, 2]] *= 300_000_000
    spread = Questions.of(facts, relations=RELATIONS)
    rows = np.concatenate(list(large._rows_of(apart, 0, 2**31, RELATIONS)))
    piece = large._by_columns(rows, 0)
    assert (piece.head // 300_000_000).tolist() == spread.head.tolist()
    assert piece.relation.tolist() == spread.relation.tolist() and piece.counts.tolist() == spread.counts.tolist()


@QUICK
@given(st.integers(1, 400), st.integers(1, 30), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_has_each_question_once(count: int, size: int, seed: int, epoch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "BLOCK", 3)
        patch.setattr(large, "WINDOW", 40)
        orders = [index[order] for index, order in large.shuffled(count, size, seed, epoch)]
        every = np.concatenate(orders)
        assert np.sort(every).tolist() == list(range(count))
        assert all(len(order) % size == 0 for order in orders[:-1])
        for start in range(-(-count // size) + 2):
            rest = [index[order] for index, order in large.shuffled(count, size, seed, epoch, start)]
            assert np.concatenate([[], *rest]).tolist() == every[start * size :].tolist()


def test_seeds_and_epochs_give_other_orders() -> None:
    orders = {
        tuple(next(index[order] for index, order in large.shuffled(5000, 100, seed, epoch)).tolist())
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_batches_are_nearly_uniform() -> None:
    """Neighbours are questions of one head. A batch has hardly more pairs of neighbours than if all were shuffled together."""
    count, size = 1 << 22, 1000
    index, order = next(large.shuffled(count, size, seed=0, epoch=0))
    batches = index[order][: 200 * size].reshape(200, size)
    assert abs(batches.mean() / count - 0.5) < 0.02 and abs(batches.std() / count - 12**-0.5) < 0.02
    heads = np.sort(batches // 8, axis=1)
    pairs = (heads[:, 1:] == heads[:, :-1]).sum(axis=1).mean()
    assert pairs < 8  # of 1,000; shuffled as a whole there would be 1


@pytest.mark.usefixtures("small")
def test_batches_of_many_questions() -> None:
    rng = np.random.default_rng(0)
    facts = np.stack([rng.integers(9, size=60), rng.integers(3, size=60), rng.integers(9, size=60)], axis=1)
    questions = Questions.of(facts.astype(np.int32), relations=RELATIONS)
    batches = list(questions.batches(7, seed=1, epoch=2))
    assert [len(batch) for batch in batches[:-1]] == [7] * (len(batches) - 1)
    key = [(int(h), int(r)) for batch in batches for h, r in zip(batch.head, batch.relation, strict=True)]
    assert sorted(key) == list(zip(questions.head.tolist(), questions.relation.tolist(), strict=True))
    for batch in batches:
        assert same(batch, questions.known(batch.head, batch.relation))
    later = list(questions.batches(7, seed=1, epoch=2, start=3))
    assert all(same(one, other) for one, other in zip(later, batches[3:], strict=True))


@pytest.mark.parametrize("many", [4, 1000])
def test_the_parts_of_a_batch_make_it_up(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_module, "MANY", many)
    facts = np.stack([np.arange(50), np.zeros(50, int), np.arange(50)[::-1]], axis=1)
    questions = Questions.of(facts, relations=1)
    whole = questions.batches(8, 0, 0)
    parts = zip(*(questions.batches(8, 0, 0, part=(i, 3)) for i in range(3)), strict=True)
    for batch, pieces in zip(whole, parts, strict=True):
        assert np.concatenate([piece.head for piece in pieces]).tolist() == batch.head.tolist()
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("columns", [3, 4])
def test_single_facts_are_made_when_taken(columns: int) -> None:
    rng = np.random.default_rng(0)
    facts = np.stack([rng.integers(n, size=60) for n in (9, 3, 9, 4)], axis=1)[:, :columns].astype(np.int32)
    questions = Questions.of(facts, relations=RELATIONS)
    singles = questions.one_by_one()
    assert isinstance(singles, large.Singles) and singles.distinct() is questions
    plain = Questions(
        singles.head, singles.relation, singles.offsets, singles.answers, None if columns == 3 else singles.time
    )
    assert len(singles) == len(plain) == singles.facts
    index = rng.permutation(len(singles))
    assert same(singles.take(index), plain.take(index))
    assert sum(map(len, singles.batches(7, 0, 0))) == len(plain)


@QUICK
@given(FACTS, st.data())
def test_mapped_facts_say_the_same(facts: IntArray, data: st.DataObject) -> None:
    sizes = Sizes(7, RELATIONS, 4 if facts.shape[1] > 3 else 0)
    questions = Questions.of(facts, relations=RELATIONS)
    plain, mapped = Known(questions, sizes), Mapped(questions, sizes)
    asked = np.array(data.draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2 * RELATIONS - 1)), min_size=1)))
    time = None if questions.time is None else np.zeros(len(asked), dtype=np.int64)
    assert (
        plain.counts(asked[:, 0], asked[:, 1], time).tolist() == mapped.counts(asked[:, 0], asked[:, 1], time).tolist()
    )
    assert np.allclose(plain.answers_per_question(), mapped.answers_per_question())
    batch = questions.take(np.arange(len(questions))[::2])
    entities = np.tile(np.arange(7), (batch.facts, 1))
    assert plain.holds(batch, entities).tolist() == mapped.holds(batch, entities).tolist()


@pytest.mark.usefixtures("small")
def test_many_facts_are_not_copied_for_filters() -> None:
    questions = Questions.of(np.array([[0, 0, i] for i in range(1, 9)], dtype=np.int32), relations=1)
    assert isinstance(known_of(questions, Sizes(9, 1)), Mapped)
    assert isinstance(known_of(questions.one_by_one(), Sizes(9, 1)), Mapped)
    assert questions.frequency(9).tolist() == [8, *8 * [1]]
