"""Models: how a fact is scored.

Holds the abstract `Model`, comparators (how a query meets its targets), families (how a relation acts) and one class per model. A
model is built from `Sizes` and its own options. It sees no data; the room may touch tables, registry, text and types. To add one,
write a class here (its constructor is its settings) and a row in `MODELS`, or an entry point of the group `dura.models` in your
own package. Laws, command line and docs find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dura.registry import Registry, late

if TYPE_CHECKING:
    from dura.models.bilinear import SemanticMatching
    from dura.models.comparators import L1, L2, Biased, Comparator, Dot, Modulus, SquaredL2
    from dura.models.model import Model
    from dura.models.state import adopt, restore
    from dura.models.static import CP, RESCAL, ComplEx, DistMult
    from dura.models.temporal import TRESCAL, TComplEx, Temporal, TNTComplEx

MODELS: Registry[Model] = Registry(
    "model",
    "dura.models",
    {
        "cp": "dura.models.static:CP",
        "distmult": "dura.models.static:DistMult",
        "complex": "dura.models.static:ComplEx",
        "rescal": "dura.models.static:RESCAL",
        "tcomplex": "dura.models.temporal:TComplEx",
        "tntcomplex": "dura.models.temporal:TNTComplEx",
        "trescal": "dura.models.temporal:TRESCAL",
        "transe": "dura.models.distance:TransE",
        "rotate": "dura.models.distance:RotatE",
        "star": "dura.models.textual:StAR",
    },
    "dura.models.model:Model",
)
_HOMES = {
    "SemanticMatching": "dura.models.bilinear",
    **dict.fromkeys(("L1", "L2", "Biased", "Comparator", "Dot", "Modulus", "SquaredL2"), "dura.models.comparators"),
    "Model": "dura.models.model",
    **dict.fromkeys(("adopt", "restore"), "dura.models.state"),
    **dict.fromkeys(("CP", "RESCAL", "ComplEx", "DistMult"), "dura.models.static"),
    **dict.fromkeys(("TRESCAL", "TComplEx", "Temporal", "TNTComplEx"), "dura.models.temporal"),
}
# Late, so that a user of the names alone does not import torch.
__getattr__ = late(__name__, _HOMES)

__all__ = [
    "CP",
    "L1",
    "L2",
    "MODELS",
    "RESCAL",
    "TRESCAL",
    "Biased",
    "ComplEx",
    "Comparator",
    "DistMult",
    "Dot",
    "Model",
    "Modulus",
    "SemanticMatching",
    "SquaredL2",
    "TComplEx",
    "TNTComplEx",
    "Temporal",
    "adopt",
    "restore",
]
