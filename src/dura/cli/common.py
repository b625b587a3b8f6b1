"""What the commands share: output, errors, notices, and options that several commands have."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dura import world
from dura.text import printable
from dura.types import BadInput
from dura.words import finite

if TYPE_CHECKING:
    from rich.table import Table

HELP: dict[str, Any] = {"rich_markup_mode": None, "context_settings": {"help_option_names": ["-h", "--help"]}}
"""Plain help texts: examples stay as typed, and rich is not imported."""

TELL_SECONDS = 2.0
"""How long the other processes of a job wait after a common failure. As soon as one ends, torchrun ends all, also the one that
is about to say what is wrong."""

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by 'dura train'.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else on standard output.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.")]


def print_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document; numbers that JSON does not have become null."""
    typer.echo(json.dumps(finite(document), ensure_ascii=False, indent=2, allow_nan=False))


def say(sentence: str) -> None:
    """Write a line on standard error. Of several processes that torchrun started, only the first one does."""
    if world.leads():
        typer.echo(printable(sentence), err=True)


def fail(sentence: str, code: int, shared: bool = False) -> NoReturn:
    """End the command with one sentence. If all processes of a job fail for the same reason, only the first one says it.

    Before the processes have joined, the first one on each host speaks for those that have the same command and files.
    """
    try:
        first, silent = world.leads(), shared or (world.grid().groups is None and world.local_rank() > 0)
    except BadInput:  # what torchrun says about this process makes no sense
        first, silent = True, False
    if first:
        typer.echo(printable(f"dura: {sentence}"), err=True)
    elif not silent:
        named = sentence if sentence.startswith("process ") else f"process {world.rank()}: {sentence}"
        typer.echo(printable(f"dura: {named}"), err=True)
    else:
        time.sleep(TELL_SECONDS)
    sys.exit(code)


def assignment(text: str) -> tuple[str, str]:
    """The key and the value of --set KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadInput(f"--set takes KEY=VALUE such as regularizer.weight=0.05, not {text!r}")
    return key, value


def free_folder(parent: str, stem: str) -> Path:
    """The first of PARENT/STEM-1, PARENT/STEM-2, … that does not exist yet."""
    n = 1
    while (folder := Path(parent) / f"{stem}-{n}").exists():
        n += 1
    return folder


def check_out(out: Path) -> None:
    """Check before the work that files can be written into a folder, which need not exist yet; nothing is left in it."""
    missing: list[Path] = []
    try:
        missing = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except FileExistsError:
        raise BadInput(f"{out} is not a folder; name another one with --out") from None
    except OSError as error:
        from dura.records import disk_error

        raise disk_error(error, out / "files", "name another folder with --out") from error
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def counting_bar(title: str, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error that is called with (done, total); the total is None if nobody knows it.

    Nothing is shown if standard error is not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def print_table(table: Table) -> None:
    """Print a rich table on standard output; a pipe gets plain text, wide enough for every column."""
    from rich.console import Console

    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
