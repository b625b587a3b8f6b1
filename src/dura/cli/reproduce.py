"""`dura reproduce`: run the paper's result tables here, with the paper's numbers next to ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, check_out, print_json, say
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.reproduction.cells import Cell
    from dura.reproduction.reproduce import Standing
    from dura.reproduction.tally import Tally

DIGITS = {"minutes": 2}
TITLES = {"small": "Small graphs", "headline": "The paper's rows at its rank, headline settings"}
"""Of the tables that the paper does not have in this form."""


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="main, regularizers, temporal, ablation, p1, headline (the paper's rank on two cores), systems, small, or all of "
            "them.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only cells of this graph, model, regularizer or preset. May be repeated: a cell must match one name of each "
            "kind that is given.",
        ),
    ] = None,
    laptop: Annotated[bool, typer.Option("--laptop", help="Laptop settings instead of the published ones.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds each cell is run with: 0, 1, …")] = 1,
    jobs: Annotated[
        int, typer.Option(min=0, help="Runs at once, as far as memory allows (0: one per core, one on a GPU).")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps (default: what the presets say, cpu).")] = "",
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for runs, results and tables.")] = Path(
        "reproduce"
    ),
    listing: Annotated[bool, typer.Option("--list", help="Show the cells and what they cost on this machine.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show the results so far; runs nothing.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run the cells of one of the paper's result tables, cheapest first, and print our numbers next to the paper's.

    It says first how many hours the runs will take here. The same command continues what was stopped, and does not repeat what
    is done. DIR gets the whole table as Markdown, CSV and JSON, also after Ctrl-C. The exit code is 1 if a cell failed.

    Examples:

        dura reproduce --list --laptop

        dura reproduce small --seeds 3

        dura reproduce headline --list

        dura reproduce headline --only fb15k-237

        dura reproduce regularizers --laptop --only fb15k-237 --only complex

        dura reproduce all --show
    """
    from dura.reproduction.cells import ALL, TABLES, cells

    if listing:
        _list(cells(table or ALL, laptop=laptop or None, only=only or ()), jobs, as_json)
        return
    if table is None and not show:
        raise BadInput(f"which table? {', '.join(TABLES)} or {ALL}; see: dura reproduce --list")
    from dura.reproduction.tally import tallies

    chosen = cells(table or ALL, laptop=laptop, only=only or ())
    failures: dict[str, str] = {}
    if show and not out.is_dir():
        say(f"dura: nothing has been run in {out} yet")
    if not show:
        check_out(out)
        from dura.training.progress import Interrupted

        try:
            failures = _run(chosen, seeds, jobs, device, out, quiet)
        except Interrupted:
            if (out / "results").is_dir():  # the table of what is done
                _report(tallies(table or ALL, laptop, out, seeds, {}), set(), laptop, out, as_json, write=True)
            raise
    found = tallies(table or ALL, laptop, out, seeds, failures)
    documents = _report(found, {cell.preset for cell in chosen}, laptop, out, as_json, write=not show)
    if as_json:
        print_json({"out": str(out), "tables": documents, "failures": failures})
    elif not show:
        say(f"dura: tables and results are in {out}")
    if failures:
        raise typer.Exit(1)


def _run(chosen: Sequence[Cell], seeds: int, jobs: int, device: str, out: Path, quiet: bool) -> dict[str, str]:
    """Run what is not done yet and show how it goes; returns why cells failed."""
    from dura.cli.train import stop_on_interrupt
    from dura.reproduction.reproduce import reproduce as run

    def warn(sentence: str) -> None:
        say(f"dura: {sentence}")

    with stop_on_interrupt() as stopped, _display(quiet) as (speak, show):
        return run(chosen, out, seeds=seeds, jobs=jobs, device=device, stopped=stopped, warn=warn, say=speak, show=show)


