"""The questions of a projection, the answers it shows, and its numbers against literal formulas."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dura.analysis.projection import (
    PAPER,
    SEVERAL,
    coordinates,
    cosines,
    drawn_questions,
    nearness,
    own_shares,
    paper_questions,
    shown_answers,
)
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.vocabulary import Vocabulary
from dura.types import BadInput, DuraError
from graphs import dated_graph, random_graph

Array = NDArray[Any]


def freebase() -> Graph:
    """A graph with the paper's ten questions; two entities are called Funk, one of which has no artists."""
    heads = [f"/m/{i}" for i in range(10)]
    labels = {name: label.upper() for name, (label, _) in zip(heads, PAPER, strict=True)} | {"/m/other": "Funk"}
    relations = Vocabulary(relation for _, relation in PAPER)
    entities = Vocabulary([*heads, "/m/other", *(f"t{i:02d}" for i in range(30))])
    facts = [
        (entities.id(head), relations.id(relation), entities.id(f"t{3 * i + j:02d}"))
        for i, (head, (_, relation)) in enumerate(zip(heads, PAPER, strict=True))
        for j in range(3)
    ]
    ids = np.array(facts, dtype=np.int32)
    return Graph("freebase", entities, relations, ids[:-4], ids[-4:-2], ids[-2:], labels)


def test_the_papers_questions_are_found_by_their_labels() -> None:
    graph = freebase()
    questions = paper_questions(graph)
    assert questions is not None
    assert graph.entities.names(questions.head) == [f"/m/{i}" for i in range(10)]
    assert graph.relations.names(questions.relation) == [relation for _, relation in PAPER]
    assert questions.counts.tolist() == [3] * 10, "answers of all splits"
    fewer = {name: label for name, label in graph.labels.items() if name != "/m/4"}
    assert (
        paper_questions(Graph("x", graph.entities, graph.relations, graph.train, graph.valid, graph.test, fewer))
        is None
    )
    assert paper_questions(random_graph()) is None


@pytest.mark.parametrize("graph", [random_graph(facts=600), dated_graph(facts=600)], ids=["static", "dated"])
def test_drawn_questions_have_many_answers_and_keep_half_for_themselves(graph: Graph) -> None:
    questions = drawn_questions(graph, 0, number=4, more_than=5)
    assert 2 <= len(questions) <= 4
    assert (questions.counts > 5).all()
    assert questions.time is None
    assert (own_shares(questions) >= 0.5).all()
    again, other = drawn_questions(graph, 0, number=4, more_than=5), drawn_questions(graph, 1, number=4, more_than=5)
    assert again.head.tolist() == questions.head.tolist()
    assert (other.head.tolist(), other.relation.tolist()) != (questions.head.tolist(), questions.relation.tolist())


def test_too_few_questions_are_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="0 questions with more than 50 answers.*--more-than"):
        drawn_questions(random_graph())


def test_a_first_question_that_leaves_no_room_is_given_up() -> None:
    """One question has all answers of the others: whichever order is drawn, the others are found."""
    ids = np.array(
        [(0, 0, t) for t in range(10, 40)] + [(h, 0, t) for h in range(1, 4) for t in range(10 * h, 10 * h + 10)]
    )
    entities, facts = Vocabulary(f"e{i:02d}" for i in range(40)), ids.astype(np.int32)
    graph = Graph("nested", entities, Vocabulary(["r"]), facts, facts[:0], facts[:0])
    for seed in range(8):
        assert sorted(drawn_questions(graph, seed, number=3, more_than=9).head.tolist()) == [1, 2, 3]


def asked(*answers: list[int]) -> Questions:
    ids = np.arange(len(answers))
    return Questions(ids, ids, np.cumsum([0, *map(len, answers)]), np.concatenate([np.array(a) for a in answers]))


def test_points_are_entities_once_and_those_of_several_questions_belong_to_none() -> None:
    shown = shown_answers(asked([1, 2, 3, 9], [3, 4, 5], [6, 7, 9]))
    assert shown.entity.tolist() == [1, 2, 3, 4, 5, 6, 7, 9]
    assert shown.question.tolist() == [0, 0, SEVERAL, 1, 1, 2, 2, SEVERAL]
    with pytest.raises(BadInput, match="question 2 has 1 answers"):
        shown_answers(asked([1, 2, 3, 4], [3, 4, 5]))


