"""The study of sparsity: how much MRR a model keeps when the small entries of its entities' rows become zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dura.records import RunFolder, exported_as
from dura.sheets.figures import curves, figure, legend_below, save
from dura.sheets.sheet import Sheet
from dura.studies.study import Bar, Count, Found, Made, OutOption, SplitName, SplitOption, finish
from dura.types import BadInput, Split
from dura.words import short_names

SHARES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_DIGITS = {"share": 2, "zeros": 3, "threshold": 5, "csr saved %": 1, "csc saved %": 1}
_NOTES = (
    "share: of the entities' entries to make zero; zeros: the share reached; threshold: λ, entries with |x| < λ are zero.",
    "dense, csr, csc: bytes of the entities' tables with float32 entries and the smallest index type that is large enough.",
)


def compute(
    runs: Sequence[Path],
    shares: Sequence[float] = SHARES,
    split: Split = "test",
    *,
    progress: Count | None = None,
) -> dict[str, Any]:
    """One row per run and share of the entities' entries that is made zero: the metrics, and the bytes that are needed.

    >>> compute([Path("runs/dura")], [0.0, 0.7])["rows"][1]["mrr"]  # doctest: +SKIP
    """
    rows: list[dict[str, Any]] = []
    for run, name in zip(runs, _names(runs), strict=True):

        def count(done: int, _: int, before: int = len(rows)) -> None:
            if progress is not None:
                progress(before + done, len(runs) * len(shares))

        rows += _rows(run, name, shares, split, count)
    return {"split": split, "rows": rows}


def _rows(run: Path, name: str, shares: Sequence[float], split: Split, progress: Count) -> list[dict[str, Any]]:
    from dura.analysis.sparsity import curve
    from dura.runs.trained import open_run

    trained = open_run(run)
    e = trained.experiment
    about = {"run": name, "graph": trained.graph.name, "model": e.model.name, "regularizer": e.regularizer.name}
    return [
        {
            **about,
            "share": level.share,
            "zeros": level.zeros,
            "threshold": level.threshold,
            "mrr": level.metrics.mrr,
            "hits@10": level.metrics.hits[10],
            "dense": level.dense,
            "csr": level.csr,
            "csc": level.csc,
            "csr saved %": 100 * (1 - level.csr / level.dense),
            "csc saved %": 100 * (1 - level.csc / level.dense),
        }
        for level in curve(trained.model, shares, lambda: trained.evaluate(split).metrics, progress)
    ]


def _names(runs: Sequence[Path]) -> list[str]:
    """A different name for each run; a run that is given twice or has packed tables is refused before the first is ranked."""
    names = short_names(runs)
    for run, name in zip(runs, names, strict=True):
        if names.count(name) > 1:
            raise BadInput(f"the run {run} is given more than once; name each run once")
        if form := exported_as(RunFolder.open(run).records()):
            raise BadInput(f"the tables of {run} are packed already ({form}); use the run that it was exported from")
    return names


def sheets(found: Found) -> dict[str, Sheet]:
    """One row per run and share."""
    title = f"λ-sparsity of the entities' embeddings, {found['split']} facts"
    return {"sparsity": Sheet(title, found["rows"], _NOTES, _DIGITS)}


def draw(found: Found, path: Path) -> Path:
    """MRR against the share of zeros, and how much of its own MRR each run keeps; one curve per run."""
    names, common = _curve_names(found["rows"])
    lines: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names.values()}
    for row in found["rows"]:
        lines[names[row["run"]]].append(row)
    zeros = {name: [100 * row["zeros"] for row in line] for name, line in lines.items()}
    mrr = {name: [row["mrr"] for row in line] for name, line in lines.items()}
    kept = {name: [100 * value / values[0] if values[0] else 0.0 for value in values] for name, values in mrr.items()}
    with figure(1, 2) as (drawn, axes):
        for panel, heights, y in ((axes[0, 0], mrr, f"{found['split']} MRR"), (axes[0, 1], kept, "MRR kept, %")):
            curves(panel, {name: (zeros[name], heights[name]) for name in lines}, x="entries that are zero, %", y=y)
            panel.set_ylim(bottom=0)
        legend_below(drawn, *axes[0])
        if common:
            drawn.suptitle(common)
        return save(drawn, path)


def _curve_names(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], str]:
    """The name of each run in the figure (what differs, or else its folder), and what all runs have in common."""
    runs = {row["run"]: row for row in rows}
    keys = ("graph", "model", "regularizer")
    apart = [key for key in keys if len({row[key] for row in runs.values()}) > 1]
    common = " ".join(rows[0][key] for key in keys if key not in apart)
    short = {run: " ".join(row[key] for key in apart) for run, row in runs.items()}
    return (short if len(set(short.values())) == len(runs) else {run: run for run in runs}), common


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; one curve for each.")],
    shares: Annotated[
        str,
        typer.Option(
            metavar="S,S,…",
            help="The shares of entries to make zero, each below 1; 0, the whole model, is always one of them.",
        ),
    ] = ",".join(map(str, SHARES)),
    split: SplitOption = SplitName.test,
    out: OutOption = Path("studies/sparsity"),
    *,
    bar: Bar,
) -> Made:
    """Make the small entries of the entities' embeddings zero, more and more of them, and rank each time.

    Writes sparsity.md, .csv, .json, .png and .svg: MRR against the share of zeros, and the bytes of the tables when sparse.

    Examples:

        dura study sparsity runs/dura runs/n3 runs/none

        dura study sparsity runs/mine --shares 0,0.5,0.7,0.9 --split valid --out studies/mine
    """  # fmt: skip
    chosen = _shares(shares)
    with bar("ranking") as progress:
        found = compute(runs, chosen, split.value, progress=progress)
    return finish(found, sheets(found), draw, out)


def _shares(text: str) -> list[float]:
    """The shares, ascending and each once, with 0 first: the other results are compared with the whole model."""
    try:
        shares = sorted({0.0, *(float(part) for part in text.split(","))})
    except ValueError:
        raise BadInput(f"--shares takes numbers with commas between them, such as 0,0.5,0.9, not {text!r}") from None
    if not all(0 <= share < 1 for share in shares):
        raise BadInput(f"--shares are at least 0 and below 1, such as 0,0.5,0.9, not {text}")
    return shares
