"""A command that cannot be understood is one sentence: every option with choices names them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import get_args, get_type_hints

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from dura.__main__ import app

COMMANDS = get_command(app)


def _every(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """All commands with their paths, also those of groups."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, one in inner.items():
        yield from _every(one, (*path, name))


def _failed(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("dura: ")
    return line


def _with_choices(function: object) -> Iterator[tuple[str, list[str]]]:
    """The options of a command that take one of some values, with these."""
    for name, hint in get_type_hints(inspect.unwrap(function), include_extras=True).items():  # type: ignore[arg-type]
        inner, *more = get_args(hint) or (hint,)
        kinds = [kind for kind in (inner, *get_args(inner)) if isinstance(kind, type) and issubclass(kind, Enum)]
        # typer keeps the first name of an option in place of its default.
        given = [text for info in more for text in (info.default, *(info.param_decls or ()))]
        declared = [text for text in given if str(text).startswith("--")]
        for kind in kinds:
            yield (declared or [f"--{name.replace('_', '-')}"])[0], [str(one.value) for one in kind]


CHOICES = [
    (path, option, choices)
    for path, command in _every(COMMANDS)
    for option, choices in _with_choices(command.callback)  # type: ignore[attr-defined]
]


def test_some_options_have_choices() -> None:
    assert {(path[0], option) for path, option, _ in CHOICES} >= {("evaluate", "--split"), ("ensemble", "--fit")}


@pytest.mark.parametrize(("path", "option", "choices"), CHOICES, ids=lambda value: str(value))
def test_a_bad_choice_names_all_choices(path: tuple[str, ...], option: str, choices: list[str]) -> None:
    line = _failed(*path, option, "nonsense")
    assert option in line and "'nonsense'" in line and line.endswith(f" {' '.join(path)} -h")
    assert all(f"'{choice}'" in line for choice in choices)


@pytest.mark.parametrize("path", [path for path, _ in _every(COMMANDS)], ids=" ".join)
def test_an_unknown_option_is_one_sentence(path: tuple[str, ...]) -> None:
    assert re.search(r"no such option: --nonsense", _failed(*path, "--nonsense"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "no such command 'nothing'"),
        (["predict"], "missing argument 'RUN'"),
        (["predict", "run", "-k", "many"], "invalid value for '-k' / '--k': it must be a whole number"),
        (["predict", "run", "--coverage", "high"], "invalid value for '--coverage': it must be a number"),
        (["train", "--split", "half"], "'half' is not one of 'random', 'grouped', 'relation', 'time'"),
        (["train", "--time-unit", "eon"], "'eon' is not one of"),
        (["predict", "a", "b"], "there are too many arguments: (b)"),
        (["predict", "a", "--head"], "option '--head' requires an argument"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], sentence: str) -> None:
    assert sentence in _failed(*arguments)


def test_a_group_without_a_command_shows_its_help() -> None:
    for arguments in ([], ["data"]):
        assert "Usage: " in CliRunner().invoke(app, arguments).output
    assert isinstance(app, typer.Typer)
