"""`dura ensemble`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import JsonOption, QuietOption, counting_bar, print_json
from dura.cli.evaluate import SplitName


class FitName(StrEnum):
    """The splits that an ensemble may be fitted on."""

    train = "train"
    valid = "valid"


def ensemble(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A run of a model that knows texts, such as 'star'.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="A run of the same graph, such as one of 'rotate'.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write: weights and result.")],
    fit: Annotated[FitName, typer.Option(help="The facts that the weights are fitted on.")] = FitName.valid,
    split: Annotated[SplitName, typer.Option(help="The facts to rank.")] = SplitName.test,
    best: Annotated[int, typer.Option(help="How many best answers tell how ambiguous a question is.")] = 1000,
    seed: Annotated[int, typer.Option(help="Which facts and negatives are drawn.")] = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let two runs answer together: each fact's scores say how much each run counts (the self-adaptive ensemble of StAR).

    Fits a few weights, ranks the facts of a split and prints the metrics, as 'dura evaluate' does.

    Example:

        dura ensemble runs/star runs/rotate --out runs/both
    """
    from dura.runs.ensemble import Fitting
    from dura.runs.ensemble import ensemble as answer_together

    with counting_bar("ranking", quiet) as progress:
        fitting = Fitting(split=fit.value, best=best, seed=seed)
        result = answer_together(first, second, out, fitting, split=split.value, progress=progress)
    if as_json:
        print_json({**result.to_dict(), "first": str(first), "second": str(second), "out": str(out)})
    else:
        typer.echo(str(result))
