"""`dura study`: a command for each study in `dura.studies`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dura.cli.common import HELP, JsonOption, QuietOption, check_out, counting_bar, print_json, say
from dura.cli.sweep import watched
from dura.studies import STUDIES, Study
from dura.types import DuraError

if TYPE_CHECKING:
    from dura.config import Experiment

app = typer.Typer(
    help="The paper's studies: each prints a table, and writes it with a figure into a folder.\n\n"
    "Example:\n\n"
    "    dura study sparsity runs/dura runs/none",
    no_args_is_help=True,
    **HELP,
)


def _face(study: Study) -> Callable[..., None]:
    """The study's command with the options that every study has, `--json` and `--quiet`; it shows what was made."""

    def face(as_json: JsonOption = False, quiet: QuietOption = False, **given: Any) -> None:
        check_out(given["out"])
        handed = {"bar": partial(counting_bar, quiet=quiet), "train": partial(_train, quiet=quiet)}
        made = study.command(**given, **{name: handed[name] for name in handed if name in wanted})
        print_json(made.document) if as_json else typer.echo(made.text)
        if not quiet:
            say(f"dura: wrote {', '.join(file.name for file in made.files)} into {given['out']}")
        if made.failure:
            raise DuraError(made.failure)

    wanted = inspect.signature(study.command, eval_str=True).parameters
    own = [option for option in wanted.values() if option.kind is not option.KEYWORD_ONLY]
    ours = list(inspect.signature(face, eval_str=True).parameters.values())[:2]
    options = [*own, *ours]
    # typer reads the signature and the annotations.
    face.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    face.__annotations__ = {option.name: option.annotation for option in options}
    face.__doc__ = study.command.__doc__
    return face


def _train(
    experiment: Experiment, over: Mapping[str, Sequence[Any]], out: Path, *, keep: int, jobs: int, quiet: bool
) -> Sequence[Mapping[str, Any]]:
    """Train the variations that a study needs, with a bar over the trials; Ctrl-C stops it."""
    from dura.sweeps.vary import vary

    with watched(quiet) as (notify, stopped):
        return vary(experiment, over, out, keep=keep, jobs=jobs, notify=notify, stopped=stopped).rows


for _name, _study in STUDIES.items():
    app.command(_name)(_face(_study))
