"""`dura study`: the paper's studies, each a table and a figure of trained runs."""

from __future__ import annotations

import typer

from dura.cli import categories, projection, sensitivity, sparsity, theory
from dura.cli.common import HELP

app = typer.Typer(
    help="The paper's studies: each prints a table and leaves it with a figure in a folder.\n\n"
    "Example:\n\n"
    "    dura study sparsity runs/dura runs/none",
    no_args_is_help=True,
    **HELP,
)
app.command()(sensitivity.sensitivity)
app.command()(sparsity.sparsity)
app.command()(categories.categories)
app.command()(projection.projection)
app.command()(theory.theory)
