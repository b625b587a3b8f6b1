"""`dura reproduce`: the paper's result tables, run here, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, check_out, print_json, say
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.reproduction.cells import Cell
    from dura.reproduction.reproduce import Limits, Standing
    from dura.reproduction.tally import Tally

DIGITS = {"minutes": 2}


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="main, regularizers, temporal, ablation, p1, small, or all of them."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only cells of this graph, model, regularizer or preset; may be repeated: "
            "names of one kind add up, kinds narrow each other.",
        ),
    ] = None,
    laptop: Annotated[bool, typer.Option("--laptop", help="Laptop settings instead of the published ones.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, … of each cell.")] = 1,
    jobs: Annotated[
        int, typer.Option(min=0, help="Runs at once, as far as memory allows (0: one a core, one on a GPU).")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps (default: as the presets say, cpu).")] = "",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Runs, results and tables.")] = Path("reproduce"),
    listing: Annotated[bool, typer.Option("--list", help="Show the cells and what they would cost here.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show what has been run, without running anything.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run the cells of a result table of the paper, cheapest first, and print our figures beside the paper's.

    What was stopped goes on with the same command, what has ended is not done again. The whole table is left in DIR as
    Markdown, CSV and JSON, after Ctrl-C too. Ends with 1 if a cell failed.

    Examples:

        dura reproduce --list --laptop

        dura reproduce small --seeds 3

        dura reproduce regularizers --laptop --only fb15k-237 --only complex

        dura reproduce all --show
    """
    from dura.reproduction.cells import ALL, cells

    if listing:
        _list(cells(table or ALL, laptop=laptop or None, only=only or ()), as_json)
        return
    if table is None and not show:
        raise BadInput(
            "which table? main, regularizers, temporal, ablation, p1, small or all; see: dura reproduce --list"
        )
    chosen = cells(table or ALL, laptop=laptop, only=only or ())
    failures: dict[str, str] = {}
    if show and not out.is_dir():
        say(f"dura: nothing has been run in {out} yet")
    if not show:
        check_out(out)
        from dura.training.trainer import Interrupted

        try:
            failures = _run(chosen, seeds, _limits(jobs, device, len(chosen) * seeds), out, quiet)
        except Interrupted:
            if (out / "results").is_dir():  # what has ended is worth its table
                _report(_tallies(table or ALL, laptop, out, seeds, {}), set(), laptop, out, as_json, write=True)
            raise
    tallies = _tallies(table or ALL, laptop, out, seeds, failures)
    documents = _report(tallies, {cell.preset for cell in chosen}, laptop, out, as_json, write=not show)
    if as_json:
        print_json({"out": str(out), "tables": documents, "failures": failures})
    elif not show:
        say(f"dura: tables and results are in {out}")
    if failures:
        raise typer.Exit(1)


def _limits(jobs: int, device: str, tasks: int) -> Limits:
    """Cores and memory shared out; a GPU takes one run at a time and has memory of its own."""
    from dura.data.cost import cores, free_memory
    from dura.reproduction.reproduce import Limits

    on_cpu = device in ("", "cpu")
    if not on_cpu:
        from dura.runs.build import checked_device

        checked_device(device)
    jobs = min(jobs or (cores() if on_cpu else 1), tasks)
    return Limits(jobs, max(1, cores() // jobs), free_memory() if on_cpu else None, device)


def _run(chosen: Sequence[Cell], seeds: int, limits: Limits, out: Path, quiet: bool) -> dict[str, str]:
    """Run what is not done yet; returns why cells failed."""
    from dura.cli.train import stop_on_interrupt
    from dura.data.cost import measured_speed
    from dura.reproduction.reproduce import reproduce as run
    from dura.reproduction.tasks import Task

    speed = measured_speed()
    costs = {cell.preset: cell.cost(speed) for cell in chosen}
    there = [cell for cell in chosen if cell.at_hand]
    missing = list(dict.fromkeys(cell.graph for cell in chosen if not cell.at_hand))
    if missing:
        get = "; ".join(f"dura data get {graph}" for graph in missing)
        lack = f"not on this machine: {', '.join(missing)}; get with: {get}, or name the folder above them in DURA_DATA"
        if not there:
            raise BadInput(lack)
        say(f"dura: {lack}; the cells of the other graphs are run")
    tasks = [Task(cell, seed, out) for cell in there for seed in range(seeds)]
    tasks.sort(key=lambda task: (task.seed, costs[task.cell.preset][1]))
    with stop_on_interrupt() as stopped, _display(quiet) as (speak, show):
        failures = run(tasks, lambda task: costs[task.cell.preset][0], limits, stopped=stopped, say=speak, show=show)
    return failures | {graph: f"is not on this machine; get it with: dura data get {graph}" for graph in missing}


@contextmanager
def _display(quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Standing], None]]]:
    """Who hears of the runs: a bar with what is running on a terminal, a line for each event elsewhere, nobody when quiet."""
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


def _tallies(table: str, laptop: bool, out: Path, seeds: int, failures: dict[str, str]) -> dict[str, list[Tally]]:
    """The whole tables, whatever `--only` left out: their files must not lose what was run before."""
    from dura.reproduction.cells import ALL, TABLES, cells
    from dura.reproduction.tally import tally

    names = [name for name in TABLES if table in (name, ALL)]
    rows = {cell.preset: tally(cell, out, seeds, failures) for cell in cells(table, laptop=laptop)}
    return {name: [row for row in rows.values() if name in row.cell.tables] for name in names}


def _report(
    tallies: dict[str, list[Tally]], chosen: set[str], laptop: bool, out: Path, as_json: bool, write: bool
) -> dict[str, Any]:
    """Write the whole tables, print what was chosen of them; returns them for JSON."""
    from dura.reproduction.tally import summary
    from dura.sheets.sheet import Sheet

    documents: dict[str, Any] = {}
    for name, rows in tallies.items():
        form = "laptop settings" if laptop else "published settings"
        title = "Small graphs" if name == "small" else f"The paper's table {name!r}, {form}"
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


def _list(chosen: Sequence[Cell], as_json: bool) -> None:
    """Print every cell with what it would cost here."""
    from dura.data.cost import duration, measured_speed
    from dura.sheets.sheet import Sheet

    speed = measured_speed()
    costs = {cell.preset: cell.cost(speed) for cell in chosen}
    ordered = sorted(chosen, key=lambda cell: costs[cell.preset][1])
    if as_json:
        rows = [_about(cell) | dict(zip(("bytes", "seconds"), costs[cell.preset], strict=True)) for cell in ordered]
        print_json({"cells": rows, "flops_a_second": speed})
        return
    shown = [
        _about(cell) | {"time": duration(costs[cell.preset][1]), "memory": f"{costs[cell.preset][0] / 1e9:,.1f} GB"}
        for cell in ordered
    ]
    note = (
        f"time: all epochs of one seed at {speed / 1e9:,.0f} GFLOP/s, what matrix products reach on this machine just now; the "
        "rest of a step and evaluation may double it, stopping early shortens it. memory: of one process. "
        "here: whether the graph is on this machine. "
        f"In all {duration(sum(seconds for _, seconds in costs.values()))}."
    )
    typer.echo(Sheet(f"{len(shown)} cells, cheapest first", shown, [note]).terminal())


def _about(cell: Cell) -> dict[str, str | int | bool]:
    """A cell without its cost."""
    return {
        "preset": cell.preset,
        "system": cell.system,
        "tables": ", ".join(cell.tables),
        "rank": int(str(cell.experiment.model.options["rank"])),
        "epochs": cell.experiment.training.epochs,
        "here": cell.at_hand,
    }
