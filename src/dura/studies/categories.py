"""The study by relation category: which kinds of relations does a model or a regularizer help?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dura.sheets.figures import bars, figure, legend_below, save
from dura.sheets.sheet import Sheet
from dura.studies.study import (
    Bar,
    Count,
    DeviceOption,
    Found,
    Made,
    OutOption,
    RunsArgument,
    SplitName,
    SplitOption,
    finish,
    run_labels,
)
from dura.types import Split


def compute(
    runs: Sequence[Path], split: Split = "test", *, device: str = "cpu", progress: Count | None = None
) -> dict[str, Any]:
    """MRR by relation category, and by category and side, for several runs of one graph; with the protocol.

    >>> compute([Path("runs/none"), Path("runs/dura")])["runs"][0]["category"]["1-N"]  # doctest: +SKIP
    """
    from dura.runs.trained import open_run

    found: list[dict[str, Any]] = []
    protocol: dict[str, Any] = {}
    for run, label in zip(runs, run_labels(runs), strict=True):
        result = open_run(run, device).evaluate(split, ["category", "category-side"], progress=progress)
        protocol = result.protocol
        by: dict[str, Any] = {kind: {name: m.mrr for name, m in group.items()} for kind, group in result.groups.items()}
        ranks = {name: m.ranks for name, m in result.groups["category"].items()}
        found.append({"run": str(run), "label": label, "mrr": result.mrr, **by, "ranks": ranks})
    return {"graph": protocol["graph"], "split": split, "protocol": protocol, "runs": found}


def sheets(found: Found) -> dict[str, Sheet]:
    """MRR by category, and by category and side; one row per run, with all facts last."""
    return {"categories": _sheet(found, "category"), "categories-sides": _sheet(found, "category-side")}


def _sheet(found: Found, kind: str) -> Sheet:
    runs, protocol = found["runs"], found["protocol"]
    places = list(runs[0][kind])
    rows = [{"run": run["label"], **{place: run[kind][place] for place in places}, "all": run["mrr"]} for run in runs]
    side = " and side" if kind == "category-side" else ""
    ranks = ", ".join(f"{place} {count:,}" for place, count in runs[0]["ranks"].items())
    notes = [
        f"Filtered: {protocol['filter']}; both sides; ties {protocol['ties']}; {protocol['candidates']} ranked.",
        f"Ranks by category: {ranks}. N is an average of 1.5 or more in train: of tails per head, or of heads per tail.",
    ]
    return Sheet(f"MRR by relation category{side}, {found['split']} facts of {found['graph']}", rows, notes)


def draw(found: Found, path: Path) -> Path:
    """Bars side by side: one group per category, one bar per run."""
    groups = {run["label"]: {**run["category"], "all": run["mrr"]} for run in found["runs"]}
    with figure(width=6.4) as (drawn, axes):
        panel = axes[0, 0]
        bars(panel, groups, y=f"{found['split']} MRR")
        panel.set_ylim(0, 1.06 * max(max(heights.values()) for heights in groups.values()))
        legend_below(drawn, panel)
        return save(drawn, path)


def command(
    runs: RunsArgument,
    split: SplitOption = SplitName.test,
    out: OutOption = Path("studies/categories"),
    device: DeviceOption = "cpu",
    *,
    bar: Bar,
) -> Made:
    """Compare the MRR of several runs by relation category (1-1, 1-N, N-1, N-N), also by the side that was asked for.

    Writes categories.md, .csv, .json, .png and .svg, and categories-sides.md, .csv and .json.

    Examples:

        dura study categories runs/none runs/dura-i runs/dura-ii runs/dura

        dura study categories runs/none runs/dura --split valid --out studies/mine
    """
    with bar("ranking") as progress:
        found = compute(runs, split.value, device=device, progress=progress)
    return finish(found, sheets(found), draw, out)
