"""`dura`: the commands and how errors end."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import typer

from dura.cli import data, demo, evaluate, predict, train
from dura.cli.common import HELP, fail
from dura.types import DuraError

app = typer.Typer(
    name="dura",
    help="Knowledge graph completion: learn from a file of facts, say which facts are missing.\n\n"
    "Example:\n\n"
    "    dura train --graph facts.tsv --out runs/mine\n\n"
    "    dura evaluate runs/mine\n\n"
    "    dura predict runs/mine --head Berlin --relation located_in",
    epilog="Exit codes: 0 done, 1 the work failed, 2 wrong input, 130 interrupted. Docs: docs/ in the repository.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    **HELP,
)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.add_typer(data.app, name="data")
app.command()(train.presets)
app.command()(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        from dura import __version__

        typer.echo(f"dura {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Knowledge graph completion: learn from a file of facts, say which facts are missing."""


def main() -> None:
    """Run the command line; every error that a user can mend is one sentence and an exit code."""
    try:
        app()
    except DuraError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of our output went away (`dura … | head`): nothing to say, and nothing may be flushed at exit.
        sys.stderr.close()
        raise SystemExit(1) from None
    except MemoryError:
        fail("the machine has not enough memory for this; try a smaller --rank or --batch", 1)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EPERM):
            fail(f"{error.filename or 'a file'} cannot be written: {error.strerror}", 1)
        raise
