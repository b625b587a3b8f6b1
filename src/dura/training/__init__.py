"""Training: the loop that fits a model to questions.

Holds the loop (`trainer`), that for the rows of new entities (`rows`), the optimizers (`optimizers`), checkpoints and how they are
checked (`checkpoint`, `restoring`) and the progress display (`display`). May touch models, objectives, regularizers, data and what
lies below. It never imports evaluation: the loop receives `validate` as a callable. To watch training, write a `Listener`. Every
optimizer of torch is available by its name.
"""
