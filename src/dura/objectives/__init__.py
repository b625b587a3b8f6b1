"""Objectives: what a batch of questions should score.

Holds losses (scores to a loss and the gradient of the scores), candidates (all entities, a corrected sample, negatives per fact)
and terms (which hole is asked: tails, relations or times, each with a weight). May touch models, data and tables. To add a loss or
a kind of candidates: a class and a row in `LOSSES` or `CANDIDATES`, or an entry point in your own package.
"""

from dura.objectives.candidates import CANDIDATES, All, Candidates, Negatives, Sample
from dura.objectives.known import Known
from dura.objectives.losses import LOSSES, BinaryCrossEntropy, Loss, MarginRanking, SelfAdversarial, Softmax, Truth
from dura.objectives.terms import HOLES, Hole, Objective, Term, objective_of

__all__ = [
    "CANDIDATES",
    "HOLES",
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
