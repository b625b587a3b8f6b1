"""Analysis: numerical studies of trained models, and of what the theory says about them.

Holds `sparsity` (how many entries can be zero), `projection` (are answers to the same question near each other?), `sensitivity`
(which runs differ in one setting only), `statements` and `theory` (the paper's theorems, checked with our models and regularizers).
Everything here goes from arrays, a model or plain values to plain values. It may touch models, regularizers, data, tables, registry
and types, but neither training nor evaluation: a function that needs metrics takes a callable. To add an analysis, write a function
here; if it becomes a study, add a module in `studies`, which opens the runs, prints the sheet and draws the figure.
"""
