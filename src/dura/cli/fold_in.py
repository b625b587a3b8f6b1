"""`dura fold-in`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import JsonOption, QuietOption, RunArgument, counting_bar, free_folder, print_json, say
from dura.cli.reading import Reading, reads_a_graph
from dura.text import printable
from dura.types import BadInput


@reads_a_graph
def fold_in(
    run: RunArgument,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="A file of facts about entities that the run does not know.")
    ],
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run folder to write [default: RUN-folded-1, -2, …].")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Take new entities into a run in seconds: learn their rows from their facts, and keep everything else as it is.

    Writes a new run folder. Its graph holds the new entities and their facts, and all other commands work with it. Facts may also
    be between two new entities. Relations and times must be known to the run. Facts between known entities are added, so that
    they are no longer predicted as missing, but no row learns from them.

    Examples:

        dura fold-in runs/mine new.tsv --out runs/grown

        dura fold-in runs/mine new.csv --columns from,link,to

        dura predict runs/grown --head Potsdam --relation located_in
    """  # fmt: skip
    if reading.split is not None:
        raise BadInput("new facts are known facts, and none of them is held out: leave --split out")
    from dura.data.loading import as_said
    from dura.runs.api import open as open_run
    from dura.runs.folding import fold_in as fold

    options, _ = as_said(reading.graph(new), reading.time)
    folder = out or free_folder(str(run.parent), f"{run.name}-folded")
    trained = open_run(run)
    with counting_bar("learning", quiet) as progress:
        _, done = fold(trained, new, folder, options=options, progress=progress, notify=say)
    if as_json:
        print_json({"run": str(run), "out": str(folder), **asdict(done)})
        return
    entities = "1 new entity" if done.entities == 1 else f"{done.entities:,} new entities"
    facts = "1 fact" if done.facts == 1 else f"{done.facts:,} facts"
    typer.echo(f"{entities} with {facts} in {done.seconds:.1f} s")
    more = f" and {done.entities - len(done.names):,} more" if done.entities > len(done.names) else ""
    typer.echo(printable(f"new: {', '.join(done.names)}{more}"))
    typer.echo(f"run folder {folder}")
