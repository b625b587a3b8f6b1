"""λ-sparsity by its literal definition, bytes by hand, and a model that is as before after a study."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import built, packable
from dura.analysis.sparsity import curve, entity_tables, sparse_bytes, thresholds, zeroed
from dura.models import CP, DistMult
from dura.tables import Table
from dura.tables.packed import Csr, Small
from dura.types import BadInput, Metrics, Sizes
from plain import Plain, table_of

SIZES = Sizes(entities=11, relations=2, times=3)
METRICS = Metrics(0.5, {1: 0.1, 3: 0.2, 10: 0.3}, 2.0, 0.1, 4)


def literal_sparsity(rows: list[list[float]], threshold: float) -> float:
    """s_λ = Σ_i Σ_d 1{|E_id| < λ} / (I·D)."""
    return sum(abs(x) < threshold for row in rows for x in row) / sum(map(len, rows))


@pytest.mark.parametrize("name", packable())
def test_the_threshold_makes_the_share_zero_in_every_model(name: str) -> None:
    torch.manual_seed(2)
    model = built(name, SIZES, rank=6)
    tables = entity_tables(model)
    assert set(tables) == ({"entity", "tail"} if name == "cp" else {"entity"})
    rows = [row for table in tables.values() for row in table.tolist()]
    shares = [0.0, 0.25, 0.5, 0.9]
    found = thresholds(model, shares)
    assert found[0] == 0
    assert found == sorted(found)
    for share, threshold in zip(shares, found, strict=True):
        numbers = len(rows) * len(rows[0])
        assert literal_sparsity(rows, threshold) == pytest.approx(round(share * numbers) / numbers, abs=1e-12)
        before = {key: table.detach().clone() for key, table in model.named_parameters()}
        with zeroed(model, threshold):
            for key, table in tables.items():
                assert torch.equal(table, torch.where(before[key].abs() < threshold, 0, before[key]))
        assert all(torch.equal(table, before[key]) for key, table in model.named_parameters())


@settings(max_examples=50)
@given(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=11, max_size=11), st.floats(0, 0.99))
def test_with_ties_no_more_than_the_share_become_zero(column: list[float], share: float) -> None:
    model = DistMult(SIZES, rank=1)
    table_of(model).data.copy_(torch.tensor(column)[:, None])
    (threshold,) = thresholds(model, [share])
    below = sum(abs(x) < threshold for x in column)
    assert below <= round(share * 11)
    assert sum(abs(x) <= threshold for x in column) >= min(11, round(share * 11) + 1) or not round(share * 11)


@pytest.mark.parametrize("share", [-0.1, 1.0, 7.0, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(BadInput, match="at least 0 and below 1"):
        thresholds(CP(SIZES, rank=2), [share])


def test_the_curve_asks_once_per_share_with_the_entries_zero() -> None:
    torch.manual_seed(0)
    model = CP(SIZES, rank=5, init_scale=1.0)
    tables, seen, told = list(entity_tables(model).values()), list[int](), list[tuple[int, int]]()

    def evaluate() -> Metrics:
        seen.append(sum(int((table == 0).sum()) for table in tables))
        return METRICS

    levels = curve(model, [0.0, 0.4, 0.8], evaluate, lambda done, of: told.append((done, of)))
    assert seen == [0, 44, 88]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [level.zeros for level in levels] == pytest.approx([0, 0.4, 0.8])
    assert [level.dense for level in levels] == [2 * 4 * 55] * 3
    assert levels[2].metrics is METRICS


def test_bytes_are_those_of_the_sparse_rows_and_columns() -> None:
    torch.manual_seed(0)
    model = DistMult(Sizes(300, 2), rank=40, init_scale=1.0)
    (level,) = curve(model, [0.7], lambda: METRICS)
    table = torch.where(table_of(model).abs() < level.threshold, 0, table_of(model)).detach()
    assert level.csr == Csr.of(table, "float32").bytes == 3600 * (4 + 1) + 301 * 2
    assert level.csc == 3600 * (4 + 2) + 41 * 2
    columns = scipy.sparse.csc_array(table.numpy())
    assert len(columns.data) == 3600
    assert level.csc == Csr.of(table.mT.contiguous(), "float32").bytes
    assert np.abs(columns.data).min() >= level.threshold
    assert sparse_bytes(10, 300, 0) == 11


def test_what_cannot_be_studied_is_refused() -> None:
    model = DistMult(SIZES, rank=4)
    table_of(model).data[3, 1] = float("nan")
    with pytest.raises(BadInput, match="not finite"):
        thresholds(model, [0.5])
    del model.entity
    model.entity = Small.of(torch.zeros(11, 4), "int8")
    with pytest.raises(BadInput, match="packed already; use the run that it was exported from"):
        thresholds(model, [0.5])
    with pytest.raises(
        BadInput, match="the model Plain does not list its tables of entities, so none can be made small"
    ):
        entity_tables(Plain(Table(torch.zeros(3, 2))))
