"""Command line: what is typed into calls of the rooms below, and what they return into tables or JSON.

One module a command; `main` joins them. Modules import torch only inside the commands, so that help is instant. Results go to
standard output, everything else to standard error. Exit codes: 0 done, 1 the work failed, 2 wrong input, 130 interrupted.
"""
