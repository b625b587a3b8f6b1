"""Estimates against the sums that they stand for, and against times that were measured."""

from __future__ import annotations

import pytest

import dura
from dura.reproduction import estimates
from dura.reproduction.cells import cells
from dura.reproduction.estimates import (
    DRAWN_NUMBERS_A_SECOND,
    MATRIX_BYTES_A_SECOND,
    MATRIX_SECONDS,
    NUMBERS_A_SECOND,
    PROCESS_BYTES,
    PRODUCT_SHARE,
    QUESTIONS,
    ROW_BYTES_A_SECOND,
    START_SECONDS,
    STEP_SECONDS,
    TIME_BYTES_A_SECOND,
    Estimate,
    estimate,
)
from dura.runs.presets import preset

MEASURED = {
    "fb15k-237/complex-dura-laptop": 31,
    "fb15k-237/cp-dura-laptop": 10,
    "fb15k-237/rescal-dura-laptop": 7.5,
    "wn18rr/complex-dura-laptop": 7,
    "wn18rr/cp-dura-laptop": 4,
    "wn18rr/rescal-dura-laptop": 3,
    "icews14/tcomplex-dura1-laptop": 20,
    "icews14/trescal-dura1-laptop": 6,
    "icews05-15/tcomplex-dura1-laptop": 15,
    "icews05-15/trescal-dura1-laptop": 16,
    "yago15k/tcomplex-dura1-laptop": 10,
    "yago15k/trescal-dura1-laptop": 5.5,
    "wn18rr/rescal-dura-headline": 72,
    "wn18rr/complex-dura-headline": 20 * 89 / 60,
}
"""Minutes of steps on one thread in docs/results.md; the last one is 20 times the measured seconds of an epoch."""
CORE = 90e9


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimate as on a machine that has no faster products than those of float32."""
    monkeypatch.setattr(estimates, "bf16_gain", lambda: 1.0)


def of(name: str, speed: float = 1e9) -> tuple[int, float]:
    (cell,) = cells(only=[name])
    bytes_, seconds = cell.cost(speed)
    assert bytes_ is not None and seconds is not None
    return bytes_, seconds


def products(questions: int, entities: int, width: int) -> float:
    """The three products of training at 1e9 operations per second."""
    return 6 * questions * entities * width / (PRODUCT_SHARE * 1e9)


@pytest.mark.parametrize("name", MEASURED)
def test_estimates_are_near_what_was_measured(name: str) -> None:
    assert of(name, CORE)[1] / 60 == pytest.approx(MEASURED[name], rel=0.45)


def test_questions_are_counted_right() -> None:
    for name in ("umls", "nations", "kinships"):
        assert len(dura.load(name).questions) == QUESTIONS[name]


def test_all_entities_and_every_ranking_are_counted() -> None:
    bytes_, seconds = of("fb15k-237/complex-dura-laptop")
    numbers = 400 * (14541 + 2 * 237)
    assert bytes_ == PROCESS_BYTES + 3 * 4 * numbers + 4 * 14541 * 250
    epoch = products(149_689, 14541, 400) + -(-149_689 // 250) * STEP_SECONDS
    ranking = products(24 * 2 * 17535 + 2 * 20466, 14541, 400) / 3
    assert seconds == pytest.approx(START_SECONDS + 24 * epoch + ranking)


def test_matrices_and_smoothed_times_are_counted() -> None:
    bytes_, seconds = of("icews05-15/trescal-dura1")
    numbers = 10488 * 256 + (2 * 251 + 4017) * 256**2
    assert bytes_ == PROCESS_BYTES + 3 * 4 * numbers + 4 * 10488 * 1000
    facts, pairs = 2 * 368_962, 1000  # batches of facts ask each one; nearly as many pairs as facts of a step
    step = STEP_SECONDS + pairs * (MATRIX_SECONDS + 4 * 256**2 / MATRIX_BYTES_A_SECOND)
    step += 4 * 4017 * 256**2 / TIME_BYTES_A_SECOND
    ranking = products(50 * 2 * 46275 + 2 * 46092, 10488, 256) / 3
    assert seconds == pytest.approx(START_SECONDS + 50 * (products(facts, 10488, 256) + 738 * step) + ranking, rel=1e-3)


def test_a_sample_is_scored_and_its_rows_are_updated_but_all_entities_have_rows() -> None:
    bytes_, seconds = of("wn18rr/cp-none-laptop")
    assert bytes_ == PROCESS_BYTES + 3 * 4 * 200 * (2 * 40943 + 22) + 4 * 2048 * 250
    step = STEP_SECONDS + 4 * 200 * 2048 / ROW_BYTES_A_SECOND
    ranking = products(24 * 2 * 3034 + 2 * 3134, 40943, 200) / 3
    assert seconds == pytest.approx(START_SECONDS + 24 * (products(103_509, 2048, 200) + 415 * step) + ranking)


def test_the_last_exact_epochs_count_as_exact() -> None:
    sampled = preset("fb15k-237/complex-dura-headline").with_value("candidates.exact", 0)
    bytes_, seconds = of("fb15k-237/complex-dura-headline")
    before = estimate(sampled, 1e9)
    assert before.bytes is not None and before.seconds is not None
    more = products(149_689, 14541 - 1024, 4000) - 599 * 4 * 4000 * 1024 / ROW_BYTES_A_SECOND
    assert seconds - before.seconds == pytest.approx(8 * more)
    assert bytes_ - before.bytes == 4 * (14541 - 1024) * 250


@pytest.mark.parametrize(("precision", "gain", "faster"), [("bf16", 2.0, 2), ("auto", 2.0, 2), ("auto", 1.1, 1)])
def test_products_of_another_precision_have_their_own_speed(
    precision: str, gain: float, faster: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranking keeps float32."""
    monkeypatch.setattr(estimates, "bf16_gain", lambda: gain)
    exact = preset("wn18rr/complex-none").with_values({"training.epochs": 1, "training.batching": "questions"})
    before, after = (estimate(each, 1e9).seconds for each in (exact, exact.with_value("training.precision", precision)))
    assert before is not None and after is not None
    assert before - after == pytest.approx((1 - 1 / faster) * products(103_509, 40943, 4000))


def test_what_is_not_a_product_has_its_own_speed() -> None:
    _, drawn = of("fb15k-237/transe-laptop")
    ranking = 2 * 2 * 17535 + 2 * 20466  # valid after 12 and 24 epochs
    each = 24 * 2 * 272_115 * 64 / DRAWN_NUMBERS_A_SECOND + ranking * 14541 / 3 / NUMBERS_A_SECOND
    assert drawn == pytest.approx(START_SECONDS + 24 * -(-149_689 // 500) * STEP_SECONDS + 128 * each)
    assert of("fb15k-237/transe-laptop", 1e12)[1] == drawn


def test_a_graph_that_is_not_in_the_catalog_has_no_estimate() -> None:
    assert estimate(preset("umls/cp-none").with_value("graph.source", "mine.tsv"), 1e9) == Estimate(None, None)
