"""Command line: parses what is typed, calls one function of the rooms below, and shows the result as text or JSON.

One module per command; `main` joins them, and `dura.__main__` adds the commands of other rooms (`dura serve`). Modules import torch
only inside the commands, so that help is fast. Results go to standard output, everything else to standard error. Exit codes: 0
done, 1 the work failed, 2 wrong input, 130 interrupted. May touch every room but `web`. To add a command, write a module with a
function whose parameters are its options, and add it in `main.program`.
"""
