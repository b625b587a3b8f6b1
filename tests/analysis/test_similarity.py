"""The similarity of answers against literal sums over all pairs."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from dura.analysis import similarity as module
from dura.analysis.similarity import many_answers, similarity
from dura.data.questions import Questions
from dura.types import BadInput, FloatArray
from graphs import dated_graph, random_graph


def asked(counts: list[int], entities: int, seed: int = 0) -> Questions:
    """Questions with these numbers of answers, all different for one question."""
    rng = np.random.default_rng(seed)
    answers = np.concatenate([rng.choice(entities, size=count, replace=False) for count in counts])
    ids = np.arange(len(counts))
    return Questions(ids, ids, np.append(0, np.cumsum(counts)), answers)


def literal(rows: FloatArray, answers: list[int]) -> tuple[float, float]:
    """The mean cosine and the mean squared distance of all pairs."""
    pairs = [(rows[a], rows[b]) for a, b in combinations(answers, 2)]
    cosines = [float(x @ y / np.sqrt((x @ x) * (y @ y))) for x, y in pairs]
    return float(np.mean(cosines)), float(np.mean([((x - y) ** 2).sum() for x, y in pairs]))


@pytest.mark.parametrize("block", [2**22, 40, 1])
def test_similarity_is_the_mean_over_all_pairs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are read at a time."""
    monkeypatch.setattr(module, "BLOCK", block)
    questions, rows = asked([2, 5, 3, 9], entities=30), np.random.default_rng(1).normal(0.4, 1, (30, 6))
    groups = [questions.answers[a:b].tolist() for a, b in pairwise(questions.offsets.tolist())]
    cosines, squares = zip(*(literal(rows, group) for group in groups), strict=True)
    cosine_any, square_any = literal(rows, sorted({answer for group in groups for answer in group}))
    found = similarity(rows, questions)
    assert found.cosine == pytest.approx(np.mean(cosines))
    assert found.cosine_any == pytest.approx(cosine_any)
    assert found.distance == pytest.approx(np.mean(np.sqrt(np.array(squares) / square_any)))
    as_float32 = similarity(rows.astype(np.float32), questions)
    assert as_float32.cosine == pytest.approx(found.cosine, abs=1e-6)


def test_lengths_change_distances_but_no_cosine() -> None:
    questions, rows = asked([4, 6], entities=20), np.random.default_rng(2).normal(size=(20, 5))
    once, twice = similarity(rows, questions), similarity(3 * rows, questions)
    assert twice.cosine == pytest.approx(once.cosine) and twice.distance == pytest.approx(once.distance)
    longer = similarity(rows * np.linspace(0.1, 4, 20)[:, None], questions)
    assert longer.cosine == pytest.approx(once.cosine) and longer.distance != pytest.approx(once.distance)


def test_rows_of_zeros_have_no_direction_and_equal_rows_no_distance() -> None:
    questions = Questions(np.arange(2), np.arange(2), np.array([0, 2, 4]), np.arange(4))
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.1, 0.3], [0.1, 0.3]])
    found = similarity(rows, questions)
    assert found.cosine == pytest.approx(0.5)  # 0 and 1
    assert 0 < found.distance < 1
    with pytest.raises(BadInput, match="all answers have the same embedding"):
        similarity(np.ones((4, 2)), questions)


def test_questions_have_enough_known_answers_of_any_split_and_time() -> None:
    for graph in (random_graph(), dated_graph()):
        known = graph.known_ever
        found = many_answers(graph, 3)
        assert len(found) == int((known.counts >= 3).sum()) > 0
        assert int(found.counts.min()) >= 3
        assert found.relation.max() >= len(graph.relations)  # both sides
    with pytest.raises(BadInput, match=r"no question with 500 known answers or more, the largest has \d+; lower --at-"):
        many_answers(random_graph(), 500)
    with pytest.raises(BadInput, match="--at-least is 1, but two answers are needed"):
        many_answers(random_graph(), 1)
