"""`dura neighbours`."""

from __future__ import annotations

from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, RunArgument, print_json


def neighbours(
    run: RunArgument,
    entity: Annotated[str, typer.Option(help="The entity, by name or label.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many neighbours.")] = 10,
    relation: Annotated[
        str | None, typer.Option(help="Compare what the entities ask with this relation, (ENTITY, RELATION, ?).")
    ] = None,
    time: Annotated[str | None, typer.Option(help="The time of RELATION, if facts have times.")] = None,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Show the entities whose embeddings are nearest to that of an entity, by cosine.

    Examples:

        dura neighbours runs/mine --entity Berlin

        dura neighbours runs/mine --entity Berlin --relation located_in -k 20 --json
    """  # fmt: skip
    from dura.runs.api import open as open_run

    found = open_run(run, device).neighbours(entity, k, relation=relation, time=time)
    print_json({"run": str(run), **found.to_dict()}) if as_json else typer.echo(repr(found))
