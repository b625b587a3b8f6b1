"""`dura sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, assignment, counting_bar, free_folder, print_json, print_table, say
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from dura.sheets.sheet import Sheet
    from dura.sweeps.sweep import Outcome

SHOWN = 20
"""The terminal shows this many trials; the files have all."""

JobsOption = Annotated[int, typer.Option(min=1, help="Train this many trials at once, each in its own process.")]
KeepOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Keep the trained tables of the best N trials (0: of all; default: what the file says, or 1). Settings and records "
        "are always kept.",
    ),
]


def sweep(
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", help="A .toml file with a table [sweep], or a ready grid ('dura sweep --list')."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, help="The number of trials in all (default: what the file says; for a grid, every combination)."
        ),
    ] = None,
    jobs: JobsOption = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to make (default: sweeps/NAME-N).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Fix a setting, e.g. model.rank=200, even if the file varies it."
        ),
    ] = None,
    keep: KeepOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Continue this sweep where it stopped; with --trials, make it longer."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show the ready grids and how many trials they have.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search for the settings with the best valid MRR, over a whole grid or by TPE. The test split is not used.

    The file of a sweep is a settings file, or names a preset, and lists the settings to vary:

        preset = "umls/complex-dura"

        [sweep]

        method = "tpe"     # or "grid", or "each" for one setting at a time

        trials = 30

        [sweep.space]

        "regularizer.weight" = { low = 0.001, high = 0.1, log = true }

        "model.rank" = [50, 100, 200]

    Examples:

        dura sweep umls/complex-dura --out sweeps/umls

        dura sweep mine.toml --trials 40 --jobs 2

        dura sweep --resume sweeps/umls

        dura sweep --list
    """
    if listing:
        _list(as_json)
        return
    if resume is not None:
        given = {"file": experiment, "--out": out, "--set": settings}
        if wrong := [name for name, value in given.items() if value]:
            raise BadInput(f"--resume continues a sweep with its own settings and takes no {', '.join(wrong)}")
        from dura.sweeps.sweep import resume as go_on

        with _written_if_stopped(resume), watched(quiet) as (notify, stopped):
            found = go_on(resume, trials=trials, keep=keep, jobs=jobs, notify=notify, stopped=stopped)
    else:
        found = _begin(experiment, trials, keep, jobs, out, settings or [], quiet)
    _report(found, as_json, quiet)


def _begin(
    experiment: str | None,
    trials: int | None,
    keep: int | None,
    jobs: int,
    out: Path | None,
    settings: list[str],
    quiet: bool,
) -> Outcome:
    if experiment is None:
        raise BadInput("which sweep? give a .toml file with a table [sweep], or a grid from 'dura sweep --list'")
    from dura.sweeps.space import read_sweep

    plan = read_sweep(experiment).fixed(dict(assignment(text) for text in settings)).changed(trials=trials, keep=keep)
    from dura.sweeps.sweep import sweep as run

    folder = out or free_folder("sweeps", experiment.removesuffix(".toml").replace("/", "-").lstrip(".-") or "sweep")
    with _written_if_stopped(folder), watched(quiet) as (notify, stopped):
        return run(plan, folder, jobs=jobs, notify=notify, stopped=stopped)


@contextmanager
def _written_if_stopped(folder: Path) -> Iterator[None]:
    """After Ctrl-C, write the table, the figures and best.toml of the trials that have ended."""
    from dura.sweeps.sweep import outcome
    from dura.training.progress import Interrupted

    try:
        yield
    except Interrupted:
        with suppress(DuraError):  # no trial is complete
            _write(outcome(folder))
        raise


@contextmanager
def watched(quiet: bool) -> Iterator[tuple[Callable[[dict[str, Any], int, int], None], Callable[[], bool]]]:
    """A bar over the trials and a line for each finished trial; and whether Ctrl-C was pressed."""
    from dura.cli.train import stop_on_interrupt

    with stop_on_interrupt() as stopped, counting_bar("trials", quiet) as count:

        def notify(row: dict[str, Any], done: int, total: int) -> None:
            count(done, total)
            if not quiet:
                mrr = "" if row["valid_mrr"] is None else f"valid MRR {row['valid_mrr']:.4f}  "
                values = "  ".join(
                    f"{path}={f'{v:.4g}' if isinstance(v, float) else v}" for path, v in row["values"].items()
                )
                why = f"  ({row['failure']})" if row["failure"] else ""
                say(f"trial {row['trial']}, {done}/{total}  {row['state']:<8}  {mrr}{values}{why}")

        yield notify, stopped


def _write(found: Outcome) -> Sheet:
    """Write the table and the figures as files; returns the table."""
    from dura.reports.sweeps import draw_history, draw_importance, draw_slices, summary

    best, folder = found.best, found.path
    notes = [
        f"Best: trial {best['trial']} with valid MRR {best['valid_mrr']:.4f}; its settings are in best.toml.",
        "Trials are compared on the valid split only; test was not used. A pruned trial shows the best MRR it had.",
    ]
    title = f"Sweep {folder.name} by {found.plan.method}, {len(found.rows)} trials"
    sheet = summary(found.rows, title, notes)
    sheet.write(folder, "summary", best=best["trial"], importance=found.importance)
    draw_history(found.rows, folder / "history.png")
    draw_slices(found.rows, folder / "slices.png")
    if found.importance:
        draw_importance(found.importance, folder / "importance.png")
    return sheet


def _report(found: Outcome, as_json: bool, quiet: bool) -> None:
    """Write what the sweep found and print the best trials."""
    from dataclasses import replace

    best, folder, sheet = found.best, found.path, _write(found)
    if as_json:
        print_json(
            {
                "sweep": str(folder),
                "best": best,
                "preset": str(folder / "best.toml"),
                "importance": found.importance,
                "trials": found.rows,
            }
        )
        return
    more = [f"… and {len(sheet.rows) - SHOWN} more trials in summary.md"] if len(sheet.rows) > SHOWN else []
    typer.echo(replace(sheet, rows=sheet.rows[:SHOWN], notes=[*more, *sheet.notes]).terminal())
    if not quiet:
        kept = f"dura evaluate {best['run']}    " if Path(best["run"]).exists() else ""
        say(f"next: {kept}dura train {folder / 'best.toml'}")


def _list(as_json: bool) -> None:
    from dura.sweeps.space import grids, read_sweep

    plans = {name: read_sweep(name) for name in grids()}
    if as_json:
        rows = {
            name: {"method": p.method, "combinations": p.combinations, "trials": p.budget, "settings": list(p.space)}
            for name, p in plans.items()
        }
        print_json({"grids": rows})
        return
    from rich.table import Table

    table = Table("grid", "method", "combinations", "trials", "varies", box=None)
    for name, p in plans.items():
        combinations = "unlimited" if p.combinations is None else f"{p.combinations:,}"
        varies = ", ".join(path.rpartition(".")[2] if path != "smoothness.weight" else "smoothness" for path in p.space)
        table.add_row(name, p.method, combinations, f"{p.budget:,}", varies)
    print_table(table)