def test_large_questions_are_sampled_by_the_seed_and_shared_answers_stay_shared() -> None:
    questions = asked(list(range(100)), list(range(90, 200)))
    shown = shown_answers(questions, most=40, seed=1)
    assert len(shown.entity) <= 80
    assert (shown.question[(shown.entity >= 90) & (shown.entity < 100)] == SEVERAL).all(), "also if sampled once"
    assert shown_answers(questions, most=40, seed=1).entity.tolist() == shown.entity.tolist()
    assert shown_answers(questions, most=40, seed=2).entity.tolist() != shown.entity.tolist()


def literal_cosine(a: Array, b: Array) -> float:
    return float(a @ b / (np.sqrt(a @ a) * np.sqrt(b @ b)))


def literal_silhouette(distance: Array, question: Array) -> float:
    """Mean of (b − a)/max(a, b): a the mean distance to the own question's others, b the least mean one to another's."""
    values = []
    for i, mine in enumerate(question):
        means = {}
        for other in sorted(set(question.tolist())):
            rest = [j for j in range(len(question)) if question[j] == other and j != i]
            means[other] = np.mean([distance[i, j] for j in rest])
        a, b = means[mine], min(value for other, value in means.items() if other != mine)
        values.append((b - a) / max(a, b))
    return float(np.mean(values))


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(2, 5), min_size=2, max_size=4), width=st.integers(1, 4)
)
def test_cosines_are_means_over_pairs(seed: int, sizes: list[int], width: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(sum(sizes), width))
    question = np.repeat(np.arange(len(sizes)), sizes)
    within, between = cosines(rows, question)
    groups = [rows[question == q] for q in range(len(sizes))]
    for found, group in zip(within, groups, strict=True):
        pairs = [literal_cosine(group[i], group[j]) for i in range(len(group)) for j in range(i)]
        assert found == pytest.approx(np.mean(pairs), abs=1e-12)
    across = [
        np.mean([literal_cosine(a, b) for a in groups[p] for b in groups[q]])
        for p in range(len(groups))
        for q in range(len(groups))
        if p != q
    ]
    assert between == pytest.approx(np.mean(across), abs=1e-12)


def test_numbers_are_their_formulas_and_leave_out_answers_of_several() -> None:
    rng = np.random.default_rng(0)
    question = np.repeat([0, 1, 2], 6)
    rows = rng.normal(size=(18, 5)) + 2 * np.eye(5)[question]
    flat = rng.normal(size=(18, 2)) + question[:, None]
    found = nearness(rows, question, flat)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert found.silhouette_cosine == pytest.approx(literal_silhouette(1 - unit @ unit.T, question), abs=1e-9)
    assert found.silhouette_euclidean == pytest.approx(literal_silhouette(apart, question), abs=1e-9)
    in_flat = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    assert found.silhouette_picture == pytest.approx(literal_silhouette(in_flat, question), abs=1e-9)
    more = np.append(question, SEVERAL)
    assert nearness(np.vstack([rows, 99 * np.ones(5)]), more, np.vstack([flat, [[99.0, 99.0]]])) == found


def test_coordinates_keep_neighbours_and_are_the_same_for_the_same_seed() -> None:
    question = np.repeat([0, 1, 2], 12)
    rows = np.random.default_rng(1).normal(size=(36, 8)) + 9 * np.eye(8)[question]
    drawn = coordinates(rows, seed=3)
    assert drawn.shape == (36, 2)
    assert nearness(rows, question, drawn).silhouette_picture > 0.5
    np.testing.assert_array_equal(coordinates(rows, seed=3), drawn)


def test_a_collapsed_model_and_a_missing_scikit_learn_end_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DuraError, match="collapsed"):
        coordinates(np.ones((10, 3)))
    for module in ("threadpoolctl", "sklearn"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(DuraError, match=r"pip install 'dura-kge\[studies\]'"):
                coordinates(np.eye(8))
