"""Analysis: what the numbers of a model are worth, and what theory says of them.

Holds `sparsity` (how many entries can be zero), `projection` (are answers to the same question near each other?), `statements` and
`theory` (the paper's theorems, tried on the models and regularizers themselves). May touch models, regularizers and data, but
neither training nor evaluation: what needs them takes a callable. To add a study: a function here from arrays or
a model to plain values, its place among the runs in `experiments`, its table and figure in `reports`, a command in `cli`.
"""
