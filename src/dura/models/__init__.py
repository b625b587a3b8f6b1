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
    from dura.models.comparators import (
        L1,
        L2,
        Biased,
        Comparator,
        Dot,
        Hyperplane,
        Modulus,
        Poincare,
        Polar,
        Pushed,
        SquaredL2,
    )
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
        "transh": "dura.models.projected:TransH",
        "transd": "dura.models.projected:TransD",
        "se": "dura.models.projected:SE",
        "mode": "dura.models.distance:ModE",
        "rotate": "dura.models.distance:RotatE",
        "mure": "dura.models.hyperbolic:MuRE",
        "murp": "dura.models.hyperbolic:MuRP",
        "hake": "dura.models.polar:HAKE",
        "conve": "dura.models.neural:ConvE",
        "interacte": "dura.models.neural:InteractE",
        "tucker": "dura.models.tucker:TuckER",
        "convkb": "dura.models.pairwise:ConvKB",
        "kbgat": "dura.models.attention:KBGAT",
        "star": "dura.models.textual:StAR",
        "ttranse": "dura.models.dated:TTransE",
        "tatranse": "dura.models.dated:TATransE",
        "hyte": "dura.models.dated:HyTE",
        "rtfe": "dura.models.rtfe:RTFE",
        "boxte": "dura.models.boxes:BoxTE",
        "cont": "dura.models.cont:ConT",
        "dedicom": "dura.models.dedicom:DEDICOM",
    },
    "dura.models.model:Model",
)
_COMPARATORS = (
    "L1",
    "L2",
    "Biased",
    "Comparator",
    "Dot",
    "Hyperplane",
    "Modulus",
    "Poincare",
    "Polar",
    "Pushed",
    "SquaredL2",
)
_HOMES = {
    "SemanticMatching": "dura.models.bilinear",
    **dict.fromkeys(_COMPARATORS, "dura.models.comparators"),
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
    "Hyperplane",
    "Model",
    "Modulus",
    "Poincare",
    "Polar",
    "Pushed",
    "SemanticMatching",
    "SquaredL2",
    "TComplEx",
    "TNTComplEx",
    "Temporal",
    "adopt",
    "restore",
]
