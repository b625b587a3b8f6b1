"""Inference: what a trained model answers.

Holds the prediction of missing facts: `predict` for entities, `when` for times, `asking` for files of questions. May touch models,
data and types, and knows neither training nor evaluation. To add a way of asking: a module that derives it from the model's
`query`, `compare` and `score`, never a score of its own.
"""

from dura.inference.answers import Answer, Answers, Question, TimeAnswer, TimeAnswers
from dura.inference.predict import ask, predict, time_id
from dura.inference.score import score_facts
from dura.inference.when import when

__all__ = [
    "Answer",
    "Answers",
    "Question",
    "TimeAnswer",
    "TimeAnswers",
    "ask",
    "predict",
    "score_facts",
    "time_id",
    "when",
]
