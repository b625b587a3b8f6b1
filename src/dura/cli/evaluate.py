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
    """What figures can be broken down by."""

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
        Grouping | None, typer.Option(help="Also by relation, relation category, side, or category and side.")
    ] = None,
    filtering: Annotated[
        Filtering,
        typer.Option(
            "--filter", help="Leave out what is known at the fact's time, or (static) at any; facts with times only."
        ),
    ] = Filtering.time_aware,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Rank every fact of a split among all entities, other known answers left out, and print the metrics.

    They are kept in the run's records too, where 'dura report' finds them.

    Examples:

        dura evaluate runs/mine

        dura evaluate runs/mine --split valid --by category

        dura evaluate runs/mine --filter static

        dura evaluate runs/mine --json | jq .mrr
    """
    from dura.runs.evaluations import keep
    from dura.runs.trained import open_run

    trained = open_run(run, device)
    with counting_bar("ranking", quiet) as progress:
        result = trained.evaluate(split.value, by.value if by else None, filter=filtering.value, progress=progress)
    if unkept := keep(run, result):
        say(f"dura: {unkept}")
    if as_json:
        print_json({**result.to_dict(), "run": str(run)})
    else:
        typer.echo(str(result))
