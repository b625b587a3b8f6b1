from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.data.questions import Questions, reciprocal, segments
from dura.types import IntArray

QUICK = settings(max_examples=40)
RELATIONS = 3
FACTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, RELATIONS - 1), st.integers(0, 6)), max_size=30).map(
    lambda facts: np.array(facts, dtype=np.int32).reshape(-1, 3)
)


def oracle(*facts: IntArray) -> dict[tuple[int, int], set[int]]:
    """The literal reading: for each question of either direction the set of its answers."""
    answers: dict[tuple[int, int], set[int]] = defaultdict(set)
    for part in facts:
        for head, relation, tail in part.tolist():
            answers[head, relation].add(tail)
            answers[tail, relation + RELATIONS].add(head)
    return dict(answers)


def as_list(questions: Questions) -> list[tuple[tuple[int, int], list[int]]]:
    at = questions.offsets.tolist()
    return [
        ((int(questions.head[i]), int(questions.relation[i])), questions.answers[at[i] : at[i + 1]].tolist())
        for i in range(len(questions))
    ]


@QUICK
@given(FACTS, FACTS)
def test_of_equals_a_dict_of_sets(first: IntArray, second: IntArray) -> None:
    questions = Questions.of(first, second, relations=RELATIONS)
    expected = oracle(first, second)
    assert as_list(questions) == [(key, sorted(expected[key])) for key in sorted(expected)]
    assert questions.facts == sum(map(len, expected.values()))
    assert questions.counts.tolist() == [len(expected[key]) for key in sorted(expected)]
    assert len(questions.question) == questions.facts
    assert (questions.head[questions.question].shape) == (questions.facts,)


@QUICK
@given(FACTS, st.data())
def test_take(facts: IntArray, data: st.DataObject) -> None:
    questions = Questions.of(facts, relations=RELATIONS)
    index = np.array(
        data.draw(st.lists(st.integers(0, len(questions) - 1)) if len(questions) else st.just([])), dtype=int
    )
    every = as_list(questions)
    assert as_list(questions.take(index)) == [every[i] for i in index]


@QUICK
@given(FACTS, st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2 * RELATIONS + 1))))
def test_find_and_known(facts: IntArray, asked: list[tuple[int, int]]) -> None:
    questions = Questions.of(facts, relations=RELATIONS)
    expected = oracle(facts)
    head = np.array([h for h, _ in asked], dtype=np.int32)
    relation = np.array([r for _, r in asked], dtype=np.int32)
    keys = sorted(expected)
    assert questions.find(head, relation).tolist() == [keys.index(q) if q in expected else -1 for q in asked]
    assert as_list(questions.known(head, relation)) == [(q, sorted(expected.get(q, ()))) for q in asked]


@QUICK
@given(FACTS)
def test_one_by_one(facts: IntArray) -> None:
    questions = Questions.of(facts, relations=RELATIONS)
    single = as_list(questions.one_by_one())
    assert single == [(key, [answer]) for key, answers in as_list(questions) for answer in answers]


@QUICK
@given(FACTS, st.integers(1, 7), st.integers(0, 3), st.integers(0, 3))
def test_batches(facts: IntArray, size: int, seed: int, epoch: int) -> None:
    questions = Questions.of(facts, relations=RELATIONS)
    batches = [as_list(batch) for batch in questions.batches(size, seed, epoch)]
    assert sorted(question for batch in batches for question in batch) == as_list(questions)
    assert all(len(batch) == size for batch in batches[:-1])
    again = [as_list(batch) for batch in questions.batches(size, seed, epoch)]
    assert again == batches
    for start in range(len(batches)):
        assert [as_list(batch) for batch in questions.batches(size, seed, epoch, start)] == batches[start:]


def test_batches_differ_by_seed_and_epoch() -> None:
    facts = np.stack([np.arange(50), np.zeros(50, int), np.arange(50)[::-1]], axis=1)
    questions = Questions.of(facts, relations=1)
    orders = {tuple(next(questions.batches(50, seed, epoch)).head.tolist()) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_reciprocal_and_segments() -> None:
    assert reciprocal(np.array([[4, 1, 5]]), 10).tolist() == [[5, 11, 4]]
    assert segments(np.array([7, 3, 3]), np.array([0, 2, 1])).tolist() == [3, 4, 3]
    assert segments(np.zeros(0, int), np.zeros(0, int)).tolist() == []


def test_memory_of_ids_stays_small() -> None:
    facts = np.array([[0, 0, 1]], dtype=np.int32)
    questions = Questions.of(facts, relations=1)
    assert questions.head.dtype == questions.answers.dtype == np.int32


def test_find_in_no_questions() -> None:
    empty = Questions.of(np.zeros((0, 3), dtype=np.int32), relations=1)
    assert empty.find(np.array([0]), np.array([0])).tolist() == [-1]
    assert as_list(empty.known(np.array([0]), np.array([0]))) == [((0, 0), [])]
    assert list(empty.batches(5, 0, 0)) == []


def test_question_positions_do_not_overflow_for_many_entities() -> None:
    big = 2**31 - 1
    facts = np.array([[big, 0, big - 1]], dtype=np.int32)
    questions = Questions.of(facts, relations=2**20)
    assert questions.find(np.array([big, big - 1], dtype=np.int32), np.array([0, 2**20], dtype=np.int32)).tolist() == [
        1,
        0,
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_start_past_the_end_gives_nothing(size: int) -> None:
    questions = Questions.of(np.array([[0, 0, 1]]), relations=1)
    assert list(questions.batches(size, 0, 0, start=10)) == []
