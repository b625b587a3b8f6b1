"""Single: what a report says about one run."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from dura.config import Component
from dura.reports.blocks import Block, Bullets, Code, Gallery, Section, Terms, Text, Tiles
from dura.reports.drawing import mrr_bars, training_figures
from dura.reports.exported import export_blocks
from dura.reports.runs import Evaluation, Run
from dura.sheets.sheet import Plain, Sheet
from dura.types import TIES
from dura.words import duration

MANY = 12
"""A breakdown with more rows than this is folded."""
KINDS = ("category", "category-side", "side", "relation")
DIGITS = {"mean rank": 1}


def single(run: Run) -> list[Block]:
    """Everything about one run, the most important first."""
    figures = training_figures(run)
    curves: list[Block] = [Gallery(figures)] if figures else [Text("The records hold no epoch.")]
    return [
        headline(run),
        *warnings(run),
        Section("What it is", [what_it_is(run)]),
        *([] if run.exported is None else [Section("Export", export_blocks(run.exported))]),
        Section("Training", curves),
        *evaluation_sections(run),
        *history(run),
        Section("Settings", [Code(run.settings, "toml")]),
        Section("Versions", [versions(run)]),
    ]


def in_short(run: Run) -> str:
    """One sentence: model, regularizer, graph and its counts; a second one about the tables if they are packed."""
    e, graph = run.experiment, run.about.get("graph", {})
    size = f" of rank {e.model.options['rank']}" if "rank" in e.model.options else ""
    small = f" Exported: {run.exported.form}." if run.exported is not None and run.exported.packed else ""
    return f"{e.model.name}{size}, regularizer {e.regularizer.name}, on {graph.get('name')}: {counts(graph)}.{small}"


def counts(graph: Mapping[str, Any]) -> str:
    """The known sizes of a graph, in words."""
    known = [f"{graph[key]:,} {key}" for key in ("entities", "relations", "times") if key in graph]
    facts = [f"{graph[split]:,} {split}" for split in ("train", "valid", "test") if split in graph]
    return ", ".join([*known, f"facts {' / '.join(facts)}"] if facts else known)


def headline(run: Run) -> Tiles:
    """The results to be seen first; test before valid."""
    found, items = run.evaluation(), list[tuple[str, str, str]]()
    if found is not None:
        metrics, ties = found.headline, f"{found.protocol['ties']} ties"
        items.append(("test MRR", f"{metrics['mrr']:.4f}", ties))
        items += [(f"test Hits@{k}", f"{metrics['hits'][k]:.4f}", ties) for k in ("1", "3", "10")]
    if run.exported is not None:
        items += run.exported.tiles()
    if run.best is not None:
        items.append(("best valid MRR", f"{run.best['valid']['mrr']:.4f}", f"epoch {run.best['epoch']}"))
    if run.curve:
        speed = f"{run.curve[-1]['facts_per_second'] or 0:,.0f} facts/s in the last epoch"
        items.append(("time in steps", duration(run.curve[-1]["seconds"] or 0.0), speed))
    expected = run.experiment.expected.get("mrr")
    if isinstance(expected, int | float):
        items.append(("expected MRR", f"{expected:.4f}", "according to its preset"))
    return Tiles(items)


def warnings(run: Run) -> list[Block]:
    """What a reader must know before trusting the results: there is no evaluation, or it is of older tables."""
    found = run.evaluation()
    command = f"`dura evaluate {quote(str(run.path))} --by category`"
    if found is None:
        told = f"The test facts have not been ranked. {command} does it and keeps the results in the run."
        if run.exported is not None and "test" in run.exported.metrics:
            told = f"The test facts were ranked only during the export. {command} adds tie policies and breakdowns."
        return [Text(told, True)]
    if None not in (found.epoch, run.best) and run.best is not None and found.epoch != run.best["epoch"]:
        text = f"The test results are those of epoch {found.epoch}, but the best epoch is now {run.best['epoch']}."
        return [Text(f"{text} {command} ranks again.", True)]
    return []


def what_it_is(run: Run) -> Terms:
    """Graph, parts and state in short."""
    e, graph = run.experiment, run.about.get("graph", {})
    training = e.training
    items = [
        ("graph", f"{graph.get('name')}: {counts(graph)}"),
        ("model", _component(e.model)),
        ("regularizer", _component(e.regularizer)),
        ("loss", _component(e.loss)),
        ("candidates", _component(e.candidates)),
        ("optimizer", _component(e.optimizer)),
        ("batch", f"{training.batch} {training.batching}, seed {training.seed}"),
        ("state", run.state),
        ("folder", str(run.path)),
    ]
    if e.smoothness.weight:
        turns = f", one of {e.smoothness.every} pairs per step" if e.smoothness.every > 1 else ""
        items.insert(3, ("smoothness", f"weight {e.smoothness.weight:g}, p {e.smoothness.p}{turns}"))
    if e.expected:
        items.append(("expected", "; ".join(f"{key} {value}" for key, value in e.expected.items())))
    return Terms(items)


def _component(part: Component) -> str:
    options = ", ".join(f"{key} {value}" for key, value in part.options.items())
    return f"{part.name} ({options})" if options else part.name


def metrics_sheet(run: Run, title: str = "") -> Sheet:
    """Every evaluation under every tie policy."""
    rows = [
        {"split": found.split, "filter": found.filter, "ties": ties, **metrics_row(found.ties[ties])}
        for found in run.evaluations
        for ties in TIES
        if ties in found.ties
    ]
    if len({found.filter for found in run.evaluations}) == 1:
        rows = [{key: value for key, value in row.items() if key != "filter"} for row in rows]
    return Sheet(title, rows, digits=DIGITS)


def metrics_row(metrics: Mapping[str, Any]) -> dict[str, Plain]:
    """The metrics of one set of ranks as a row of a sheet."""
    hits = {f"Hits@{k}": share for k, share in metrics["hits"].items()}
    rest = {"mean rank": metrics["mean_rank"], "AMRI": metrics["amri"], "ranks": metrics["ranks"]}
    return {"MRR": metrics["mrr"], **hits, **rest}


def evaluation_sections(run: Run) -> list[Section]:
    """The metrics with their protocol, then the breakdowns."""
    if not run.evaluations:
        return []
    blocks: list[Block] = [metrics_sheet(run), protocol(run.evaluations[0])]
    for found in run.evaluations:
        blocks += breakdowns(found)
    return [Section("Evaluation", blocks)]


def protocol(found: Evaluation) -> Terms:
    """How the results were computed, and with which tables."""
    epoch = "unknown" if found.epoch is None else str(found.epoch)
    return Terms([*protocol_terms(found).items(), ("tables of epoch", epoch)])


def protocol_terms(found: Evaluation) -> dict[str, str]:
    """How the results were computed: two results may be compared if these terms agree."""
    p = found.protocol
    unseen = p.get("unseen_entities", {})
    return {
        "split": found.split,
        "known answers left out": found.filter,
        **({"times": str(p["times"])} if "times" in p else {}),
        "sides": str(p.get("sides")),
        "ranked": str(p.get("candidates")),
        "headline": f"{p.get('ties')} ties",
        "not seen in train": "{} entities, in {} ranked facts".format(*unseen.values()) if unseen else "unknown",
    }


def breakdowns(found: Evaluation) -> list[Block]:
    """The metrics by category, side and relation, if they were asked for; long lists are folded."""
    blocks: list[Block] = []
    for kind in sorted(found.groups, key=KINDS.index):
        groups = found.groups[kind]
        title = f"{found.split} facts by {kind.replace('-', ' and ')}"
        # Relations are sorted by their number of facts; categories and sides have a fixed order.
        names = sorted(groups, key=lambda name: -groups[name]["ranks"]) if kind == "relation" else groups
        labels = found.labels if kind == "relation" else {}
        shown = {name: f"{name} ({labels[name]})" if name in labels else name for name in names}
        rows = [{kind: shown[name], **metrics_row(groups[name])} for name in names]
        inside: list[Block] = [Sheet("", rows, digits=DIGITS)]
        if kind.startswith("category"):
            stem = f"{found.split}-{kind}{'-static' if 'static' in found.filter else ''}"
            inside.insert(0, Gallery([mrr_bars(stem, f"MRR of the {title}", {found.split: groups})]))
        blocks.append(Section(title, inside, folded=len(rows) > MANY))
    return blocks


def history(run: Run) -> list[Section]:
    """Resumes, notices and failures, if there were any."""
    return [Section("What happened", [Bullets(run.events)])] if run.events else []


def versions(run: Run) -> Terms:
    """The versions of the program, and the digest of the data."""
    ranked = sorted({str(found.protocol.get("dura")) for found in run.evaluations})
    return Terms(
        [
            ("trained with", f"dura {run.about.get('dura')}"),
            *([("evaluated with", f"dura {', '.join(ranked)}")] if ranked else []),
            ("begun", str(run.about.get("created"))),
            ("run folder format", str(run.about.get("format"))),
            ("digest of the data", f"`{run.about.get('graph', {}).get('digest')}`"),
        ]
    )
