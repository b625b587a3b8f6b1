"""How settings and their values are written in sheets and on axes."""

from __future__ import annotations

import pytest

from dura.sheets.figures import figure
from dura.sheets.settings import called, decimals, scale


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.5, 1.5], 1), ([0.001, 0.1], 3), ([3e-5, 1.0], 5), ([0.0123456, 3.3], 4), ([1, 2], 1), ([], 1), ([0.0], 1)],
)
def test_numbers_show_their_digits(values: list[object], expected: int) -> None:
    assert decimals(values) == expected


def test_settings_are_called_by_their_symbols() -> None:
    assert called("regularizer.lambda3") == "λ₃  (regularizer.lambda3)"
    assert called("training.epochs") == "training.epochs"


@pytest.mark.parametrize(
    ("values", "kind", "ticks"),
    [
        ([0.001, 0.01, 0.1], "log", ["0.001", "0.01", "0.1"]),
        ([0.0, 0.001, 0.1], "symlog", ["0", "0.001", "0.1"]),
        ([50, 100], "linear", ["50", "100"]),
        ([-1.0, 100.0], "linear", ["-1", "100"]),
        (["n3", "dura", "n3"], "linear", ["dura", "n3"]),
        ([True, False], "linear", ["False", "True"]),
    ],
)
def test_scales_fit_the_values(values: list[object], kind: str, ticks: list[str]) -> None:
    with figure() as (_, axes):
        panel = axes[0][0]
        at = scale(panel, values)
        assert panel.get_xscale() == kind
        assert [label.get_text() for label in panel.get_xticklabels()] == ticks
        assert len(at) == len(values)


def test_values_close_together_have_no_ticks_of_their_own() -> None:
    with figure() as (_, axes):
        scale(axes[0][0], [0.0003, 0.001, 0.002, 0.003, 0.01])
        assert "0.002" not in [label.get_text() for label in axes[0][0].get_xticklabels()]
