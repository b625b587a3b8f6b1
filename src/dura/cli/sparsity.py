"""`dura study sparsity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, check_out, counting_bar, print_json, say
from dura.cli.evaluate import SplitName
from dura.types import BadInput


def sparsity(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; each becomes a curve.")],
    shares: Annotated[
        str,
        typer.Option(
            metavar="S,S,…",
            help="The shares of entries to make zero, each below 1; 0, the whole model, is always among them.",
        ),
    ] = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    split: Annotated[SplitName, typer.Option(help="The facts to rank.")] = SplitName.test,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the table and the figure.")] = Path(
        "studies/sparsity"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the small entries of the entities' embeddings zero, more and more of them, and rank each time.

    Writes sparsity.md, .csv, .json, .png and .svg: MRR against the share of zeros, and the bytes of the tables when sparse.

    Examples:

        dura study sparsity runs/dura runs/n3 runs/none

        dura study sparsity runs/mine --shares 0,0.5,0.7,0.9 --split valid --out studies/mine
    """  # fmt: skip
    chosen = _shares(shares)
    names = _names(runs)
    from dura.reports import sparsity as report
    from dura.studies.sparsity import sparsity_rows

    check_out(out)
    rows: list[dict[str, Any]] = []
    for run, name in zip(runs, names, strict=True):
        with counting_bar(f"sparsity of {name}", quiet) as progress:
            rows += sparsity_rows(run, chosen, split.value, progress, name=name)
    sheet = report.sheet(rows, split.value)
    files = sheet.write(out, "sparsity", split=split.value)
    files += [report.draw(rows, split.value, out / f"sparsity.{ending}") for ending in ("png", "svg")]
    if as_json:
        print_json({**sheet.document(), "split": split.value, "files": [str(file) for file in files]})
        return
    typer.echo(sheet.terminal())
    if not quiet:
        say(f"dura: wrote {', '.join(file.name for file in files)} into {out}")


def _names(runs: list[Path]) -> list[str]:
    """What tells the runs apart; one that is given twice or has packed tables is refused before the first is ranked."""
    from dura.records import RunFolder, exported_as
    from dura.reports.runs import short_names

    names = short_names(runs)
    for run, name in zip(runs, names, strict=True):
        if names.count(name) > 1:
            raise BadInput(f"the run {run} is given more than once; name each run once")
        if form := exported_as(RunFolder.open(run).records()):
            raise BadInput(f"the tables of {run} are packed already ({form}); take the run that it was exported from")
    return names


def _shares(text: str) -> list[float]:
    """The shares, ascending and each once, beginning with the whole model: the others are measured by it."""
    try:
        shares = sorted({0.0, *(float(part) for part in text.split(","))})
    except ValueError:
        raise BadInput(f"--shares takes numbers with commas between, such as 0,0.5,0.9, not {text!r}") from None
    if not all(0 <= share < 1 for share in shares):
        raise BadInput(f"--shares are at least 0 and below 1, such as 0,0.5,0.9, not {text}")
    return shares
