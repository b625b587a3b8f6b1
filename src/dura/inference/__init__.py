"""Inference: what a trained model answers.

Holds the prediction of missing facts: `predict` for entities, `when` for times, `score` for given facts, `asking` for files of
questions, `restriction` for what may be shown, `nearest` for approximate answers from an index, and `answers` (questions, wishes,
answers as values). `discover` searches the whole graph. `calibration` turns scores into probabilities. `explain` says why:
`influence` (which training facts an answer depends on, by gradients of `rows`), `rules` (mined from the training facts, also
without a model; `paths` walks over the facts) and `explanation` (the result). `weighing` and `adaptive` fit combinations of models,
and `ruled` makes rules a member of one. May touch models, data, records, text and types; not training or evaluation. To add
a way of asking, write a module that uses the model's `query`, `compare` and `score`. It must not compute scores in another way.
"""

from dura.inference.answers import Answer, Answers, Question, TimeAnswer, TimeAnswers, Wanted
from dura.inference.calibration import Calibration
from dura.inference.explanation import Explanation
from dura.inference.predict import Asker, ask, predict, time_id
from dura.inference.score import score_facts
from dura.inference.when import when

__all__ = [
    "Answer",
    "Answers",
    "Asker",
    "Calibration",
    "Explanation",
    "Question",
    "TimeAnswer",
    "TimeAnswers",
    "Wanted",
    "ask",
    "predict",
    "score_facts",
    "time_id",
    "when",
]
