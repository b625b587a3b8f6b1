"""The same weights give the same scores in PyKEEN, where it is installed."""

from __future__ import annotations

import pytest

from dura.models import MODELS
from same_scores import COPIES, NEAR, difference


@pytest.mark.parametrize("name", COPIES)
def test_the_same_weights_give_the_same_scores_in_pykeen(name: str) -> None:
    pytest.importorskip("pykeen", reason="PyKEEN is only in the environment of the benchmarks")
    if name not in MODELS.names():
        pytest.skip(f"{name} is not a model of this version")
    assert difference(name) <= NEAR
