"""`dura study`: a command for each study in `dura.studies`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from dura.cli.common import HELP, JsonOption, QuietOption, check_out, counting_bar, print_json, say
from dura.cli.sweep import watched
from dura.studies import OWN, STUDIES, Study
from dura.studies.study import HANDED
from dura.types import DuraError

if TYPE_CHECKING:
    from dura.config import Experiment


class StudyGroup(TyperGroup):
    """Finds the studies of other packages too, but only when `dura study` is called: reading entry points takes time."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names of all studies, ours first."""
        return STUDIES.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a study. If the study of a package is broken, its command says so and the others still work."""
        if cmd_name not in self.commands and cmd_name in STUDIES:
            try:
                self.commands[cmd_name] = _command(cmd_name, _face(cmd_name, STUDIES.get(cmd_name)))
            except Exception as error:  # noqa: BLE001 (another package may fail in any way)
                self.commands[cmd_name] = _command(cmd_name, _broken(cmd_name, error))
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=StudyGroup,
    help="The paper's studies: each prints a table, and writes it with a figure into a folder.\n\n"
    "Example:\n\n"
    "    dura study sparsity runs/dura runs/none",
    no_args_is_help=True,
    **HELP,
)


def _face(name: str, study: Study) -> Callable[..., None]:
    """The study's command with the options that every study has, `--json` and `--quiet`; it shows what was made."""
    wanted = _options(name, study)

    def face(as_json: JsonOption = False, quiet: QuietOption = False, **given: Any) -> None:
        check_out(given["out"])
        handed = {"bar": partial(counting_bar, quiet=quiet), "train": partial(_train, quiet=quiet)}
        made = study.command(**given, **{name: handed[name] for name in HANDED if name in wanted})
        print_json(made.document) if as_json else typer.echo(made.text)
        if not quiet:
            say(f"dura: wrote {', '.join(file.name for file in made.files)} into {given['out']}")
        if made.failure:
            raise DuraError(made.failure)

    own = [option for option in wanted.values() if option.kind is not option.KEYWORD_ONLY]
    ours = list(inspect.signature(face, eval_str=True).parameters.values())[:2]
    options = [*own, *ours]
    # typer reads the signature and the annotations.
    face.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    face.__annotations__ = {option.name: option.annotation for option in options}
    face.__doc__ = study.command.__doc__
    return face


def _options(name: str, study: Study) -> Mapping[str, inspect.Parameter]:
    """The parameters of a study's command. The command of another package may not fit the face."""
    wanted = inspect.signature(study.command, eval_str=True).parameters
    strange = [key for key, option in wanted.items() if option.kind is option.KEYWORD_ONLY and key not in HANDED]
    if "out" not in wanted or strange:
        needs = (
            f"fills in {' and '.join(HANDED)} only, not {strange[0]}" if strange else "needs the option `out`, a Path"
        )
        raise DuraError(f"the study {name!r} cannot be shown: the command line {needs}")
    return wanted


def _broken(name: str, error: Exception) -> Callable[[], None]:
    """The command of a study that cannot be used."""
    other = f"the study {name!r} cannot be shown: {type(error).__name__}: {error}"
    sentence = str(error) if isinstance(error, DuraError) else other

    def face() -> None:
        raise DuraError(sentence)

    face.__doc__ = f"Cannot be used: {sentence}."
    return face


def _command(name: str, face: Callable[..., None]) -> Any:
    """A function as a command of its own."""
    own = typer.Typer(**HELP)
    own.command(name)(face)
    return typer.main.get_command(own)


def _train(
    experiment: Experiment, over: Mapping[str, Sequence[Any]], out: Path, *, keep: int, jobs: int, quiet: bool
) -> Sequence[Mapping[str, Any]]:
    """Train the variations that a study needs, with a bar over the trials; Ctrl-C stops it."""
    from dura.sweeps.vary import vary

    with watched(quiet) as (notify, stopped):
        return vary(experiment, over, out, keep=keep, jobs=jobs, notify=notify, stopped=stopped).rows


for _name in OWN:
    app.command(_name)(_face(_name, STUDIES.get(_name)))
