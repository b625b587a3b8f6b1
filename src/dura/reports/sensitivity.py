"""Sensitivity: how a figure moves when one setting does and the others stay, from settings and records of runs.

Runs of the same graph, model and regularizer are a family. One of them is its centre: a setting's curve goes through the runs that
differ from the centre in that setting alone. It is the run from which the most settings have a curve, and of equals the best: the
best one of a grid, as in the paper, and the preset where settings were varied one at a time around it. Runs that differ by the seed
only are one point.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from dura.config import Experiment
from dura.records import RunFolder, curve
from dura.reports.plots import COLOURS, LINES, MARKERS, panels, save
from dura.reports.sweeps import SYMBOLS, called, decimals, legend_above, scale
from dura.reports.tables import Cell, Sheet
from dura.types import BadInput

_SILENT = {"training.seed", "training.device", "training.threads", "training.checkpoint_every", "candidates.block"}
"""Settings that make no other point of a curve."""

LEAST_SPAN = 0.05
"""An axis spans at least so much MRR: what hardly moves should not look as if it did."""

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Point:
    """What one choice of settings reached: the mean, lowest and highest MRR over the seeds it was run with."""

    family: str
    settings: dict[str, Any]
    mrr: float
    low: float
    high: float
    runs: int


def best_valid(run: Path) -> float | None:
    """The best valid MRR that the records of a run tell, None where no epoch was validated."""
    figures = [record["valid"]["mrr"] for record in curve(RunFolder(run).records()) if record.get("valid")]
    return max((figure for figure in figures if figure is not None), default=None)


def ended(run: Path) -> bool:
    """False where training was begun and did not come to its end: its figure says nothing about its settings."""
    kinds = {record.get("kind") for record in RunFolder(run).records()}
    return "end" in kinds or "start" not in kinds


def read_points(
    runs: Sequence[Path], judge: Callable[[Path], float | None] = best_valid
) -> tuple[list[Point], list[Path]]:
    """The points of some run folders, and the runs that were left out: they did not end, or have no figure."""
    found: dict[tuple[str, Settings], list[float]] = {}
    left = []
    for run in runs:
        folder = RunFolder.open(run)
        mrr = judge(run) if ended(run) else None
        if mrr is None:
            left.append(run)
            continue
        name = str(folder.about()["graph"]["name"])
        family, settings = _settings(Experiment.from_toml(folder.settings(), where=str(run)), name)
        found.setdefault((family, tuple(sorted(settings.items()))), []).append(mrr)
    points = [Point(f, dict(s), mean(mrrs), min(mrrs), max(mrrs), len(mrrs)) for (f, s), mrrs in found.items()]
    return points, left


def varied(points: Sequence[Point]) -> list[str]:
    """The paths of numeric settings that have several values within a family, those of the paper first."""
    paths: dict[str, None] = {}
    for family in families(points):
        members = [point.settings for point in points if point.family == family]
        for path in members[0]:
            values = {settings.get(path) for settings in members}
            numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            if len(values) > 1 and numbers:
                paths[path] = None
    known = list(SYMBOLS)
    return sorted(paths, key=lambda path: (known.index(path) if path in known else len(known), path))


def families(points: Sequence[Point]) -> list[str]:
    """Graph, model and regularizer of the points, each once."""
    return list(dict.fromkeys(point.family for point in points))


def centre(points: Sequence[Point], family: str) -> Point:
    """The family's point from which the most settings have a curve; of equals the best."""
    members = [point for point in points if point.family == family]
    curves: Counter[int] = Counter()
    for path in varied(members):
        lines: defaultdict[Settings, list[int]] = defaultdict(list)
        for i, point in enumerate(members):
            lines[_others(point, path)].append(i)
        curves.update(i for line in lines.values() if len(line) > 1 for i in line)
    return members[max(range(len(members)), key=lambda i: (curves[i], members[i].mrr))]


def along(points: Sequence[Point], family: str, path: str) -> list[Point]:
    """The family's centre and the points that differ from it in this setting alone, by the setting's value."""
    middle = centre(points, family)
    if path not in middle.settings:
        return []
    others = _others(middle, path)
    line = [p for p in points if p.family == family and path in p.settings and _others(p, path) == others]
    return sorted(line, key=lambda point: float(point.settings[path]))


def curve_or_all(points: Sequence[Point], family: str, path: str) -> tuple[bool, list[Point]]:
    """True and the family's curve along a setting; where it has none, False and all its points, if they vary in it."""
    line = along(points, family, path)
    if len(line) > 1:
        return True, line
    members = [point for point in points if point.family == family and path in point.settings]
    various = len({point.settings[path] for point in members}) > 1
    return False, sorted(members, key=lambda point: float(point.settings[path])) if various else []


