"""Commands in documents: parsed by the real command line, but not run."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.main

from dura.__main__ import app


@cache
def program() -> Any:
    return typer.main.get_command(app)


def problem(arguments: list[str]) -> str:
    """What the command line would say against these arguments; they are parsed, nothing is run."""
    command, rest = program(), list(arguments)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"no command {rest[0]!r}"
        command = command.commands[rest.pop(0)]
    if rest and rest[0] in ("--version", "--install-completion", "--show-completion", "--help", "-h"):
        return ""  # these act while they are parsed
    try:
        command.make_context("dura", rest)
    except Exception as error:  # noqa: BLE001 - click's own classes, which typer brings along under changing names
        return str(error) or repr(error)
    return ""
