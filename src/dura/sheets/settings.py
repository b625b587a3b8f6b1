"""Settings: how a setting and its values are written in a sheet and on the axis of a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SYMBOLS = {
    "regularizer.weight": "λ",
    **{f"regularizer.lambda{i}": f"λ{'₀₁₂₃₄'[i]}" for i in (1, 2, 3, 4)},
    "smoothness.weight": "smoothness",
    "model.rank": "rank",
    "training.batch": "batch",
    "optimizer.lr": "learning rate",
}
"""The usual name or symbol of a setting, in the order in which they are shown."""
ROOM = 0.12
"""Share of the axis: each value has its own tick if all are at least this far apart."""


def called(path: str) -> str:
    """A setting with its symbol, for the label of an axis.

    >>> called("regularizer.weight"), called("training.epochs")
    ('λ  (regularizer.weight)', 'training.epochs')
    """
    return f"{SYMBOLS[path]}  ({path})" if path in SYMBOLS else path


def decimals(values: Sequence[object]) -> int:
    """How many decimals to show: enough for all digits of short numbers, else three digits of the smallest number.

    >>> decimals([0.5, 1.5]), decimals([0.003, 0.01]), decimals([0.0123456, 3.3])
    (1, 3, 4)
    """
    floats = [abs(value) for value in values if isinstance(value, float) and value]
    if not floats:
        return 1
    most = max(1, 2 - math.floor(math.log10(min(floats))))
    return next((d for d in range(1, most) if all(math.isclose(round(v, d), v) for v in floats)), most)


def scale(panel: Axes, values: Sequence[object]) -> list[float]:
    """Set the panel's scale for these values and return their places on it: logarithmic over decades, a place per name."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        names = sorted({str(value) for value in values})
        panel.set_xticks(range(len(names)), names)
        panel.margins(x=0.2)
        return [float(names.index(str(value))) for value in values]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    distinct = sorted(set(numbers))
    places, positive = distinct, [number for number in distinct if number > 0]
    if distinct[0] >= 0 and positive and positive[-1] >= 10 * positive[0]:
        # Zero has no place on a logarithmic scale; it gets one below the smallest.
        zero: dict[str, Any] = {"linthresh": positive[0], "linscale": 0.5} if distinct[0] == 0 else {}
        panel.set_xscale("symlog" if zero else "log", **zero)
        places = [math.log10(max(number, positive[0] / 3)) for number in distinct]
    span = places[-1] - places[0]
    if all(after - before >= ROOM * span for before, after in pairwise(places)):
        panel.set_xticks(distinct, [f"{number:g}" for number in distinct])
        panel.set_xticks([], minor=True)
    return numbers
