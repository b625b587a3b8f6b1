"""Usage: a wrong command is one sentence, as every other wrong input is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer
from typer.core import TyperGroup

from dura.cli.common import fail

T = TypeVar("T")

USAGE: type[Exception] = typer.BadParameter.__mro__[1]
"""The error of a command that cannot be understood. typer has no name of its own for it."""
PLAIN = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
    "Got unexpected extra argument(s)": "there are too many arguments:",
}
"""What the libraries say, and what is said instead."""


def sentence(error: Exception) -> str:
    """What is wrong with a command, and where its options are described."""
    message: str = error.format_message()  # type: ignore[attr-defined]
    for theirs, ours in PLAIN.items():
        message = message.replace(theirs, ours)
    context: typer.Context | None = getattr(error, "ctx", None)
    where = "" if context is None else f"; see {context.command_path.replace('python -m dura', 'dura')} -h"
    return f"{message[0].lower()}{message[1:].rstrip('.')}{where}"


class Group(TyperGroup):
    """Reports wrong commands in one sentence, and says "interrupted" if Ctrl-C ends a command that does not handle it itself."""

    def make_context(self, *args, **more):  # type: ignore[no-untyped-def]
        """Understand the part of the command before the name of a subcommand."""
        return _reported(lambda: super(Group, self).make_context(*args, **more))

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command."""
        return _reported(lambda: super(Group, self).invoke(ctx))


def _reported(work: Callable[[], T]) -> T:
    try:
        return work()
    except KeyboardInterrupt:
        fail("interrupted", 130)
    except USAGE as error:
        context: typer.Context | None = getattr(error, "ctx", None)
        if context is not None and error.format_message() == context.get_help():  # type: ignore[attr-defined]
            raise  # a group without a subcommand shows its help
        fail(sentence(error), 2, shared=True)
