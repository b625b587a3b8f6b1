"""Inference: what a trained model answers.

Holds the prediction of missing facts: `predict` for entities, `when` for times, `score` for given facts, `asking` for files of
questions, and `answers` (questions and answers as values). May touch models, data, text and types; not training or evaluation. To
add a way of asking, write a module that uses the model's `query`, `compare` and `score`. It must not compute scores in another way.
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
