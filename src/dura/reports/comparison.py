"""Comparison: what a report says of several runs side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote

from dura.registry import Value
from dura.reports.blocks import Block, Code, Gallery, Picture, Points, Section, Text
from dura.reports.drawing import mrr_bars, valid_by_epoch, valid_by_time
from dura.reports.runs import Figures, Run, differing
from dura.reports.single import duration, headline, metrics_sheet, warnings
from dura.reports.tables import Cell, Sheet


def comparison(runs: Sequence[Run]) -> list[Block]:
    """One table with the settings that differ, curves and categories in one figure each, then each run folded."""
    pictures = shared_pictures(runs)
    return [
        comparison_sheet(runs),
        *doubts(runs),
        *([Section("Side by side", [Gallery(pictures)])] if pictures else []),
        Section("The runs", [Section(run.name, _details(run), folded=True) for run in runs]),
    ]


def comparison_sheet(runs: Sequence[Run], title: str = "") -> Sheet:
    """A row a run: its figures, then the settings that not all runs share."""
    own, figures = differing(runs), [{"run": run.name, **_figures(run)} for run in runs]
    names = dict(zip(own, short_settings(list(own), figures[0]), strict=True))
    rows = [
        {**figures[i], **{names[path]: _setting(values[i]) for path, values in own.items()}} for i in range(len(runs))
    ]
    empty = [column for column in rows[0] if all(row[column] is None for row in rows)]
    return Sheet(title, [{column: cell for column, cell in row.items() if column not in empty} for row in rows])


def _figures(run: Run) -> dict[str, Cell]:
    found = run.evaluation()
    test = None if found is None else found.headline
    return {
        "test MRR": None if test is None else test["mrr"],
        **{f"Hits@{k}": None if test is None else test["hits"][k] for k in ("1", "3", "10")},
        "valid MRR": None if run.best is None else run.best["valid"]["mrr"],
        "epochs": len(run.curve),
        "time": duration(run.curve[-1]["seconds"] or 0.0) if run.curve else None,
    }


def short_settings(paths: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """Paths of settings without their tables, as far as that tells them apart and is not `taken`.

    >>> short_settings(["model.name", "model.rank", "training.epochs", "regularizer.weight", "smoothness.weight"], ["epochs"])
    ['model', 'rank', 'training.epochs', 'regularizer.weight', 'smoothness.weight']
    """
    keys = [path.rpartition(".")[2] for path in paths]
    return [
        path.removesuffix(".name") if key == "name" else key if keys.count(key) == 1 and key not in taken else path
        for path, key in zip(paths, keys, strict=True)
    ]


def _setting(value: Value | None) -> Cell:
    """A setting as it would be written, whole numbers as numbers."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else value


def doubts(runs: Sequence[Run]) -> list[Block]:
    """Why the figures may not be comparable, and what is missing."""
    found: list[Block] = []
    if len({run.about.get("graph", {}).get("digest") for run in runs}) > 1:
        found.append(Text("The runs are on different graphs: their figures cannot be compared with each other.", True))
    filters = {run.name: e.filter for run in runs if (e := run.evaluation()) is not None}
    if len(set(filters.values())) > 1:
        told = "; ".join(f"{name}: {filtered}" for name, filtered in filters.items())
        found.append(Text(f"The test facts were not ranked in the same way ({told}).", True))
    missing = [f"`dura evaluate {quote(str(run.path))} --by category`" for run in runs if run.evaluation() is None]
    if missing:
        found.append(Text("These runs have no test figures yet; to rank their test facts:", True))
        found.append(Points(missing))
    return found


def shared_pictures(runs: Sequence[Run]) -> list[Picture]:
    """The figures with all runs in them; one without the records for a figure keeps its colour and stays empty."""
    found = [valid_by_epoch(runs), valid_by_time(runs)] if any(run.best is not None for run in runs) else []
    for kind in ("category", "side"):
        groups: dict[str, Mapping[str, Figures]] = {
            run.name: e.groups.get(kind, {}) if (e := run.evaluation()) is not None else {} for run in runs
        }
        missing = [name for name, group in groups.items() if not group]
        if len(missing) < len(runs):
            lack = f" (not evaluated by {kind}: {', '.join(missing)})" if missing else ""
            found.append(mrr_bars(f"test-mrr-by-{kind}", f"MRR of the test facts by {kind}{lack}", groups))
    return found


def _details(run: Run) -> list[Block]:
    events: list[Block] = [Points(run.events)] if run.events else []
    figures: list[Block] = [metrics_sheet(run)] if run.evaluations else warnings(run)
    return [Text(f"{run.path}: {run.state}."), headline(run), *figures, *events, Code(run.settings, "toml")]
