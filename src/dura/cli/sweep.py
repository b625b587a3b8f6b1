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
"""The terminal shows so many trials; the files have all."""

JobsOption = Annotated[int, typer.Option(min=1, help="Train so many trials at once, each in a process of its own.")]
KeepOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Keep the trained tables of the best N trials (0: of all; default: the file's, else 1); settings and records always.",
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
        typer.Option(min=1, help="So many trials in all (default: the file's; of a grid, every combination)."),
    ] = None,
    jobs: JobsOption = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to make (default: sweeps/NAME-N).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Fix a setting, e.g. model.rank=200, also one that the file varies."
        ),
    ] = None,
    keep: KeepOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Continue this sweep where it stopped; with --trials, make it longer."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show the ready grids and how many trials they mean.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search for the settings with the best valid MRR: all of a grid, or by TPE; the test split is not looked at.

    A sweep's file is a settings file, or names a preset, with the settings to vary:

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
        raise BadInput("which sweep? give a .toml file with a table [sweep], or one that 'dura sweep --list' shows")
    from dura.sweeps.space import read_sweep

    plan = read_sweep(experiment).fixed(dict(assignment(text) for text in settings)).changed(trials=trials, keep=keep)
    from dura.sweeps.sweep import sweep as run

    folder = out or free_folder("sweeps", experiment.removesuffix(".toml").replace("/", "-").lstrip(".-") or "sweep")
    with _written_if_stopped(folder), watched(quiet) as (notify, stopped):
        return run(plan, folder, jobs=jobs, notify=notify, stopped=stopped)


@contextmanager
def _written_if_stopped(folder: Path) -> Iterator[None]:
    """Ctrl-C leaves the table, the figures and best.toml of the trials that have ended."""
    from dura.sweeps.sweep import outcome
    from dura.training.trainer import Interrupted

    try:
        yield
    except Interrupted:
        with suppress(DuraError):  # none ran to its end
            _write(outcome(folder))
        raise


@contextmanager
def watched(quiet: bool) -> Iterator[tuple[Callable[[dict[str, Any], int, int], None], Callable[[], bool]]]:
    """A bar over the trials and a line for each that ends; and whether Ctrl-C was pressed."""
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
    """The table and the figures, as files; returns the table."""
    from dura.reports.sweeps import draw_history, draw_importance, draw_slices, summary

    best, folder = found.best, found.path
    notes = [
        f"Best: trial {best['trial']} with valid MRR {best['valid_mrr']:.4f}; its settings are in best.toml.",
        "Judged by the valid split alone; test was not looked at. Pruned trials show the best MRR they had.",
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
    """Write what came out and say what was best."""
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
        combinations = "endless" if p.combinations is None else f"{p.combinations:,}"
        varies = ", ".join(path.rpartition(".")[2] if path != "smoothness.weight" else "smoothness" for path in p.space)
        table.add_row(name, p.method, combinations, f"{p.budget:,}", varies)
    print_table(table)
