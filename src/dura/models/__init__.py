"""Models: how a fact is scored.

Holds the abstract `Model`, the families (how a relation acts) and one class a model. A model is built from `Sizes` and its
own options and sees no data. To add one: a class here (its constructor is its settings) and a row in `MODELS`, or an entry
point of the group `dura.models` in your own package; laws, command line, presets and docs find it.
"""

from dura.models.model import Model, SemanticMatching
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
    "MODELS",
    "RESCAL",
    "TRESCAL",
    "ComplEx",
    "DistMult",
    "Model",
    "SemanticMatching",
    "TComplEx",
    "TNTComplEx",
    "Temporal",
]