@contextmanager
def _display(quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Standing], None]]]:
    """How the runs are shown: on a terminal a bar with what is running, elsewhere a line per event, nothing if quiet."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield (lambda _: None) if quiet else (lambda sentence: say(f"dura: {sentence}")), lambda _: None
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(standing: Standing) -> None:
            failed = f", {standing.failed} failed" if standing.failed else ""
            lines = [f" {standing.over} of {standing.tasks} runs over{failed}", *standing.running]
            bar = ProgressBar(total=standing.tasks, completed=standing.over, width=40)
            live.update(Group(bar, *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines)))

        yield lambda sentence: console.print(f"dura: {sentence}", markup=False, highlight=False, soft_wrap=True), show


def _report(
    tallies: dict[str, list[Tally]], chosen: set[str], laptop: bool, out: Path, as_json: bool, write: bool
) -> dict[str, Any]:
    """Write the whole tables and print the chosen rows; returns these for JSON."""
    from dura.reproduction.tally import summary
    from dura.sheets.sheet import Sheet

    documents: dict[str, Any] = {}
    for name, rows in tallies.items():
        form = "laptop settings" if laptop else "published settings"
        title = TITLES.get(name, f"The paper's table {name!r}, {form}")
        mine = [row for row in rows if row.cell.preset in chosen]
        if write:
            stem = f"{name}-laptop" if laptop and name != "small" else name
            sheet = Sheet(title, [row.row() for row in rows], summary(rows, laptop), DIGITS)
            sheet.write(out, stem, cells=[row.details() for row in rows])
        if mine:
            sheet = Sheet(title, [row.row() for row in mine], summary(mine, laptop), DIGITS)
            documents[name] = {**sheet.document(), "cells": [row.details() for row in mine]}
            if not as_json:
                typer.echo(sheet.terminal() + "\n")
    return documents


def _list(chosen: Sequence[Cell], jobs: int, as_json: bool) -> None:
    """Print every cell with what it would cost here."""
    from dura.reproduction.estimates import until_all_ended
    from dura.reproduction.reproduce import costs_here, limits_for, worker_speed
    from dura.sheets.sheet import Sheet
    from dura.words import duration

    limits = limits_for(jobs, "", len(chosen))
    speed, costs = worker_speed(limits), costs_here(chosen, limits)
    seconds = {name: cost.seconds for name, cost in costs.items() if cost.seconds is not None}
    ordered = sorted(chosen, key=lambda cell: seconds.get(cell.preset, math.inf))
    total = until_all_ended(sorted(seconds.values()), limits.jobs)
    if as_json:
        listed = [_about(cell) | costs[cell.preset]._asdict() for cell in ordered]
        print_json({"cells": listed, "seconds": total, "jobs": limits.jobs, "flops_a_second": speed})
        return
    shown = []
    for cell in ordered:
        cost = costs[cell.preset]
        time = None if cost.seconds is None else duration(cost.seconds)
        shown.append(
            _about(cell) | {"time": time, "memory": None if cost.bytes is None else f"{cost.bytes / 1e9:,.1f} GB"}
        )
    note = (
        f"time: estimated for all epochs of one seed, with validation and test, in a process that does {speed / 1e9:,.0f} GFLOP/s "
        "in matrix products. This speed was measured right now: other programs that run make it smaller. Early stopping shortens "
        "the time. memory: of one process. here: whether the graph is on this machine. "
        f"All together, {limits.jobs} at once: about {duration(total)}."
    )
    typer.echo(Sheet(f"{len(shown)} cells, cheapest first", shown, [note]).terminal())


def _about(cell: Cell) -> dict[str, str | int | bool | None]:
    """A cell without its cost."""
    rank = cell.experiment.model.options.get("rank")
    return {
        "preset": cell.preset,
        "system": cell.system,
        "tables": ", ".join(cell.tables),
        "rank": None if rank is None else int(str(rank)),
        "epochs": cell.experiment.training.epochs,
        "here": cell.at_hand,
    }
