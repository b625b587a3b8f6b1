"""The tables of the benchmark of the index have the shape of trained ones."""

from __future__ import annotations

import numpy as np

import index


def test_grown_rows_keep_the_trained_ones_and_lie_near_them() -> None:
    centres = np.random.default_rng(0).normal(size=(5, 8)) * 20
    rows = (np.repeat(centres, 20, 0) + np.random.default_rng(1).normal(size=(100, 8))).astype(np.float32)
    more = index.grown(rows, 500)
    assert more.shape == (500, 8) and np.array_equal(more[:100], rows)
    far = np.sqrt(((more[100:, None] - rows[None]) ** 2).sum(2)).min(1)
    between = np.sqrt(((centres[0] - centres[1]) ** 2).sum())
    assert far.max() < between / 2
    assert np.array_equal(index.grown(rows, 40), rows[:40])
