"""`dura sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, assignment, counting_bar, free_folder, print_json, print_table, say
from dura.cli.reading import Reading, reads_a_graph
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from dura.sheets.sheet import Sheet
    from dura.sweeps.found import Found
    from dura.sweeps.sweep import Outcome

SHOWN = 20
"""The terminal shows this many trials; the files have all."""
MINUTES = 10.0
"""How long a sweep without a file searches by default."""

JobsOption = Annotated[int, typer.Option(min=1, help="Train this many trials at once, each in its own process.")]
KeepOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Keep the trained tables of the best N trials (0: of all; default: what the file says, or 1). Settings and records "
        "are always kept.",
    ),
]


@reads_a_graph
def sweep(
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", help="A .toml file with a table [sweep], or a ready grid ('dura sweep --list')."
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(help="Search without a file: a catalog NAME, a FOLDER or a FILE of facts, as for 'dura train'."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help=f"With --graph: search and train for this many minutes in all (default {MINUTES:g}; 0.5 is half a minute).",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME", help="With --graph: the model (default as 'dura train'); can be repeated."
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
    reading: Reading = Reading(),  # noqa: B008
    keep: KeepOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Continue this sweep where it stopped; with --trials or --minutes, make it longer."
        ),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show the ready grids and how many trials they have.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search for the settings with the best valid MRR. The test split is not used.

    With --graph no file is needed: dura measures what fits into the minutes, tries settings around its defaults for a short time,
    and trains the best ones with the time that is left. Without it, a file says what is searched, over a whole grid or by TPE.

    The file of a sweep is a settings file, or names a preset, and lists the settings to vary:

        preset = "umls/complex-dura"

        [sweep]

        method = "tpe"     # or "grid", or "each" for one setting at a time

        trials = 30

        [sweep.space]

        "regularizer.weight" = { low = 0.001, high = 0.1, log = true }

        "model.rank" = [50, 100, 200]

    Examples:

        dura sweep --graph facts.tsv --minutes 10

        dura sweep --graph visits.csv --time date --model tcomplex --model tntcomplex --minutes 60

        dura train sweeps/facts-1 --seed 1

        dura sweep umls/complex-dura --out sweeps/umls

        dura sweep mine.toml --trials 40 --jobs 2

        dura sweep --resume sweeps/umls

        dura sweep --list
    """
    if listing:
        _list(as_json)
        return
    ways = {"--graph": graph, "--minutes": minutes, "--model": models, "--time": reading.time, **reading.settings()}
    timed = {name.replace("graph.", "--").replace("_", "-"): value for name, value in ways.items() if value is not None}
    if resume is not None:
        found = _resume(
            resume, {"file": experiment, "--out": out, "--set": settings, **timed}, trials, keep, jobs, quiet
        )
    elif graph is not None:
        searched = {"file": experiment, "--trials": trials, "--keep": keep, "--jobs": jobs if jobs > 1 else None}
        if wrong := [name for name, value in searched.items() if value]:
            raise BadInput(f"--graph searches without a file for a number of minutes and takes no {', '.join(wrong)}")
        fixed = {"graph.source": graph, **reading.settings(), **dict(assignment(text) for text in settings or [])}
        found = _within(MINUTES if minutes is None else minutes, models or [], fixed, reading.time, out, quiet)
    elif timed:
        raise BadInput(f"{next(iter(timed))} goes with --graph: a sweep's file names its own graph and settings")
    else:
        found = _begin(experiment, trials, keep, jobs, out, settings or [], quiet)
    _report(found, as_json, quiet)


def _resume(
    folder: Path, given: dict[str, Any], trials: int | None, keep: int | None, jobs: int, quiet: bool
) -> Outcome | Found:
    """Continue a sweep of either kind."""
    from dura.sweeps.journal import is_timed

    minutes = given.pop("--minutes", None)
    if wrong := [name for name, value in given.items() if value]:
        raise BadInput(f"--resume continues a sweep with its own settings and takes no {', '.join(wrong)}")
    if is_timed(folder):
        if trials is not None or keep is not None or jobs > 1:
            raise BadInput(f"{folder} is a sweep of minutes, which takes no --trials, --keep or --jobs; give --minutes")
        from dura.sweeps.timed import continue_within

        with _written_if_stopped(folder), _timed(quiet) as ways:
            return continue_within(folder, minutes, **ways)
    if minutes is not None and (folder / "sweep.toml").is_file():
        raise BadInput(
            f"{folder} is a sweep with a number of trials, so --minutes is not used; make it longer with --trials"
        )
    from dura.sweeps.sweep import resume as go_on

    with _written_if_stopped(folder), watched(quiet) as (notify, stopped):
        return go_on(folder, trials=trials, keep=keep, jobs=jobs, notify=notify, stopped=stopped)


def _within(
    minutes: float, models: list[str], fixed: dict[str, Any], time: str | None, out: Path | None, quiet: bool
) -> Found:
    """A sweep without a file."""
    from dura.sweeps.timed import sweep_within

    made: list[Path] = []

    def folder(name: str) -> Path:
        made.append(out or free_folder("sweeps", name))
        return made[0]

    with _written_if_stopped(made), _timed(quiet) as ways:
        return sweep_within(minutes, folder, models=models, settings=fixed, time=time, **ways)


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
def _written_if_stopped(folder: Path | list[Path]) -> Iterator[None]:
    """After Ctrl-C, write the table, the figures and best.toml of the trials that have ended. A list names the folder later."""
    from dura.sweeps import found, sweep
    from dura.sweeps.journal import is_timed
    from dura.training.progress import Interrupted

    try:
        yield
    except Interrupted:
        for path in [folder] if isinstance(folder, Path) else folder:
            with suppress(DuraError):  # no trial is complete
                _write(found.outcome(path) if is_timed(path) else sweep.outcome(path))
        raise


@contextmanager
def _timed(quiet: bool) -> Iterator[dict[str, Any]]:
    """A bar over the seconds, a line per training, what was chosen, and whether Ctrl-C was pressed."""
    with watched(quiet, "seconds") as (notify, stopped):

        def tell(sentence: str) -> None:
            if not quiet:
                say(f"dura: {sentence}")

        yield {
            "notify": lambda row, spent, all_: notify(row, round(spent), round(all_)),
            "tell": tell,
            "stopped": stopped,
        }


@contextmanager
def watched(
    quiet: bool, unit: str = "trials"
) -> Iterator[tuple[Callable[[dict[str, Any], int, int], None], Callable[[], bool]]]:
    """A bar over the trials and a line for each finished trial; and whether Ctrl-C was pressed."""
    from dura.cli.train import stop_on_interrupt

    with stop_on_interrupt() as stopped, counting_bar(unit, quiet) as count:

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


def _write(found: Outcome | Found) -> Sheet:
    """Write the table and the figures as files; returns the table."""
    from dura.reports.sweeps import draw_history, draw_importance, draw_slices, summary

    best, folder = found.best, found.path
    notes = [
        f"Best: trial {best['trial']} with valid MRR {best['valid_mrr']:.4f}; its settings are in best.toml.",
        "Trials are compared on the valid split only; test was not used. A pruned trial shows the best MRR it had.",
        *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in found.choices),
    ]
    sheet = summary(found.rows, found.title, notes)
    sheet.write(folder, "summary", best=best["trial"], importance=found.importance)
    draw_history(found.rows, folder / "history.png")
    draw_slices(found.rows, folder / "slices.png")
    if found.importance:
        draw_importance(found.importance, folder / "importance.png")
    return sheet


def _report(found: Outcome | Found, as_json: bool, quiet: bool) -> None:
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
                "choices": found.choices,
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
