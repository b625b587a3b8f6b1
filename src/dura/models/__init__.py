"""Models: how a fact is scored.

Holds the abstract `Model`, comparators (how a query meets its targets), families (how a relation acts) and one class per model. A
model is built from `Sizes` and its own options. It sees no data. To add one, write a class here (its constructor is its settings)
and a row in `MODELS`, or an entry point of the group `dura.models` in your own package. Laws, command line and docs find it.
"""

from dura.models.bilinear import SemanticMatching
from dura.models.comparators import L1, L2, Biased, Comparator, Dot, Modulus, SquaredL2
from dura.models.model import Model, adopt, restore
from dura.models.static import CP, RESCAL, ComplEx, DistMult
from dura.models.temporal import TRESCAL, TComplEx, Temporal, TNTComplEx
from dura.registry import Registry

MODELS: Registry[Model] = Registry(
    "model",
    "dura.models",
    {
        "cp": CP,
        "distmult": DistMult,
        "complex": ComplEx,
        "rescal": RESCAL,
        "tcomplex": TComplEx,
        "tntcomplex": TNTComplEx,
        "trescal": TRESCAL,
    },
)

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
