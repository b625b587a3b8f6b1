"""`dura explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, RunArgument, print_json


def explain(
    run: RunArgument,
    head: Annotated[str, typer.Option(help="The head of the fact.")],
    relation: Annotated[str, typer.Option(help="The relation of the fact.")],
    tail: Annotated[str, typer.Option(help="The tail of the fact.")],
    time: Annotated[str | None, typer.Option(help="The time of the fact, if facts have times.")] = None,
    side: Annotated[
        str,
        typer.Option(
            metavar="SIDE",
            help="Which part is the answer: 'tail' of (HEAD, RELATION, ?) or 'head' of (?, RELATION, TAIL).",
        ),
    ] = "tail",
    k: Annotated[int, typer.Option("-k", "--k", help="How many training facts, similar entities and rules.")] = 5,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Say why the model gives an answer.

    Shows the training facts that the answer depends on (by gradients), similar entities with the same answer, and rules of the
    training facts that lead to it.

    Examples:

        dura explain runs/mine --head Kobe --relation located_in --tail Japan

        dura explain runs/mine --head Kobe --relation located_in --tail Japan --side head -k 10 --json
    """  # fmt: skip
    from dura.runs.api import open as open_run

    explanation = open_run(run, device).explain(head, relation, tail, time, side=side, k=k)  # type: ignore[arg-type]
    if as_json:
        print_json({"run": str(run), **explanation.to_dict()})
        return
    typer.echo(repr(explanation))
