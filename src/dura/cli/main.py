"""The program: its commands, and how it ends after an error. `dura.__main__` adds the commands of other rooms."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dura import world
from dura.cli import (
    calibrate,
    combine,
    data,
    demo,
    discover,
    evaluate,
    explain,
    export,
    fold_in,
    index,
    neighbours,
    predict,
    report,
    reproduce,
    score,
    study,
    sweep,
    text,
    train,
)
from dura.cli import map as mapping
from dura.cli.common import HELP, fail, say
from dura.cli.usage import Group
from dura.types import DuraError, Notice


def _version(wanted: bool) -> None:
    if wanted:
        from dura import __version__

        typer.echo(f"dura {__version__}")
        raise typer.Exit


TOGETHER = ("train", "evaluate", "predict")
"""The commands that torchrun may start in several processes."""


def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Knowledge graph completion: learn from a file of facts, predict which facts are missing."""
    if context.invoked_subcommand not in TOGETHER:
        world.alone(f"dura {context.invoked_subcommand}")


def program(*others: Callable[..., None]) -> typer.Typer:
    """The command line with all commands of this room, and `others` among them."""
    app = typer.Typer(
        name="dura",
        cls=Group,
        help="Knowledge graph completion: learn from a file of facts, predict which facts are missing.\n\n"
        "Example:\n\n"
        "    dura train --graph facts.tsv --out runs/mine\n\n"
        "    dura evaluate runs/mine\n\n"
        "    dura predict runs/mine --head Berlin --relation located_in",
        epilog="Exit codes: 0 done, 1 the work failed, 2 wrong input, 130 interrupted. Docs: docs/ in the repository.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        **HELP,
    )
    app.callback()(root)
    app.command(cls=train.TrainCommand)(train.train)
    app.command()(evaluate.evaluate)
    app.command()(calibrate.calibrate)
    app.command()(predict.predict)
    app.command()(score.score)
    app.command()(neighbours.neighbours)
    app.command()(explain.explain)
    for command in others:
        app.command()(command)
    app.command("fold-in")(fold_in.fold_in)
    app.command()(discover.discover)
    app.command()(discover.review)
    app.command()(discover.audit)
    app.command()(export.export)
    app.command()(index.index)
    app.command("map")(mapping.map_)
    app.command()(text.text)
    app.command()(combine.combine)
    app.command()(combine.ensemble)
    app.command()(report.report)
    app.add_typer(data.app, name="data")
    app.command()(reproduce.reproduce)
    app.command()(sweep.sweep)
    app.add_typer(study.app, name="study")
    app.command()(train.presets)
    app.command()(demo.demo)
    return app


app = program()


def _show_notices() -> None:
    """Print a `Notice` as one sentence; Python would add a file and a line."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, Notice):
            say(f"dura: {message}")
        else:
            before(message, category, *place, **more)

    warnings.showwarning = show


def main(app: typer.Typer = app) -> None:
    """Run the command line; every error that a user can fix is one sentence and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # never fail on a name that the terminal cannot show
    _show_notices()
    try:
        if not world.leads():
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        app()
    except DuraError as error:
        fail(str(error), error.exit_code, error.shared)
    except OSError as error:
        fail(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}", 1)
    except (MemoryError, RuntimeError) as error:
        # torch raises a RuntimeError if memory is short, on the CPU and on a GPU.
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        fail("there is not enough memory for this; try smaller sizes, such as --rank or --batch in training", 1)
