"""Calibration: literal formulas, the order of answers, functional relations, answer sets, and the file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dura.inference import Calibration
from dura.inference.calibration import FILE, LEVELS, LOWEST, Scale, Sets
from dura.records import Damage, Missing
from dura.types import BadInput

# Two relations and their reciprocals. Relation 1 is functional: it has a second answer in 1 of 50 questions.
CALIBRATION = Calibration(
    temperature=0.5,
    answer_weights=[-0.3, 0.8, 0.2],
    answers=Scale([0, 1, 0, 0], ["all", "one"], [0.0, 0.4], [1.0, 0.7]),
    sets=Sets([0, 1, 1, 1], ["all", "one"], [[-level for level in LEVELS], [-10 * level for level in LEVELS]]),
    second=[0.6, 0.02, 0.6, 0.6],
    fact_weights=[-1.0, 2.0],
    facts=Scale([0, 1, 0, 1], ["all", "one"], [0.0, 0.1], [1.0, 1.5]),
    question_weights=[-3.0, 0.5, 0.1, 1.0, 0.2],
    asked=[10, 20, 30, 40],
    checkpoint="abc",
    counts={"answers": 7},
)
scores = st.lists(st.floats(-50, 50), min_size=1, max_size=6)


def literal(relation: int, known: int, everything: list[float], score: float) -> float:
    """The probability of one new answer, one number at a time."""
    share = math.exp(score / 0.5) / sum(math.exp(other / 0.5) for other in everything)
    z = -0.3 + 0.8 * math.log(share / (1 - share)) + 0.2 * math.log(1 + known)
    a, b = [(0.0, 1.0), (0.4, 0.7), (0.0, 1.0), (0.0, 1.0)][relation]
    p = 1 / (1 + math.exp(-(a + b * z)))
    return p * (0.02 if relation == 1 and known else 1.0)


@pytest.mark.parametrize("relation", range(4))
@pytest.mark.parametrize("known", [0, 3])
def test_a_probability_is_the_literal_formula(relation: int, known: int) -> None:
    everything = [1.5, 0.2, -0.7, 0.9]
    total = CALIBRATION.total(torch.tensor([[*everything, -math.inf]], dtype=torch.float64))
    found = CALIBRATION.probabilities(np.array([relation]), np.array([known]), total, np.array([everything]))
    assert found[0] == pytest.approx([literal(relation, known, everything, score) for score in everything], rel=1e-9)
    assert CALIBRATION.contradicts(np.array([relation]), np.array([known])).tolist() == [relation == 1 and known > 0]


@pytest.mark.parametrize(("known", "others"), [(0, 0), (2, 0), (0, 2), (2, 2)])
@pytest.mark.parametrize("relation", range(4))
def test_given_facts_and_answers_are_lowered_by_one_rule(relation: int, known: int, others: int) -> None:
    """Relation 1 is functional, and 3 is its reciprocal. A fact has a question on either side."""
    own, other = relation == 1 and known > 0, relation == 3 and others > 0
    r, n, m = np.array([relation]), np.array([known]), np.array([others])
    total = CALIBRATION.total(torch.tensor([[1.5, 0.2]], dtype=torch.float64))
    answers = CALIBRATION.told(r, n, total, np.array([[1.5]]), m[:, None])
    before = CALIBRATION.probabilities(r, n, total, np.array([[1.5]]))[0, 0] / (0.02 if own else 1.0)
    facts = CALIBRATION.facts_told(r, np.array([1.5]), n, m)
    plain = CALIBRATION.fact_probabilities(r, np.array([1.5]))[0]
    for (p, mark), whole in ((answers, before), (facts, plain)):
        assert mark.ravel().tolist() == [own or other]
        assert p.ravel() == pytest.approx([min(whole * (0.02 if own else 1.0), 0.02 if other else 1.0)])


@given(scores, st.integers(0, 3), st.integers(0, 100))
def test_probabilities_never_change_the_order_of_answers(given: list[float], relation: int, known: int) -> None:
    ordered = np.sort(np.array([given]))[:, ::-1]
    total = CALIBRATION.total(torch.from_numpy(ordered.copy()))
    p = CALIBRATION.probabilities(np.array([relation]), np.array([known]), total, ordered)
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) <= 0).all()


@given(scores, st.integers(0, 3), st.integers(0, 100), st.floats(0.01, 0.99))
def test_the_least_score_of_a_set_is_where_the_level_is_reached(
    given: list[float], relation: int, known: int, coverage: float
) -> None:
    asked = (np.array([relation]), np.array([known]))
    total = CALIBRATION.total(torch.tensor([given], dtype=torch.float64))
    least = CALIBRATION.least_score(*asked, total, coverage)
    level = CALIBRATION.levels(asked[1], total, least[:, None])[0, 0]
    assert level == pytest.approx(CALIBRATION.sets.threshold(asked[0], coverage)[0], abs=1e-5)


def test_a_question_without_new_answers_has_no_warning_and_no_probability() -> None:
    nothing = torch.full((1, 3), -math.inf)
    total = CALIBRATION.total(nothing)
    p = CALIBRATION.probabilities(np.array([0]), np.array([3]), total, nothing.double().numpy())
    assert total.tolist() == [0.0] and p.tolist() == [[0.0, 0.0, 0.0]]


def test_facts_and_questions_are_the_literal_formulas() -> None:
    facts = CALIBRATION.fact_probabilities(np.array([0, 3]), np.array([0.7, 0.7]))
    assert facts == pytest.approx([1 / (1 + math.exp(-0.4)), 1 / (1 + math.exp(-(0.1 + 1.5 * 0.4)))])
    questions = CALIBRATION.question_probabilities(np.array([1]), np.array([2]), np.array([1.7]))
    z = -3 + 0.5 * 1.7 + 0.1 * math.log(3) + 1.0 + 0.2 * math.log(21)
    assert questions == pytest.approx([1 / (1 + math.exp(-z))])


def test_larger_coverages_have_lower_thresholds_and_the_largest_has_all_answers() -> None:
    found = [CALIBRATION.sets.threshold(np.array([0, 1]), c).tolist() for c in (0.505, 0.9, 0.9995)]
    assert found[0] == pytest.approx([-0.505, -5.05]) and found[1] == pytest.approx([-0.9, -9.0])
    assert found[2] == [LOWEST, LOWEST]
    for wrong in (0, 1, 1.5, -0.2, True, "0.9"):
        with pytest.raises(BadInput, match=f"coverage is {wrong!r}, but it must be a number between 0 and 1"):
            CALIBRATION.sets.threshold(np.array([0]), wrong)  # type: ignore[arg-type]


def test_the_file_gives_the_calibration_back(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        Calibration.read(tmp_path)
    assert CALIBRATION.write(tmp_path) == tmp_path / FILE
    assert Calibration.read(tmp_path) == CALIBRATION
    assert Calibration.read(tmp_path) != replace(CALIBRATION, checkpoint="other")


@pytest.mark.parametrize(
    ("keys", "value", "sentence"),
    [
        (["format"], 2, "its format is 2, but this program reads up to 1"),
        (["temperature"], 0, "temperature must be from 1e-100 to 1e+100, not 0"),
        (["temperature"], "hot", "temperature must be a number, not the text 'hot'"),
        (["answer_weights"], [1.0], "answer_weights must have 3 numbers, not 1"),
        (["asked"], [1], "asked must have 4 numbers, not 1"),
        (["answers", "of"], [0, 1, 2, 0], "answers.of names a group that does not exist"),
        (["answers", "b"], [1.0, -1.0], "answers.b[1] must be from 1e-06 to 1e+100, not -1.0"),
        (["facts", "a"], [0.0], "the lists of facts do not have the same length"),
        (["sets", "thresholds"], [[0.0], [0.0]], f"the rows of sets.thresholds must have {len(LEVELS)} numbers"),
        (["second"], None, "it has no second"),
    ],
)
def test_a_damaged_file_is_refused_with_one_sentence(
    tmp_path: Path, keys: list[str], value: Any, sentence: str
) -> None:
    document = json.loads(CALIBRATION.write(tmp_path).read_text())
    place = document
    for key in keys[:-1]:
        place = place[key]
    if value is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(Damage) as error:
        Calibration.read(tmp_path)
    assert (
        str(error.value) == f"{tmp_path / FILE} is damaged: {sentence}; make it again with: dura calibrate {tmp_path}"
    )
