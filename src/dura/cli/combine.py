"""`dura combine` and `dura ensemble`, one way of it under its older name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, counting_bar, print_json
from dura.cli.evaluate import SplitName

if TYPE_CHECKING:
    from dura.evaluation import Result

OutOption = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write. It can be used like a run.")]
SplitOption = Annotated[SplitName, typer.Option(help="The facts to rank.")]


class FitName(StrEnum):
    """The splits that an ensemble may be fitted on."""

    train = "train"
    valid = "valid"


class HowName(StrEnum):
    """How much each run counts."""

    relations = "relations"
    equal = "equal"
    adaptive = "adaptive"


def combine(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs of the same graph, two or more.")],
    out: OutOption,
    fit: Annotated[
        HowName,
        typer.Option(
            help="How much each run counts: weights per relation, fitted on valid facts; all the same; or adaptive, two runs "
            "weighed by the scores of each fact (StAR)."
        ),
    ] = HowName.relations,
    rules: Annotated[bool, typer.Option("--rules", help="Rules from the training facts are one more member.")] = False,
    split: SplitOption = SplitName.test,
    seed: Annotated[int, typer.Option(help="Which valid facts are drawn, if there are many.")] = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Let several runs of one graph answer together.

    Fits weights on the valid facts, ranks the facts of a split and prints the metrics, as 'dura evaluate' does. The new folder can
    be evaluated, asked, calibrated and served. It reads the tables of its members, so these must stay where they are.

    Examples:

        dura combine runs/complex runs/rescal --out runs/both

        dura combine runs/seed-0 runs/seed-1 runs/seed-2 --rules --out runs/all

        dura predict runs/both --head Berlin --relation located_in
    """
    how = {"fit": fit.value, "rules": rules, "seed": seed, "device": device}
    result = _combined(runs, out, split, quiet, how)
    from dura.runs.combining import summary

    told = summary(out)
    if as_json:
        print_json({**result.to_dict(), **told, "run": str(out)})
        return
    for member in told["members"]:
        weight = "" if member["weight"] is None else f"  weight {member['weight']:.2f}"
        typer.echo(f"{member['run']}{weight}")
    typer.echo(f"\n{result}")


def ensemble(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A run of a model that knows texts, such as 'star'.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="A run of the same graph, such as one of 'rotate'.")],
    out: OutOption,
    fit: Annotated[FitName, typer.Option(help="The facts that the weights are fitted on.")] = FitName.valid,
    split: SplitOption = SplitName.test,
    best: Annotated[int, typer.Option(help="How many best answers tell how ambiguous a question is.")] = 1000,
    seed: Annotated[int, typer.Option(help="Which facts and negatives are drawn.")] = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let two runs answer together: each fact's scores say how much each run counts (the self-adaptive ensemble of StAR).

    The same as 'dura combine --fit adaptive', with the settings of that fit.

    Example:

        dura ensemble runs/star runs/rotate --out runs/both
    """
    from dura.inference.adaptive import Fitting

    fitting = Fitting(split=fit.value, best=best, seed=seed)
    result = _combined([first, second], out, split, quiet, {"fit": "adaptive", "fitting": fitting})
    if as_json:
        print_json({**result.to_dict(), "first": str(first), "second": str(second), "out": str(out)})
    else:
        typer.echo(str(result))


def _combined(runs: list[Path], out: Path, split: SplitName, quiet: bool, how: dict[str, Any]) -> Result:
    from dura.runs.combining import combine_and_rank

    with counting_bar("ranking", quiet) as progress:
        return combine_and_rank(runs, out, split=split.value, progress=progress, **how)[1]
