"""The study of sensitivity: how much MRR moves when one setting changes and the others stay the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dura.analysis.sensitivity import Point, centre, curve_or_all, families
from dura.config import Experiment
from dura.sheets.figures import COLOURS, LINES, MARKERS, legend_above, panels, save
from dura.sheets.settings import called, decimals, scale
from dura.sheets.sheet import Plain, Sheet
from dura.studies.study import Bar, Count, Found, Made, Train, finish
from dura.studies.varied_runs import (
    Judge,
    best_valid,
    check_tables,
    chosen_settings,
    existing_runs,
    ranking,
    read_points,
    runs_of_sweep,
    varied_settings,
)
from dura.types import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_SPAN = 0.05
"""An axis spans at least this much MRR: small changes should not look large."""


class Judged(StrEnum):
    """The splits whose MRR a curve can show."""

    valid = "valid"
    test = "test"


def compute(
    runs: Sequence[Path],
    over: Sequence[str] = (),
    split: Literal["valid", "test"] = "valid",
    *,
    remarks: Sequence[str] = (),
    progress: Count | None = None,
) -> dict[str, Any]:
    """The points of the curves along the settings `over` (by default all that vary), from the settings and records of runs.

    The valid MRR is read from the records; for test, every run is ranked now. `remarks` are added to the notes of the sheet.

    >>> compute([Path("runs/rank-50"), Path("runs/rank-100")], ["model.rank"])["points"][0]["mrr"]  # doctest: +SKIP
    """
    judge: Judge = best_valid
    if split == "test":
        check_tables(runs)
        chosen_settings(*read_points(runs, lambda _: 0.0), over)  # a wrong setting is refused before the ranking
        judge = ranking(runs, progress)
    points, left = read_points(runs, judge)
    paths = chosen_settings(points, left, over)
    missing = f"{len(left)} of {len(runs)} runs are left out: they were pruned or stopped, or have no MRR."
    return {
        "split": split,
        "runs": [str(run) for run in runs],
        "settings": paths,
        "points": [asdict(point) for point in points],
        "remarks": [*remarks, *([missing] if left else [])],
    }


# -- sheet and figure ---------------------------------------------------------------------------------------------------


def sheets(found: Found) -> dict[str, Sheet]:
    """One row per value of each setting; per run if there is no curve."""
    points, split = _points(found), found["split"]
    rows: list[dict[str, Plain]] = []
    notes = [
        f"MRR on the {split} split; each setting changes alone, the others stay as in the centre of its family.",
        *(note for family in families(points) for note in _about_centre(points, family)),
    ]
    for path in found["settings"]:
        for family in families(points):
            alone, line = curve_or_all(points, family, path)
            best = max((point.mrr for point in line), default=math.nan)
            rows += [_row(path, point, split, alone, best) for point in line]
        if not any(row["setting"] == path and row["alone"] for row in rows):
            notes.append(f"No run differs from the centre in {path} only: its rows differ in other settings too.")
    fractions = {row["setting"] for row in rows if isinstance(row["value"], float)}
    for row in rows:  # 2 between 0.5 and 3.5 is shown as 2.0
        if row["setting"] in fractions and isinstance(row["value"], int):
            row["value"] = float(row["value"])
    digits = {"value": decimals([row["value"] for row in rows])}
    return {"sensitivity": Sheet("Sensitivity", rows, [*notes, *found["remarks"]], digits)}


def _points(found: Found) -> list[Point]:
    return [Point(**point) for point in found["points"]]


def _row(path: str, point: Point, split: str, alone: bool, best: float) -> dict[str, Plain]:
    return {
        "setting": path,
        "value": point.settings[path],
        "family": point.family,
        f"{split} MRR": point.mrr,
        "lowest": point.low,
        "highest": point.high,
        "runs": point.runs,
        "alone": alone,
        "best": point.mrr == best,
    }


def _about_centre(points: Sequence[Point], family: str) -> list[str]:
    """Which run is the centre of a family, and which is the best if that is another; nothing if no setting varies."""
    members = [point for point in points if point.family == family]
    paths = varied_settings(members)
    if not paths:
        return []
    middle, best = centre(points, family), max(members, key=lambda point: point.mrr)
    about = f"The centre of {family} is the run with {_in_words(middle, paths)}"
    if middle.mrr == best.mrr:
        return [f"{about}, the best."]
    other = f"the best has {_in_words(best, paths)} and MRR {best.mrr:.4f}"
    return [f"{about}, from which the most settings have a curve; {other}."]


def _in_words(point: Point, paths: Sequence[str]) -> str:
    values = {path: point.settings[path] for path in paths}
    return ", ".join(f"{path} {f'{v:g}' if isinstance(v, float) else v}" for path, v in values.items())


def draw(found: Found, path: Path) -> Path:
    """One panel per setting with each family's curve and its spread over seeds; only dots if there is no curve."""
    points = _points(found)
    with panels(len(found["settings"])) as (drawn, places):
        for panel, setting in zip(places, found["settings"], strict=True):
            scale(panel, [point.settings[setting] for point in points if setting in point.settings])
            for i, family in enumerate(families(points)):
                alone, line = curve_or_all(points, family, setting)
                if line:
                    _curve(panel, line, setting, i, alone)
            low, high = panel.get_ylim()
            if high - low < LEAST_SPAN:
                panel.set_ylim((low + high - LEAST_SPAN) / 2, (low + high + LEAST_SPAN) / 2)
            panel.set_xlabel(called(setting))
            panel.set_ylabel(f"{found['split']} MRR")
        legend_above(drawn, places)
        return save(drawn, path)


