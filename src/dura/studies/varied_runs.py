"""Varied runs: runs that differ in some settings, as the points of curves. The study of sensitivity reads them with this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from dura.analysis.sensitivity import Point, varied
from dura.config import Experiment
from dura.records import RunFolder, best_epoch
from dura.registry import Scalar
from dura.sheets.settings import SYMBOLS
from dura.studies.study import Count
from dura.types import BadInput

_SAME = ("training.seed", "training.device", "training.threads", "training.checkpoint_every")
"""Runs that differ only in these settings, in the graph's or in the size of a block are one point."""

Judge = Callable[[Path], float | None]
"""The MRR of a run; None if it has none."""


def existing_runs(what: Sequence[str]) -> list[Path]:
    """The run folders that were named, and those inside of sweeps that were named."""
    runs: list[Path] = []
    for path in map(Path, what):
        inside = runs_of_sweep(path)
        if not inside and not (path / "run.json").exists():
            raise BadInput(
                f"{path} is neither a run folder nor a sweep with runs; a preset needs --over KEY=A,B,C to be varied"
            )
        runs += inside or [path]
    return runs


def runs_of_sweep(sweep: Path) -> list[Path]:
    """The run folders of a sweep; none if this is not a sweep."""
    files = sorted((sweep / "runs").glob("*/run.json")) if (sweep / "sweep.toml").exists() else []
    return [file.parent for file in files]


def best_valid(run: Path) -> float | None:
    """The best valid MRR in the records of a run."""
    best = best_epoch(RunFolder(run).records())
    return None if best is None else best["valid"]["mrr"]


def ranking(runs: Sequence[Path], progress: Count | None) -> Judge:
    """A judge that ranks test now. `progress` counts the ranked runs."""
    from dura.runs.trained import open_run

    def judge(run: Path) -> float:
        mrr = open_run(run).evaluate("test").mrr
        if progress is not None:
            progress(list(runs).index(run) + 1, len(runs))
        return mrr

    return judge


def _ended(run: Path) -> bool:
    """False if training was begun and did not end: the MRR of such a run says nothing about its settings."""
    kinds = {record.get("kind") for record in RunFolder(run).records()}
    return "end" in kinds or "start" not in kinds


def read_points(runs: Sequence[Path], judge: Judge) -> tuple[list[Point], list[Path]]:
    """The points of some run folders, and the runs that are left out because they did not end or have no MRR."""
    found: dict[tuple[str, tuple[tuple[str, Scalar], ...]], list[float]] = {}
    left = []
    for run in runs:
        folder = RunFolder.open(run)
        mrr = judge(run) if _ended(run) else None
        if mrr is None:
            left.append(run)
            continue
        name = str(folder.about()["graph"]["name"])
        family, settings = _settings(Experiment.from_toml(folder.settings(), where=str(run)), name)
        found.setdefault((family, tuple(sorted(settings.items()))), []).append(mrr)
    points = [Point(f, dict(s), mean(mrrs), min(mrrs), max(mrrs), len(mrrs)) for (f, s), mrrs in found.items()]
    return points, left


def _settings(experiment: Experiment, graph: str) -> tuple[str, dict[str, Scalar]]:
    """The family of a run, and its settings by path without those that make no other point."""
    flat = {
        path: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for path, value in experiment.by_path().items()
        if path not in _SAME and not path.startswith("graph.") and not path.endswith(".block")
    }
    return f"{graph} {flat.pop('model.name')} {flat.pop('regularizer.name')}", flat


def varied_settings(points: Sequence[Point]) -> list[str]:
    """The settings that vary, those of the paper first."""
    known = list(SYMBOLS)
    return sorted(varied(points), key=lambda path: known.index(path) if path in known else len(known))


def chosen_settings(points: Sequence[Point], left: Sequence[Path], over: Sequence[str]) -> list[str]:
    """The settings to show: `over`, or all that vary; an error if there is nothing to show."""
    known = varied_settings(points)
    if not known:
        ran, why = ("runs that ended", f" ({len(left)} did not, or have no MRR)") if left else ("runs", "")
        raise BadInput(f"the {ran} do not differ in any numeric setting{why}, so there is no curve to draw")
    for path in over:
        if path not in known:
            raise BadInput(f"{path!r} does not vary in these runs; {', '.join(known)} do")
    return list(over) or known


def check_tables(runs: Sequence[Path]) -> None:
    """Refuse to rank test with runs whose tables were removed, before the first is trained or ranked."""
    begun = [run for run in runs if RunFolder(run).records()]  # the others were killed before their first record
    bare = [run for run in begun if _ended(run) and not any((run / "checkpoints").glob("*"))]
    if bare:
        raise BadInput(
            f"{len(bare)} of {len(runs)} runs have no tables to rank test with, such as {bare[0]}: sweeps and studies "
            "on valid keep only those of the best run; train again in a new folder (--out), a study with --split test, "
            "a sweep with --keep 0"
        )
