"""A study: is an answer that occurs often in the training facts found more easily than one that is rare?

A study is a module with four functions. `compute` opens runs and returns plain values, `sheets` makes printed tables of them,
`draw` makes a figure, and `command` has the options of `dura study frequency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dura.sheets.figures import bars, figure, legend_below, save
from dura.sheets.sheet import Sheet
from dura.studies.study import Bar, Count, Found, Made, OutOption, RunsArgument, finish, run_labels

GROUPS = ("rare", "common", "frequent")


def compute(runs: Sequence[Path], *, progress: Count | None = None) -> dict[str, Any]:
    """Test MRR of each run for answers that are rare, common and frequent: three groups with about as many ranks each."""
    from dura.evaluation import metrics, rank  # here, because they import torch: `dura study --help` should not
    from dura.runs.trained import open_run

    found = []
    for number, (run, label) in enumerate(zip(runs, run_labels(runs), strict=True), 1):
        trained = open_run(run)
        graph = trained.graph
        ranks = rank(trained.model, graph.asked("test"), graph.known, len(graph.relations))
        answer = np.where(ranks.side == 0, ranks.tail, ranks.head)
        often = np.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities))[answer]
        parts = np.array_split(np.argsort(often, kind="stable"), len(GROUPS))
        mrr = {name: metrics(ranks.select(part)).mrr for name, part in zip(GROUPS, parts, strict=True)}
        found.append({"run": str(run), "label": label, "mrr": mrr, "all": metrics(ranks).mrr})
        if progress is not None:
            progress(number, len(runs))
    return {"graph": graph.name, "runs": found}


def sheets(found: Found) -> dict[str, Sheet]:
    """One row per run."""
    rows = [{"run": run["label"], **run["mrr"], "all": run["all"]} for run in found["runs"]]
    notes = ["The ranks are sorted by how many training facts have the answer, and cut into three equal groups."]
    return {"frequency": Sheet(f"MRR by frequency of the answer, test facts of {found['graph']}", rows, notes)}


def draw(found: Found, path: Path) -> Path:
    """One group of bars per frequency, one bar per run."""
    with figure() as (drawn, axes):
        bars(axes[0, 0], {run["label"]: run["mrr"] for run in found["runs"]}, y="test MRR")
        legend_below(drawn, axes[0, 0])
        return save(drawn, path)


def command(runs: RunsArgument, out: OutOption = Path("studies/frequency"), *, bar: Bar) -> Made:
    """Compare the MRR of runs for rare, common and frequent answers.

    Example:

        dura study frequency runs/shift runs/mlp
    """
    with bar("ranking") as progress:
        found = compute(runs, progress=progress)
    return finish(found, sheets(found), draw, out)