def _curve(panel: Axes, line: Sequence[Point], setting: str, i: int, alone: bool) -> None:
    several = any(point.runs > 1 for point in line)
    spread = [[p.mrr - p.low for p in line], [p.high - p.mrr for p in line]] if several else None
    look: dict[str, Any] = {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": LINES[i % len(LINES)] if alone else "none",
        "marker": MARKERS[i % len(MARKERS)],
    }
    at = [float(point.settings[setting]) for point in line]
    panel.errorbar(at, [point.mrr for point in line], spread, label=line[0].family, capsize=2, **look)


# -- the command --------------------------------------------------------------------------------------------------------


def command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="A preset or .toml file to vary with --over; or existing folders of runs or sweeps.",
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,C",
            help="Vary this setting over these values, the others as in the preset; for existing runs, KEY alone chooses "
            "what to show.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the preset, e.g. training.epochs=20."),
    ] = None,
    split: Annotated[
        Judged, typer.Option(help="valid is read from the records; test is ranked now and needs the tables.")
    ] = Judged.valid,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder for the table and the figure, and for the runs of a preset, which are continued if they exist.",
        ),
    ] = Path("studies/sensitivity"),
    jobs: Annotated[
        int, typer.Option(min=1, help="Train this many runs at the same time, each in its own process.")
    ] = 1,
    *,
    bar: Bar,
    train: Train,
) -> Made:
    """Draw curves of MRR over λ, λ₁..λ₄, rank, batch or any number: one setting changes, the others stay.

    Examples:

        dura study sensitivity umls/complex-dura --over regularizer.weight=0.001,0.01,0.1 --over model.rank=20,50,100

        dura study sensitivity sweeps/umls

        dura study sensitivity runs/rank-* --over model.rank --split test --out studies/rank
    """
    varying, chosen = [text for text in over or [] if "=" in text], over or []
    remarks: list[str] = []
    if varying:
        if len(what) != 1 or len(varying) != len(chosen):
            raise BadInput("--over KEY=A,B,C varies one preset; with several runs give --over KEY without values")
        if Path(what[0]).is_dir():
            raise BadInput(f"--over KEY=A,B,C varies a preset; {what[0]} is a folder: give --over KEY without values")
        runs, remarks = _trained(what[0], varying, settings or [], split, out, jobs, train)
        chosen = [text.partition("=")[0] for text in varying]
    else:
        if settings:
            raise BadInput(
                "--set changes a preset that is varied with --over KEY=A,B,C; the settings of existing runs are fixed"
            )
        runs = existing_runs(what)
    with bar("ranking") as progress:
        found = compute(runs, chosen, split.value, remarks=remarks, progress=progress)
    made = finish(found, sheets(found), draw, out)
    return replace(made, document={**made.document, "figure": str(out / "sensitivity.png")})


def _trained(
    name: str, over: Sequence[str], settings: Sequence[str], split: Judged, out: Path, jobs: int, train: Train
) -> tuple[list[Path], list[str]]:
    """Train the variations of a preset in the study's folder; returns their runs, and a sentence for each failure."""
    from dura.runs.api import choose

    changed = dict(_pair(text, "--set takes KEY=VALUE such as regularizer.weight=0.05") for text in settings)
    experiment = choose(name, settings=changed)
    values = dict(_values(experiment, text) for text in over)
    if split == Judged.test:
        check_tables(runs_of_sweep(out))
    trials = train(experiment, values, out, keep=0 if split == Judged.test else 1, jobs=jobs)
    failed = [f"Trial {trial['trial']} failed: {trial['failure']}." for trial in trials if trial["state"] == "failed"]
    return [Path(trial["run"]) for trial in trials if trial["state"] == "complete"], failed


def _values(experiment: Experiment, text: str) -> tuple[str, list[Any]]:
    """KEY=A,B,C as a path and its values, with the type of the setting."""
    form = "--over takes KEY=A,B,C such as regularizer.weight=0.001,0.01,0.1"
    path, listed = _pair(text, form)
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not words:
        raise BadInput(f"{form}, not {text!r}")
    return path, [experiment.with_value(path, word).by_path()[path] for word in words]


def _pair(text: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadInput(f"{form}, not {text!r}")
    return key, value
