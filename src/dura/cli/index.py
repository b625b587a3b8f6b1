"""`dura index`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dura.cli.common import JsonOption, RunArgument, print_json


def index(
    run: RunArgument,
    recall: Annotated[
        float, typer.Option(metavar="SHARE", help="The share of the ten best answers that it must find.")
    ] = 0.95,
    links: Annotated[int, typer.Option(help="How many similar entities each one is linked to.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Build an index of the entities of a run, so that 'dura predict --approximate' need not score all of them.

    It pays for many questions to a graph of 100,000 entities or more. The command measures how many of the best answers the
    index finds and how fast it is, and says so. Without --approximate all answers stay exact. It needs the extra 'index'.

    Examples:

        dura index runs/large

        dura predict runs/large --input questions.tsv --approximate --json
    """  # fmt: skip
    from dura.runs.api import open as open_run

    done = open_run(run).index(links=links, recall=recall)
    if as_json:
        print_json({"run": str(run), **asdict(done), "pays": done.pays})
        return
    single = done.single_ms
    typer.echo(f"{done.entities:,} entities, built in {done.seconds:.1f} s; recall@10 {done.recall:.3f}")
    typer.echo(f"many questions: {done.index_ms:.2f} ms each, exact {done.exact_ms:.2f} ms")
    typer.echo(f"one by one: {single['index']:.2f} ms each, exact {single['exact']:.2f} ms")
    if not done.enough:
        typer.echo(f"the recall stays below {recall:g}; more --links may find more")
    elif not done.pays:
        typer.echo("for many questions at once this graph is too small for an index to pay: ask without --approximate")
