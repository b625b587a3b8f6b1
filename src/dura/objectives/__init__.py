"""Objectives: what a batch of questions should score.

Holds losses (scores to a loss and the gradient of the scores), candidates (all entities, a corrected sample, negatives per fact)
and terms (which hole is asked: tails, relations or times, each with a weight). May touch models, data and tables. To add a loss or
a kind of candidates: a class and a row in `LOSSES` or `CANDIDATES`, or an entry point in your own package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dura.registry import Registry, late

if TYPE_CHECKING:
    from dura.objectives.candidates import All, Candidates, Negatives, Sample
    from dura.objectives.known import Known
    from dura.objectives.losses import BinaryCrossEntropy, Loss, MarginRanking, SelfAdversarial, Softmax, Truth
    from dura.objectives.terms import Hole, Objective, Term, objective_of

LOSSES: Registry[Loss] = Registry(
    "loss",
    "dura.losses",
    {
        "softmax": "dura.objectives.losses:Softmax",
        "binary": "dura.objectives.losses:BinaryCrossEntropy",
        "margin": "dura.objectives.losses:MarginRanking",
        "self-adversarial": "dura.objectives.losses:SelfAdversarial",
    },
    "dura.objectives.losses:Loss",
)
CANDIDATES: Registry[Candidates] = Registry(
    "candidates",
    "dura.candidates",
    {
        "all": "dura.objectives.candidates:All",
        "sample": "dura.objectives.candidates:Sample",
        "negatives": "dura.objectives.candidates:Negatives",
    },
    "dura.objectives.candidates:Candidates",
)
_LOSSES = ("BinaryCrossEntropy", "Loss", "MarginRanking", "SelfAdversarial", "Softmax", "Truth")
_HOMES = {
    **dict.fromkeys(("All", "Candidates", "Negatives", "Sample"), "dura.objectives.candidates"),
    "Known": "dura.objectives.known",
    **dict.fromkeys(_LOSSES, "dura.objectives.losses"),
    **dict.fromkeys(("Hole", "Objective", "Term", "objective_of"), "dura.objectives.terms"),
}
# Late, so that a user of the names alone does not import torch.
__getattr__ = late(__name__, _HOMES)

__all__ = [
    "CANDIDATES",
    "LOSSES",
    "All",
    "BinaryCrossEntropy",
    "Candidates",
    "Hole",
    "Known",
    "Loss",
    "MarginRanking",
    "Negatives",
    "Objective",
    "Sample",
    "SelfAdversarial",
    "Softmax",
    "Term",
    "Truth",
    "objective_of",
]
