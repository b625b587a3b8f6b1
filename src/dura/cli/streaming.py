"""Streaming: show or write what a stream of replies holds. `dura predict --input` and `dura score` share it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import counting_bar, fail, say
from dura.words import finite

if TYPE_CHECKING:
    from dura.inference.asking import Reply
    from dura.runs.files import Stream

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write here instead: .csv, .tsv, .parquet or .jsonl; - is JSON Lines on standard output.",
    ),
]


def deliver(
    make: Callable[[Callable[[int], None] | None], Stream],
    output: Path | None,
    document: tuple[Mapping[str, Any], str] | None,
    text: Callable[[Reply], str],
    *,
    quiet: bool,
) -> None:
    """Make a stream and deliver all of it: into a file, as one JSON document (what it begins with, and the key of the list), or as
    text. At the end the bad lines are counted; if there are any, the command fails.
    """
    made: list[Stream] = []
    with _counted(made):
        if output is not None:
            with counting_bar("lines", quiet) as bar:
                made.append(make(lambda done: bar(done, None)))
                made[0].write(output)
        else:
            made.append(make(None))
            print_list(*document, made[0]) if document else _print_texts(made[0], text)
    tally = made[0].tally
    if tally.bad:
        fail(str(tally), 1, shared=True)
    if output is not None and str(output) != "-" and not quiet:
        say(f"{tally.done:,} lines are done, in {output}")


@contextmanager
def _counted(made: list[Stream]) -> Iterator[None]:
    """If Ctrl-C ends the work, say how far it came."""
    try:
        yield
    except KeyboardInterrupt:
        done = made[0].tally.done if made else 0
        fail(f"interrupted after {done:,} lines; no file is left", 130)


def _print_texts(stream: Stream, text: Callable[[Reply], str]) -> None:
    for reply in stream:
        if reply.found is not None:
            typer.echo(text(reply))


def print_list(beginning: Mapping[str, Any], key: str, replies: Iterator[Reply] | Stream) -> None:
    """Write one JSON document that ends with a list, an item at a time, so that the list may be of any length."""
    ready = False
    for reply in replies:
        if not ready:  # nothing is written if the file cannot be read
            typer.echo(f"{json.dumps(dict(beginning), ensure_ascii=False, indent=2)[:-2]},\n  {json.dumps(key)}: [")
        item = json.dumps(finite(reply.to_dict()), ensure_ascii=False, indent=2, allow_nan=False)
        typer.echo(f"{',' if ready else ''}{chr(10) if ready else ''}{textwrap.indent(item, '    ')}", nl=False)
        ready = True
    typer.echo("\n  ]\n}")
