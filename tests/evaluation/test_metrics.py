from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.evaluation import GROUPS, by, metrics
from dura.types import SIDES, TIES, BadInput, Metrics, Ranks


def ranks_of(
    greater: list[int], equal: list[int], candidates: list[int], relation: list[int], side: list[int]
) -> Ranks:
    zero = np.zeros(len(greater), dtype=np.int64)
    return Ranks(zero, np.array(relation), zero, np.array(side), *map(np.array, (greater, equal, candidates)))


@st.composite
def some_ranks(draw: st.DrawFn) -> Ranks:
    """Both sides of some facts, many of them with ties and some without any rival."""
    facts, top = draw(st.integers(1, 30)), draw(st.integers(1, 13))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    greater, equal, less = rng.integers(top, size=(3, 2 * facts))
    relation, zero = np.tile(rng.integers(5, size=facts), 2), np.zeros(2 * facts, dtype=np.int64)
    return Ranks(zero, relation, zero, np.repeat([0, 1], facts), greater, equal, 1 + greater + equal + less)


def test_figures_worked_out_by_hand() -> None:
    # realistic ranks 1, 1.5, 3, 10.5 among 9, 9, 21, 41 candidates
    ranks = ranks_of([0, 0, 2, 9], [0, 1, 0, 1], [9, 9, 21, 41], [0, 0, 0, 0], [0, 0, 1, 1])
    realistic = metrics(ranks)
    assert realistic.mrr == pytest.approx((1 + 1 / 1.5 + 1 / 3 + 1 / 10.5) / 4, rel=1e-15)
    assert realistic.hits == {1: 0.25, 3: 0.75, 10: 0.75}
    assert realistic.mean_rank == 4.0
    assert realistic.amri == 1 - 3 / 9.5  # guessing: ranks 5, 5, 11, 21, mean 10.5
    assert realistic.ranks == 4
    assert metrics(ranks, "optimistic").hits == {1: 0.5, 3: 0.75, 10: 1.0}
    assert metrics(ranks, "optimistic").mean_rank == 3.75
    assert metrics(ranks, "pessimistic").hits == {1: 0.25, 3: 0.75, 10: 0.75}
    assert metrics(ranks, "pessimistic").mean_rank == 4.25


def test_the_adjusted_mean_rank_index_at_its_ends() -> None:
    best = ranks_of([0, 0], [0, 0], [10, 4], [0, 0], [0, 1])
    worst = ranks_of([9, 3], [0, 0], [10, 4], [0, 0], [0, 1])
    guessed = ranks_of([0, 0], [9, 3], [10, 4], [0, 0], [0, 1])
    alone = ranks_of([0, 0], [0, 0], [1, 1], [0, 0], [0, 1])
    assert [metrics(r).amri for r in (best, worst, guessed, alone)] == [1.0, -1.0, 0.0, 0.0]


@given(ranks=some_ranks(), seed=st.integers(0, 99))
def test_order_does_not_matter_and_ties_are_bounds(ranks: Ranks, seed: int) -> None:
    shuffled = ranks.select(np.random.default_rng(seed).permutation(len(ranks)))
    optimistic, realistic, pessimistic = (metrics(ranks, ties) for ties in TIES)
    assert [metrics(shuffled, ties) for ties in TIES] == [optimistic, realistic, pessimistic]
    assert optimistic.mrr >= realistic.mrr >= pessimistic.mrr > 0
    assert optimistic.mean_rank <= realistic.mean_rank <= pessimistic.mean_rank
    assert -1 <= pessimistic.amri <= realistic.amri <= optimistic.amri <= 1


@given(ranks=some_ranks())
def test_the_headline_is_the_mean_of_the_two_sides(ranks: Ranks) -> None:
    sides, all_of_it = by(ranks, "side"), metrics(ranks)
    assert list(sides) == list(SIDES)
    assert all_of_it.mrr == pytest.approx((sides["tail"].mrr + sides["head"].mrr) / 2, rel=1e-12)
    assert all_of_it.mean_rank == pytest.approx((sides["tail"].mean_rank + sides["head"].mean_rank) / 2, rel=1e-12)
    for k in (1, 3, 10):
        assert all_of_it.hits[k] == pytest.approx((sides["tail"].hits[k] + sides["head"].hits[k]) / 2, rel=1e-12)


@given(ranks=some_ranks())
def test_groups_share_out_the_ranks(ranks: Ranks) -> None:
    categories = ["N-N", "1-1", "unseen", "N-N", "1-N"]
    for group in GROUPS:
        parts = by(ranks, group, categories=categories, ties="pessimistic")
        assert sum(m.ranks for m in parts.values()) == len(ranks)
        mean = math.fsum(m.mrr * m.ranks for m in parts.values()) / len(ranks)
        assert mean == pytest.approx(metrics(ranks, "pessimistic").mrr, rel=1e-12)


def test_groups_by_relation_category_and_side() -> None:
    ranks = ranks_of([0, 1, 2, 3, 4, 5], [0] * 6, [9] * 6, [2, 0, 4, 2, 0, 4], [0, 0, 0, 1, 1, 1])
    categories = np.array(["N-N", "1-1", "1-N", "1-1", "unseen"])

    def mean_ranks(groups: dict[str, Metrics]) -> dict[str, float]:
        return {name: m.mean_rank for name, m in groups.items()}

    assert mean_ranks(by(ranks, "relation")) == {"0": 3.5, "2": 2.5, "4": 4.5}
    assert mean_ranks(by(ranks, "relation", relations=list("abcde"))) == {"a": 3.5, "c": 2.5, "e": 4.5}
    by_category = mean_ranks(by(ranks, "category", categories=categories))
    assert list(by_category.items()) == [("1-N", 2.5), ("N-N", 3.5), ("unseen", 4.5)]
    both = mean_ranks(by(ranks, "category-side", categories=categories))
    assert list(both) == ["1-N tail", "1-N head", "N-N tail", "N-N head", "unseen tail", "unseen head"]
    assert both["1-N head"] == 4 and both["N-N tail"] == 2


def test_refusals() -> None:
    ranks = ranks_of([0], [0], [9], [0], [0])
    with pytest.raises(BadInput, match="no ranks"):
        metrics(ranks.select(np.array([False])))
    with pytest.raises(BadInput, match="'colour' are not known; known are side, relation"):
        by(ranks, "colour")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="category of each relation"):
        by(ranks, "category")
    assert by(ranks.select(np.array([False])), "side") == {}
