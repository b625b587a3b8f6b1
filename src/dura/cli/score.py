"""`dura score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, print_json, say
from dura.cli.streaming import OutputOption, deliver
from dura.types import BadInput


def score(
    run: RunArgument,
    facts: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FACTS]", help="A file of facts in any format that training reads; - is standard input."
        ),
    ] = None,
    head: Annotated[str | None, typer.Option(help="The head of one fact.")] = None,
    relation: Annotated[str | None, typer.Option(help="Its relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="Its tail.")] = None,
    time: Annotated[str | None, typer.Option(help="Its time, if facts have times.")] = None,
    output: OutputOption = None,
    file_format: Annotated[
        str,
        typer.Option("--format", metavar="ENDING", help="The format of FACTS if its name does not say, such as csv."),
    ] = "",
    columns: Annotated[
        str | None,
        typer.Option(help="The columns of head, relation, tail and time in FACTS: positions from 0 or titles."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="What separates fields in FACTS, e.g. ';' or tab or pipe.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Score given facts: how plausible each of them is, and whether the graph holds it.

    Examples:

        dura score runs/mine candidates.csv --output scores.csv

        dura score runs/mine --head Berlin --relation located_in --tail Germany

        cut -f1-3 facts.tsv | dura score runs/mine - --output -
    """  # fmt: skip
    one = (head, relation, tail)
    if facts is not None and (any(part is not None for part in one) or time is not None):
        raise BadInput("FACTS has the facts, so --head, --relation, --tail and --time cannot be given together with it")
    if facts is None and (head is None or relation is None or tail is None):
        raise BadInput("name a file of facts, or one fact with --head, --relation and --tail")
    if facts is None and output is not None:
        raise BadInput("--output is for a file of facts; the score of one fact is printed")
    from dura.runs.api import open as open_run

    trained = open_run(run, device)
    if facts is None:
        assert head is not None and relation is not None and tail is not None
        (found,) = trained.score([(head, relation, tail, time)], details=True)
        print_json({"run": str(run), **found.to_dict()}) if as_json else typer.echo(str(found))
        return
    from dura.runs.files import fact_options, scores

    options = fact_options(columns, separator, file_format)
    deliver(
        lambda progress: scores(trained, facts, options, output=output, notify=say, progress=progress),
        output,
        ({"run": str(run)}, "facts") if as_json else None,
        lambda reply: str(reply.found),
        quiet=quiet,
    )
