from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dura
from dura.config.sections import Splitting
from dura.data.loading import load
from dura.data.readoff import ADVICE, at_a_glance, read_off
from dura.data.split import split
from dura.types import BadInput, IntArray

FACTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=30).map(
    lambda facts: np.array(facts, dtype=np.int32)
)


@given(FACTS, FACTS)
def test_linked_facts_are_counted_by_the_definition(train: IntArray, test: IntArray) -> None:
    pairs = {frozenset((h, t)) for h, _, t in train.tolist()}
    linked = sum(h != t and frozenset((h, t)) in pairs for h, _, t in test.tolist())
    found = read_off(train, train[:0], test)
    assert (found.test, found.linked) == (len(test), linked)
    assert found.linked_share == linked / len(test)


def married(dated: bool = False) -> list[tuple[str | int, ...]]:
    """A symmetric relation over pairs, and a relation that keeps everybody in train; times are the years from 2000 on."""
    couples = [(f"a{i}", f"b{i}") for i in range(100)]
    facts = [fact for a, b in couples for fact in ((a, "married", b), (b, "married", a))]
    facts += [(a, "knows", couples[(i + k) % 100][1]) for i, (a, _) in enumerate(couples) for k in (3, 7)]
    return [(*fact, 2000 + at // 20) for at, fact in enumerate(facts)] if dated else list(facts)


def test_the_notes_say_what_can_be_read_off_train_and_what_helps() -> None:
    notes: list[str] = []
    dura.from_facts(married(), notify=notes.append)
    assert (
        notes[0]
        == "split made: 320 train, 40 valid, 40 test (random, seed 0; every entity and relation stays in train)"
    )
    assert notes[1].endswith(f"; {ADVICE}") and " of 40 test facts (" in notes[1]
    notes.clear()
    dura.from_facts(married(), split="grouped", notify=notes.append)
    assert notes == [
        "split made: 320 train, 40 valid, 40 test (grouped, seed 0; every entity and relation stays in train)"
    ]


def test_the_notes_of_a_split_by_time_say_when_it_begins_and_what_is_new() -> None:
    notes: list[str] = []
    graph = dura.from_facts(married(dated=True), split="time", notify=notes.append)
    assert notes[0] == (
        "split made: 320 train, 40 valid, 40 test (time, seed 0; valid begins at 2016; test begins at 2018; "
        "0 valid and 0 test facts have an entity or relation that train lacks)"
    )
    assert graph.times is not None and graph.times.name(int(graph.test[:, 3].min())) == "2018"
    notes.clear()
    new = [("x", "r", "y", 2030)] * 1 + [(f"e{i}", "r", f"e{i + 1}", 2000) for i in range(19)]
    dura.from_facts(new, split="time", valid_share=0.1, test_share=0.05, notify=notes.append)
    assert "valid begins within 2000; test begins at 2030; " in notes[0]
    assert "and 1 test facts have an entity or relation that train lacks" in notes[0]


def test_a_split_by_time_needs_times() -> None:
    with pytest.raises(BadInput, match="a split by time needs facts with times, but these have none"):
        dura.from_facts(married(), split="time")


def test_unknown_ways_to_split_are_refused() -> None:
    with pytest.raises(
        BadInput, match="the split 'group' is not known; facts can be split by random, grouped, relation, time"
    ):
        dura.from_facts(married(), split="group")  # type: ignore[arg-type]


def test_given_splits_are_kept() -> None:
    notes: list[str] = []
    fact = [("a", "r", "b")]
    dura.from_facts(fact, [("b", "r", "a")], [("a", "r", "a")], split="grouped", notify=notes.append)
    assert notes == ["the way to split is not used: the graph comes with both"]


@pytest.mark.parametrize("name", ["umls", "nations", "kinships"])
@pytest.mark.parametrize("how", ["random", "grouped", "relation"])
def test_the_figures_of_the_note_are_those_of_the_doctor(name: str, how: Splitting) -> None:
    graph = load(name)
    every = np.concatenate([graph.train, graph.valid, graph.test])
    train, valid, test = split(every, how=how, seed=3)
    soon = at_a_glance({"train": train, "valid": valid, "test": test})
    assert soon.figures == read_off(train, valid, test).figures
