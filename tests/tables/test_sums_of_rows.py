"""Sums over runs equal those of torch's own addition by index, and an inner product read in place equals the copied one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.models.comparators import Dot
from dura.tables import Room, Runs, Table


@settings(max_examples=60)
@given(
    items=st.integers(0, 30),
    runs=st.integers(1, 9),
    weighted=st.booleans(),
    picked=st.booleans(),
    seed=st.integers(0, 999),
)
def test_sums_are_those_of_an_addition_by_index(items: int, runs: int, weighted: bool, picked: bool, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    run, which = (torch.randint(runs, (items,), generator=rng) for _ in range(2))
    rows = torch.randn(runs if picked else items, 5, dtype=torch.float64, generator=rng)
    weights = torch.randn(items, dtype=torch.float64, generator=rng) if weighted else None
    each = rows[which] if picked else rows
    expected = torch.zeros(runs, 5, dtype=torch.float64).index_add_(
        0, run, each if weights is None else each * weights[:, None]
    )
    torch.testing.assert_close(Runs(run, runs).sums(rows, which if picked else None, weights), expected)


def test_keys_become_runs() -> None:
    keys, runs = Runs.by(torch.tensor([7, 3, 7]))
    assert keys.tolist() == [3, 7] and runs.run.tolist() == [1, 0, 1] and runs.runs == 2


@pytest.mark.parametrize("facts", [1, 9])
def test_facts_scored_in_place_have_the_gradients_of_copied_rows(facts: int) -> None:
    torch.manual_seed(0)
    query, table = torch.randn(4, 3).double(), Table(torch.randn(6, 3).double())
    row, ids, slopes = (
        torch.randint(4, (facts,)).sort().values,
        torch.randint(6, (facts, 1)),
        torch.randn(facts, 1).double(),
    )
    found, already = Dot().among(query, row, table, ids), torch.randn(4, 3).double()
    assert found is not None
    scores, pull = found
    by_query = already.clone()
    pull(slopes, by_query)
    one, two = Dot().pull_pairs(slopes[:, 0], query[row], table.rows[ids[:, 0]])
    torch.testing.assert_close(scores[:, 0], Dot().pairs(query[row], table.rows[ids[:, 0]]))
    torch.testing.assert_close(by_query, already.index_add(0, row, one))
    torch.testing.assert_close(table.gradient(), torch.zeros(6, 3).double().index_add_(0, ids[:, 0], two))


def test_a_room_is_used_again_and_grows() -> None:
    room, like = Room(), torch.zeros(1)
    first = room.of((2, 3), like)
    assert room.of((3, 2), like).data_ptr() == first.data_ptr()
    assert room.of((4, 3), like).shape == (4, 3)
    assert room.of((1,), like.double()).dtype == torch.float64
