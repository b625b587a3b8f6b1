"""Comparison: what a report says about several runs side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote

from dura.registry import Value
from dura.reports.blocks import Block, Bullets, Code, Figure, Gallery, Section, Terms, Text
from dura.reports.drawing import mrr_bars, valid_by_epoch, valid_by_time
from dura.reports.exported import export_blocks
from dura.reports.runs import Numbers, Run, differing
from dura.reports.single import headline, metrics_sheet, protocol_terms, warnings
from dura.sheets.sheet import Plain, Sheet
from dura.words import duration


def comparison(runs: Sequence[Run]) -> list[Block]:
    """One sheet with the settings that differ, the protocol, curves and categories in one figure each, then each run, folded."""
    figures = shared_figures(runs)
    return [
        comparison_sheet(runs),
        *doubts(runs),
        *shared_protocol(runs),
        *([Section("Side by side", [Gallery(figures)])] if figures else []),
        Section("The runs", [Section(run.name, _details(run), folded=True) for run in runs]),
    ]


def comparison_sheet(runs: Sequence[Run], title: str = "") -> Sheet:
    """One row per run: its results, then the settings in which the runs differ."""
    own, results = differing(runs), [{"run": run.name, **_results(run)} for run in runs]
    names = dict(zip(own, short_settings(list(own), results[0]), strict=True))
    rows = [
        {**results[i], **{names[path]: _setting(values[i]) for path, values in own.items()}} for i in range(len(runs))
    ]
    empty = [column for column in rows[0] if all(row[column] is None for row in rows)]
    return Sheet(title, [{column: value for column, value in row.items() if column not in empty} for row in rows])


def _results(run: Run) -> dict[str, Plain]:
    found = run.evaluation()
    test = None if found is None else found.headline
    return {
        "test MRR": _exported_mrr(run, "test") if test is None else test["mrr"],
        **{f"Hits@{k}": None if test is None else test["hits"][k] for k in ("1", "3", "10")},
        "valid MRR": _valid_mrr(run),
        "epochs": len(run.curve) if run.exported is None else None,
        "time": duration(run.curve[-1]["seconds"] or 0.0) if run.curve else None,
    }


def _valid_mrr(run: Run) -> float | None:
    """That of the best epoch, or of an exported run what was measured with its tables."""
    if run.best is not None:
        best: float | None = run.best["valid"]["mrr"]
        return best
    return _exported_mrr(run, "valid")


def _exported_mrr(run: Run, split: str) -> float | None:
    return None if run.exported is None else run.exported.mrr(split)


def short_settings(paths: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """Settings without the names of their tables, unless that name is `taken` or belongs to several of them.

    >>> short_settings(["model.name", "model.rank", "training.epochs", "regularizer.weight", "smoothness.weight"], ["epochs"])
    ['model', 'rank', 'training.epochs', 'regularizer.weight', 'smoothness.weight']
    """
    keys = [path.rpartition(".")[2] for path in paths]
    return [
        path.removesuffix(".name") if key == "name" else key if keys.count(key) == 1 and key not in taken else path
        for path, key in zip(paths, keys, strict=True)
    ]


def _setting(value: Value | None) -> Plain:
    """A setting as people write it."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else value


def doubts(runs: Sequence[Run]) -> list[Block]:
    """Why the results may not be comparable, and what is missing."""
    found: list[Block] = []
    if len({run.about.get("graph", {}).get("digest") for run in runs}) > 1:
        found.append(Text("The runs are on different graphs: their results cannot be compared.", True))
    if differ := [term for term, told in protocols(runs).items() if len(set(told.values())) > 1]:
        found.append(
            Text(f"The facts were not ranked in the same way. The protocols differ in: {', '.join(differ)}.", True)
        )
    missing = [
        f"`dura evaluate {quote(str(run.path))} --by category`" for run in runs if _results(run)["test MRR"] is None
    ]
    if missing:
        found.append(Text("These runs have no evaluation of their test facts yet; to rank them:", True))
        found.append(Bullets(missing))
    return found


def protocols(runs: Sequence[Run]) -> dict[str, dict[str, str]]:
    """How the runs were ranked, by term and run. The first evaluation of a run counts; runs without one are left out."""
    said = {run.name: protocol_terms(run.evaluations[0]) for run in runs if run.evaluations}
    terms = dict.fromkeys(term for told in said.values() for term in told)
    return {term: {name: told.get(term, "none") for name, told in said.items()} for term in terms}


def shared_protocol(runs: Sequence[Run]) -> list[Section]:
    """The protocol once for all runs; a term in which they differ names the runs for each value."""
    found = protocols(runs)
    return [Section("Protocol", [Terms([(term, _agreed(told)) for term, told in found.items()])])] if found else []


def _agreed(told: Mapping[str, str]) -> str:
    """The value of all runs, or each value with its runs.

    >>> _agreed({"a": "both", "b": "both"}), _agreed({"a": "both", "b": "tail", "c": "both"})
    ('both', 'a, c: both; b: tail')
    """
    values = dict.fromkeys(told.values())
    if len(values) == 1:
        return next(iter(values))
    return "; ".join(f"{', '.join(name for name in told if told[name] == value)}: {value}" for value in values)


def shared_figures(runs: Sequence[Run]) -> list[Figure]:
    """The figures with all runs in them; a run without the records for a figure keeps its colour and is not drawn."""
    found = [valid_by_epoch(runs), valid_by_time(runs)] if any(run.best is not None for run in runs) else []
    for kind in ("category", "side"):
        groups: dict[str, Mapping[str, Numbers]] = {
            run.name: e.groups.get(kind, {}) if (e := run.evaluation()) is not None else {} for run in runs
        }
        missing = [name for name, group in groups.items() if not group]
        if len(missing) < len(runs):
            lack = f" (not evaluated by {kind}: {', '.join(missing)})" if missing else ""
            found.append(mrr_bars(f"test-mrr-by-{kind}", f"MRR of the test facts by {kind}{lack}", groups))
    return found


def _details(run: Run) -> list[Block]:
    events: list[Block] = [Bullets(run.events)] if run.events else []
    results: list[Block] = [metrics_sheet(run)] if run.evaluations else warnings(run)
    form = [] if run.exported is None else export_blocks(run.exported)
    return [Text(f"{run.path}: {run.state}."), headline(run), *form, *results, *events, Code(run.settings, "toml")]
