"""Training: the loop, its optimizers, its checkpoints and how it looks to a person.

May touch models, objectives, regularizers, questions and what lies below; never evaluation (the loop receives `validate` as a
callable). To watch training, write a `Listener`.
"""
