"""`dura study sensitivity`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, assignment, check_out, counting_bar, print_json, say
from dura.cli.sweep import JobsOption, watched
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.config import Experiment


class Judged(StrEnum):
    """The splits that a curve can tell of."""

    valid = "valid"
    test = "test"


def sensitivity(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="A preset or .toml file to vary with --over; or folders of runs or sweeps that are there.",
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,C",
            help="Vary this setting over these values, the others as in the preset; of runs, KEY alone chooses what to show.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another setting than the preset's, e.g. training.epochs=20."),
    ] = None,
    split: Annotated[
        Judged, typer.Option(help="valid is read from the records; test is ranked now and needs the tables.")
    ] = Judged.valid,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where table and figure go, and the runs of a preset; begun ones are continued."
        ),
    ] = Path("studies/sensitivity"),
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Curves of MRR over λ, λ₁..λ₄, rank, batch or any number: one setting moves, the others stay.

    Examples:

        dura study sensitivity umls/complex-dura --over regularizer.weight=0.001,0.01,0.1 --over model.rank=20,50,100

        dura study sensitivity sweeps/umls

        dura study sensitivity runs/rank-* --over model.rank --split test --out studies/rank
    """
    varying = [text for text in over or [] if "=" in text]
    notes: list[str] = []
    if varying:
        if len(what) != 1 or len(varying) != len(over or []):
            raise BadInput("--over KEY=A,B,C varies one preset; with several runs give --over KEY without values")
        if Path(what[0]).is_dir():
            raise BadInput(f"--over KEY=A,B,C varies a preset; {what[0]} is a folder: give --over KEY without values")
        check_out(out)
        runs, notes = _vary(what[0], varying, settings or [], split, out, jobs, quiet)
        wanted = [text.partition("=")[0] for text in varying]
    else:
        if settings:
            raise BadInput(
                "--set changes a preset that is varied with --over KEY=A,B,C; runs that are there stay as they are"
            )
        runs, wanted = _runs(what), over or []
        check_out(out)
        if split == Judged.test:
            _check_tables(runs)
    _show(runs, wanted, split, out, notes, as_json, quiet)


def _vary(
    name: str, over: Sequence[str], settings: Sequence[str], split: Judged, out: Path, jobs: int, quiet: bool
) -> tuple[list[Path], list[str]]:
    """Train the variations as a sweep in the study's folder, or what is left of them; returns their runs."""
    from dura.runs.api import choose
    from dura.sweeps.space import Sweep
    from dura.sweeps.sweep import resume, sweep
    from dura.sweeps.trials import SweepFolder
    from dura.training.trainer import Interrupted

    experiment = choose(name, settings=dict(assignment(text) for text in settings))
    keep = 0 if split == Judged.test else 1
    plan = Sweep(experiment, dict(_values(experiment, text) for text in over), "each", prune=False, keep=keep)
    try:
        with watched(quiet) as (notify, stopped):
            if (out / "sweep.toml").exists():
                begun = SweepFolder.open(out).plan
                if begun.changed(keep=keep) != plan:
                    raise BadInput(f"{out} holds another study; name a new folder with --out")
                if split == Judged.test:
                    _check_tables(_inside(out))
                found = resume(out, keep=min(keep, begun.keep), jobs=jobs, notify=notify, stopped=stopped)
            else:
                found = sweep(plan, out, jobs=jobs, notify=notify, stopped=stopped)
    except Interrupted:
        raise Interrupted("the study was stopped; the same command goes on from here") from None
    failed = [f"Trial {row['trial']} failed: {row['failure']}." for row in found.rows if row["state"] == "failed"]
    return [Path(row["run"]) for row in found.rows if row["state"] == "complete"], failed


def _values(experiment: Experiment, text: str) -> tuple[str, list[Any]]:
    """KEY=A,B,C as a path and its values, read as the setting reads them."""
    path, _, listed = text.partition("=")
    table, _, key = path.partition(".")
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not path or not words:
        raise BadInput(f"--over takes KEY=A,B,C such as regularizer.weight=0.001,0.01,0.1, not {text!r}")
    return path, [experiment.with_value(path, word).to_dict()[table][key] for word in words]


def _runs(what: Sequence[str]) -> list[Path]:
    """The run folders among or within what was named."""
    runs: list[Path] = []
    for path in map(Path, what):
        inside = _inside(path)
        if not inside and not (path / "run.json").exists():
            raise BadInput(
                f"{path} is neither a run folder nor a sweep with runs; a preset needs --over KEY=A,B,C to be varied"
            )
        runs += inside or [path]
    return runs


def _inside(sweep: Path) -> list[Path]:
    """The run folders of a sweep; none if it is no sweep."""
    files = sorted((sweep / "runs").glob("*/run.json")) if (sweep / "sweep.toml").exists() else []
    return [file.parent for file in files]


def _check_tables(runs: Sequence[Path]) -> None:
    """Refuse to rank test with runs whose tables are gone, before the first is trained or ranked."""
    from dura.records import RunFolder
    from dura.reports.sensitivity import ended

    begun = [run for run in runs if RunFolder(run).records()]  # the others were killed before their first record
    bare = [run for run in begun if ended(run) and not any((run / "checkpoints").glob("*"))]
    if bare:
        raise BadInput(
            f"{len(bare)} of {len(runs)} runs have no tables to rank test with, such as {bare[0]}: sweeps, and studies "
            "on valid, keep those of the best only; train again in a new folder (--out), a study with --split test, "
            "a sweep with --keep 0"
        )


def _judge(split: Judged, runs: Sequence[Path], count: Callable[[int, int], None]) -> Callable[[Path], float | None]:
    """How a run is judged: by its records, or by ranking test now."""
    from dura.reports.sensitivity import best_valid

    if split == Judged.valid:
        return best_valid

    def test(run: Path) -> float:
        from dura.runs.trained import open_run

        mrr = open_run(run).evaluate("test").mrr
        count(list(runs).index(run) + 1, len(runs))
        return mrr

    return test


def _show(
    runs: list[Path], wanted: Sequence[str], split: Judged, out: Path, notes: list[str], as_json: bool, quiet: bool
) -> None:
    from dataclasses import replace

    from dura.reports.sensitivity import chosen_paths, draw, read_points, sheet

    if split == Judged.test:
        points, left = read_points(runs, lambda _: 0.0)
        chosen_paths(points, wanted, len(left))  # a wrong KEY is told before the ranking
    with counting_bar("ranking", quiet) as count:
        points, left = read_points(runs, _judge(split, runs, count))
    if left:
        notes = [
            *notes,
            f"{len(left)} of {len(runs)} runs are left out: they were pruned or stopped, or have no figure.",
        ]
    paths = chosen_paths(points, wanted, len(left))
    table = sheet(points, paths, split.value)
    table = replace(table, notes=[*table.notes, *notes])
    table.write(out, "sensitivity", split=split.value, runs=[str(run) for run in runs])
    drawn = [draw(points, paths, split.value, out / f"sensitivity.{ending}") for ending in ("png", "svg")]
    if as_json:
        print_json({**table.document(), "split": split.value, "figure": str(drawn[0])})
        return
    typer.echo(table.terminal())
    if not quiet:
        say(f"table and figure in {out}")
