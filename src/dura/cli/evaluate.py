"""`dura evaluate`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, counting_bar, print_json, say


class SplitName(StrEnum):
    """The splits of a graph."""

    train = "train"
    valid = "valid"
    test = "test"


class Grouping(StrEnum):
    """The groups that metrics can be computed for."""

    relation = "relation"
    category = "category"
    side = "side"
    category_side = "category-side"


class Filtering(StrEnum):
    """Which known answers are left out."""

    time_aware = "time-aware"
    static = "static"


def evaluate(
    run: RunArgument,
    split: Annotated[SplitName, typer.Option(help="The facts to rank.")] = SplitName.test,
    by: Annotated[
        Grouping | None,
        typer.Option(help="Also show metrics by relation, relation category, side, or category and side."),
    ] = None,
    filtering: Annotated[
        Filtering,
        typer.Option(
            "--filter",
            help="If facts have times: leave out what is known at the fact's time, or (static) at any time.",
        ),
    ] = Filtering.time_aware,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Rank every fact of a split among all entities, without the other known answers, and print the metrics.

    They are also kept in the run's records, where 'dura report' finds them.

    Examples:

        dura evaluate runs/mine

        dura evaluate runs/mine --split valid --by category

        dura evaluate runs/mine --filter static

        dura evaluate runs/mine --json | jq .mrr
    """
    from dura.runs.evaluations import evaluate_run

    with counting_bar("ranking", quiet) as progress:
        result = evaluate_run(
            run,
            split.value,
            by.value if by else None,
            filter=filtering.value,
            device=device,
            progress=progress,
            notify=lambda sentence: say(f"dura: {sentence}"),
        )
    if as_json:
        print_json({**result.to_dict(), "run": str(run)})
    else:
        typer.echo(str(result))
