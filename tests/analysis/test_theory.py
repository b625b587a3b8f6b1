"""The check of the theorems: what it finds, that it can fail, and that the known norms are the norms."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

from dura.analysis.statements import Decomposition, Statement
from dura.analysis.theory import ROUNDING, STATEMENTS, _draw, _Split, check
from dura.types import BadInput, DuraError

FEW = (STATEMENTS[0], STATEMENTS[3])


def test_all_statements_hold() -> None:
    for verdict in check(draws=8, starts=1, size=4):
        assert verdict.holds, verdict.statement.name
        assert len(verdict.ratios) == 8 + (not verdict.statement.bounded)
        assert list(verdict.ratios) == sorted(verdict.ratios)
        if verdict.statement.bounded:
            assert verdict.gap is not None and verdict.gap < 1e-12
            assert verdict.moved is not None and verdict.moved < 1e-12
            assert verdict.ends < 1e-8
            assert min(verdict.ratios[0], verdict.lowest) > 1 - ROUNDING
            assert verdict.paths[0][0] > 1.01, "a minimisation begins away from the minimum"
        else:
            assert verdict.gap is verdict.moved is verdict.conditions is None
            assert verdict.ratios[0] == 0


@pytest.mark.parametrize("wrong", [0.99, 1.01])
def test_a_wrong_constant_is_found_out(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Statement, "least", wrong)
    (verdict,) = check(STATEMENTS[:1], draws=4, starts=1, size=3)
    assert not verdict.holds


def test_same_seed_same_numbers_whatever_else_is_tried() -> None:
    both, alone = check(FEW, draws=3, starts=1, size=3, seed=7), check(FEW[1:], draws=3, starts=1, size=3, seed=7)
    assert both[1] == alone[0]
    assert check(FEW[:1], draws=3, starts=1, size=3, seed=8)[0].ratios != both[0].ratios


def test_known_norms_are_trace_norms_where_there_is_one_relation() -> None:
    """With one relation a tensor is a matrix, and its nuclear 2-norm the sum of the singular values."""
    chance = torch.Generator().manual_seed(0)
    for _ in range(5):
        columns = _draw(STATEMENTS[0], 6, chance, orthogonal=True)
        one = Decomposition(columns.head, columns.relation[:1], columns.tail)
        matrix = (one.head * one.relation[0]) @ one.tail.T
        assert one.bound() == pytest.approx(float(np.linalg.svd(matrix.numpy(), compute_uv=False).sum()), rel=1e-12)


@pytest.mark.parametrize("statement", [STATEMENTS[0], STATEMENTS[6]], ids=lambda statement: statement.name)
def test_splits_are_other_ways_to_write_the_same_tensor(statement: Statement) -> None:
    chance = torch.Generator().manual_seed(3)
    columns = _draw(statement, 5, chance, orthogonal=True)
    split = _Split(columns)
    other = split.at(split.draw(chance))
    assert other.head.shape[1] == 2 * columns.head.shape[1]
    torch.testing.assert_close(statement.scores(other), statement.scores(columns), rtol=1e-9, atol=1e-12)
    assert other.bound() > columns.bound()


def test_progress_and_plain_values() -> None:
    told: list[tuple[int, int]] = []
    verdicts = check(FEW, draws=2, starts=1, size=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    plain = json.loads(json.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False))
    assert plain[0]["regularizer"] == "dura"
    assert plain[0]["lambdas"] == [1.0, 1.0]
    assert plain[1]["lambdas"] is None


def test_numbers_that_make_no_sense_and_a_missing_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="draws is 0"):
        check(draws=0)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(DuraError, match=r"pip install 'dura-kge\[studies\]'"):
        check(STATEMENTS[:1], draws=1, starts=1)