def sheet(points: Sequence[Point], paths: Sequence[str], split: str) -> Sheet:
    """A row for each value of each setting; where no curve can be drawn, for each run."""
    rows: list[dict[str, Cell]] = []
    notes = [
        f"MRR on the {split} split; each setting moves alone, the others stay as in the centre of its family.",
        *(note for family in families(points) for note in _about_centre(points, family)),
    ]
    for path in paths:
        for family in families(points):
            alone, line = curve_or_all(points, family, path)
            best = max((point.mrr for point in line), default=math.nan)
            rows += [_row(path, point, split, alone, best) for point in line]
        if not any(row["setting"] == path and row["alone"] for row in rows):
            notes.append(f"No run differs from the centre in {path} alone: its rows differ in other settings too.")
    fractions = {row["setting"] for row in rows if isinstance(row["value"], float)}
    for row in rows:  # 2 among 0.5 and 1.0 is one of them
        if row["setting"] in fractions and isinstance(row["value"], int):
            row["value"] = float(row["value"])
    return Sheet("Sensitivity", rows, notes, {"value": decimals([row["value"] for row in rows])})


def draw(points: Sequence[Point], paths: Sequence[str], split: str, path: Path) -> Path:
    """A panel for each setting with each family's curve and its spread over seeds; dots where there is no curve."""
    with panels(len(paths)) as (drawn, places):
        for panel, setting in zip(places, paths, strict=True):
            scale(panel, [point.settings[setting] for point in points if setting in point.settings])
            for i, family in enumerate(families(points)):
                alone, line = curve_or_all(points, family, setting)
                if not line:
                    continue
                seeds = any(p.runs > 1 for p in line)
                spread = [[p.mrr - p.low for p in line], [p.high - p.mrr for p in line]] if seeds else None
                style = LINES[i % 7] if alone else "none"
                look: dict[str, Any] = {"color": COLOURS[i % 7], "linestyle": style, "marker": MARKERS[i % 7]}
                at = [float(p.settings[setting]) for p in line]
                panel.errorbar(at, [p.mrr for p in line], spread, label=family, capsize=2, **look)
            low, high = panel.get_ylim()
            if high - low < LEAST_SPAN:
                panel.set_ylim((low + high - LEAST_SPAN) / 2, (low + high + LEAST_SPAN) / 2)
            panel.set_xlabel(called(setting))
            panel.set_ylabel(f"{split} MRR")
        legend_above(drawn, places)
        return save(drawn, path)


def _others(point: Point, path: str) -> Settings:
    """All settings of a point but one."""
    return tuple(item for item in sorted(point.settings.items()) if item[0] != path)


def _about_centre(points: Sequence[Point], family: str) -> list[str]:
    """Which run is a family's centre, and which is the best where that is another; nothing where no setting varies."""
    members = [point for point in points if point.family == family]
    if not varied(members):
        return []
    middle, best = centre(points, family), max(members, key=lambda point: point.mrr)
    about = f"The centre of {family} is the run with {_told(middle, varied(members))}"
    if middle.mrr == best.mrr:
        return [f"{about}, the best."]
    other = f"the best has {_told(best, varied(members))} and MRR {best.mrr:.4f}"
    return [f"{about}, from which the most settings have a curve; {other}."]


def _told(point: Point, paths: Sequence[str]) -> str:
    """Some settings of a point in words."""
    values = {path: point.settings[path] for path in paths}
    return ", ".join(f"{path} {f'{v:g}' if isinstance(v, float) else v}" for path, v in values.items())


def _settings(experiment: Experiment, graph: str) -> tuple[str, dict[str, Any]]:
    """The family of a run and its settings by path, without those that make no other point."""
    tables = experiment.to_dict()
    flat = {
        f"{table}.{key}": tuple(value) if isinstance(value, list) else value
        for table in ("model", "regularizer", "loss", "candidates", "terms", "optimizer", "smoothness", "training")
        for key, value in tables[table].items()
        if f"{table}.{key}" not in _SILENT
    }
    return f"{graph} {flat.pop('model.name')} {flat.pop('regularizer.name')}", flat


def _row(path: str, point: Point, split: str, alone: bool, best: float) -> dict[str, Cell]:
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


def chosen_paths(points: Sequence[Point], wanted: Sequence[str], left: int = 0) -> list[str]:
    """The settings to show: those that are wanted, else all that vary; an error where there is nothing to show.

    `left` runs were left out of the points.
    """
    known = varied(points)
    if not known:
        ran, why = ("runs that ended", f" ({left} did not, or have no figure)") if left else ("runs", "")
        raise BadInput(f"the {ran} do not differ in any number among their settings{why}, so there is no curve to draw")
    for path in wanted:
        if path not in known:
            raise BadInput(f"{path!r} does not vary in these runs; {', '.join(known)} do")
    return list(wanted) or known
