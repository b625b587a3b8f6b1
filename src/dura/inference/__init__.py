"""Inference: what a trained model answers.

Holds the prediction of missing facts; calibration, new entities and an index of nearest answers come here. May touch models,
data and types, and knows neither training nor evaluation. To add a way of asking: a module that derives it from `query` and
`compare`, never a score of its own.
"""

from dura.inference.predict import Answer, Answers, Question, predict

__all__ = ["Answer", "Answers", "Question", "predict"]
