"""`dura discover`, `dura review` and `dura audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dura.cli.common import DeviceOption, JsonOption, QuietOption, RunArgument, counting_bar, print_json, say
from dura.cli.train import stop_on_interrupt

if TYPE_CHECKING:
    from dura.inference.found import Found

OutputOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write all facts to a new file (.csv, .tsv, .jsonl or .parquet) with an empty column 'decision' for 'dura review'.",
    ),
]


def discover(
    run: RunArgument,
    relations: Annotated[
        list[str] | None, typer.Option("--relation", help="Only facts of this relation; may be repeated. Default: all.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many facts.")] = 1000,
    time: Annotated[
        str | None, typer.Option(help="When the facts hold, if facts have times; by default at the last time.")
    ] = None,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere",
            help="Ask about all entities, and allow all as answers, for every relation. This takes much longer.",
        ),
    ] = False,
    loops: Annotated[bool, typer.Option("--loops", help="Also facts whose head is their tail.")] = False,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only facts with a head or tail of this type; may be repeated to allow several."),
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(help="Only facts that are at least this probable; see 'dura calibrate'.")
    ] = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Find the most probable missing facts of the whole graph.

    Asks (head, relation, ?) and (?, relation, tail) about the heads and tails that training facts have with the relation. Answers
    are such entities, and others that are used like them. For these questions and answers the result is exact. Memory does not grow
    with their number.

    Examples:

        dura discover runs/mine --top 100

        dura discover runs/mine --relation located_in --min-probability 0.5

        dura discover runs/mine --output suggestions.csv
    """
    from dura.data.appending import check_output
    from dura.runs.api import open as open_run

    if output is not None:
        check_output(output)
    trained = open_run(run, device)
    with counting_bar("asking", quiet) as progress:
        found = trained.discover(
            relations or (),
            top=top,
            time=time,
            in_range=not everywhere,
            loops=loops,
            type=types or (),
            min_probability=min_probability,
            progress=progress,
        )
    _show(found, run, output, as_json)
    if found.about["value"] != "probability" and not quiet:
        say(f"dura: shares are not probabilities; for those: dura calibrate {run}")
    if (left := found.about["not_asked"]) and not quiet:
        say(
            f"dura: {left:,} of {left + found.about['questions']:,} questions were not asked, because training facts do not have "
            "their head or tail with the relation; --everywhere asks them"
        )


def review(
    run: RunArgument,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Facts with a column 'decision': accept or reject (or yes, no, 1, 0)."),
    ],
    change: Annotated[bool, typer.Option("--change", help="Allow decisions against earlier ones.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Take in what people decided about facts: accepted ones count as known, rejected ones are never suggested again.

    FILE is a file that 'dura discover', 'dura audit' or 'dura predict' wrote, with the column 'decision' filled in. Lines without
    a decision are skipped. 'dura train --reviews RUN' trains with the decisions.

    Examples:

        dura discover runs/mine --output suggestions.csv

        dura review runs/mine suggestions.csv

        dura train --graph facts.tsv --reviews runs/mine --out runs/next
    """
    from dura.runs.reviews import review_folder

    tally = review_folder(run, file, change=change)
    if as_json:
        print_json({"run": str(run), "file": str(file), **tally.to_dict()})
        return
    typer.echo(str(tally))


def audit(
    run: RunArgument,
    folds: Annotated[int, typer.Option(help="Into how many parts the training facts are dealt.")] = 5,
    top: Annotated[int, typer.Option(help="How many facts.")] = 100,
    epochs: Annotated[
        int | None, typer.Option(help="How long each model is trained; by default as long as the run itself.")
    ] = None,
    seed: Annotated[int, typer.Option(help="How the facts are dealt.")] = 0,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Judge facts between the same two entities without each other's help.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="How many models are trained at a time.")] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Where the work is kept, so that it can be continued; by default RUN/audit.")
    ] = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the least plausible training facts: candidates for errors in the graph.

    The training facts are dealt into folds. For each fold a model with the settings of the run is trained on the other folds, so
    no fact is judged by a model that has learned it. That takes about as long as training the run FOLDS times; --epochs makes it
    shorter.

    Examples:

        dura audit runs/mine --epochs 10

        dura audit runs/mine --jobs 2 --top 500 --output doubtful.csv
    """
    from dura.data.appending import check_output
    from dura.runs.api import open as open_run

    if output is not None:
        check_output(output)
    trained = open_run(run)
    with stop_on_interrupt() as stopped, counting_bar("folds", quiet) as progress:
        found = trained.audit(
            folds=folds,
            top=top,
            epochs=epochs,
            seed=seed,
            pairs=pairs,
            jobs=jobs,
            folder=folder,
            progress=progress,
            stopped=stopped,
        )
    _show(found, run, output, as_json)
    if (left := found.about["not_judged"]) and not quiet:
        were = "fact was" if left == 1 else "facts were"
        say(f"dura: {left:,} {were} not judged: without it nothing is known about one of the names in it")


def _show(found: Found, run: Path, output: Path | None, as_json: bool) -> None:
    """Write facts to a file, and print them or how many there are."""
    if output is not None:
        found.write(output)
    if as_json:
        print_json({"run": str(run), **found.to_dict()})
    elif output is None:
        typer.echo(repr(found))
    elif output != Path("-"):  # standard output holds the facts and nothing else
        typer.echo(f"{len(found):,} {'fact' if len(found) == 1 else 'facts'} in {output}")
