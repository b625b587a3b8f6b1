"""Run folders of strangers: small valid ones, a seeded list of changes to them, and what must come of each.

`changes` holds what can be done to a folder, `cases` the list. `python -m hostile FOLDER KIND` judges the changes to one kind of
folder, with a limit of memory and a clock for each; the test starts it as a process of its own.
"""
