"""`dura study theory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import JsonOption, QuietOption, check_out, counting_bar, print_json, say
from dura.types import DuraError


def theory(
    seed: Annotated[int, typer.Option(min=0, help="Of the random factors.")] = 0,
    size: Annotated[
        int, typer.Option(min=1, max=16, help="Each draw has 1 to so many entities, relations, times and columns.")
    ] = 6,
    draws: Annotated[int, typer.Option(min=1, help="Random factors a statement.")] = 200,
    starts: Annotated[int, typer.Option(min=1, help="Minimisations a statement.")] = 5,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the table and the figure.")] = Path(
        "studies/theory"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check Theorems 1 to 3 of the paper on numbers: DURA's least value is the nuclear 2-norm of the scores.

    Random factors must never go below the bound, the stated minimizers must attain it, and minimisations must end at it. Writes
    theory.md, .csv, .json, .png and .svg. Ends with 1 where a statement fails.

    Examples:

        dura study theory

        dura study theory --seed 1 --size 10 --draws 1000 --out studies/theory-1
    """
    from dura.analysis.theory import check
    from dura.reports import studies

    check_out(out)
    with counting_bar("statements", quiet) as progress:
        trials = check(draws=draws, starts=starts, size=size, seed=seed, progress=progress)
    study = {"seed": seed, "size": size, "trials": [trial.to_dict() for trial in trials]}
    sheet = studies.theory_sheet(study)
    files = sheet.write(out, "theory", **study)
    files += [studies.draw_theory(study, out / f"theory.{ending}") for ending in ("png", "svg")]
    if as_json:
        print_json({**sheet.document(), **study, "files": [str(file) for file in files]})
    else:
        typer.echo(sheet.terminal())
    if not quiet:
        say(f"dura: wrote {', '.join(file.name for file in files)} into {out}")
    failed = [trial.statement.name for trial in trials if not trial.holds]
    if failed:
        raise DuraError(f"these statements did not hold: {', '.join(failed)}")
