"""Regularizers: sums over the facts of a batch, divided by their number.

A regularizer sees `Factors`, never a model. The smoothness of times, which sees their table, has a file of its own. The room may
touch tables, registry and types. To add one, write a class whose constructor is its settings in `forms` (or in `relatives`, if it
is another paper's) and a row in `REGULARIZERS`, or an entry point of the group `dura.regularizers` in your own package. The weights
of a loss never apply here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dura.registry import Registry, late

if TYPE_CHECKING:
    from dura.regularizers.forms import Regularizer, squares
    from dura.regularizers.smoothness import Smoothness

REGULARIZERS: Registry[Regularizer] = Registry(
    "regularizer",
    "dura.regularizers",
    {
        "none": "dura.regularizers.forms:NoRegularizer",
        "fro": "dura.regularizers.forms:Frobenius",
        "n3": "dura.regularizers.forms:N3",
        "dura": "dura.regularizers.forms:DURA",
        "dura-i": "dura.regularizers.forms:DURAI",
        "dura-ii": "dura.regularizers.forms:DURAII",
        "dura1": "dura.regularizers.forms:DURA1",
        "dura2": "dura.regularizers.forms:DURA2",
        "dura12": "dura.regularizers.forms:DURA12",
        "reg-p1": "dura.regularizers.forms:RegP1",
        "er": "dura.regularizers.relatives:ER",
        "ivr": "dura.regularizers.relatives:IVR",
    },
    "dura.regularizers.forms:Regularizer",
)
_HOMES = dict.fromkeys(("Regularizer", "squares"), "dura.regularizers.forms") | {
    "Smoothness": "dura.regularizers.smoothness"
}
# Late, so that a user of the names alone does not import torch.
__getattr__ = late(__name__, _HOMES)

__all__ = ["REGULARIZERS", "Regularizer", "Smoothness", "squares"]
