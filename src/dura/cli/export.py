"""`dura export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, RunArgument, counting_bar, print_json
from dura.types import BadInput, Split

if TYPE_CHECKING:
    from dura.tables.packed import NumberType


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The run folder to write.")],
    sparse: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Make this share of the entities' entries zero, the smallest ones, and store the others.",
        ),
    ] = None,
    float16: Annotated[bool, typer.Option("--float16", help="Two bytes an entry.")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="One byte an entry, and a scale a row.")] = False,
    test: Annotated[bool, typer.Option("--test", help="Measure the loss on the test facts too.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a run that is small: without the state of training, with sparse tables, with small numbers.

    It is evaluated and asked like any run, by its small tables as they are. Prints the bytes saved and the MRR lost.

    Examples:

        dura export runs/mine runs/copy

        dura export runs/mine runs/sparse --sparse 0.7

        dura export runs/mine runs/smallest --sparse 0.7 --int8 --test
    """  # fmt: skip
    if float16 and int8:
        raise BadInput("numbers are stored in one way: give --float16 or --int8, not both")
    if sparse is not None and not 0 <= sparse < 1:
        raise BadInput(f"--sparse is a share of the entries, at least 0 and below 1, such as 0.7, not {sparse:g}")
    if run.resolve() in out.resolve().parents:
        raise BadInput(f"{out} is inside the run that is exported; name a folder beside it")
    from dura.runs.export import export_and_measure
    from dura.runs.trained import open_run

    dtype: NumberType = "float16" if float16 else "int8" if int8 else "float32"
    splits: list[Split] = ["valid", "test"] if test else ["valid"]
    trained = open_run(run)
    with counting_bar("ranking", quiet) as progress:
        report = export_and_measure(trained, out, sparse=sparse, dtype=dtype, splits=splits, progress=progress)
    if as_json:
        print_json({"run": str(run), "out": str(out), **report})
        return
    typer.echo(_text(report))
    typer.echo(f"run folder {out}")


def _text(report: dict[str, Any]) -> str:
    """The report as people read it."""
    from dura.sheets.sheet import Plain, Sheet

    made = [report["dtype"]]
    if report["sparse"] is not None:
        made.insert(0, f"{report['zeros']:.1%} of the entries zero (|x| < {report['threshold']:.4g})")
    lines = []
    for what, size in report["bytes"].items():
        change = f"{size['after'] / size['before'] - 1:+.1%}"
        lines.append((what, _megabytes(size["before"]), _megabytes(size["after"]), change))
    for split, figures in report["figures"].items():
        for key, title in (("mrr", "MRR"), ("hits@10", "Hits@10")):
            before, after = figures["before"][key], figures["after"][key]
            lines.append((f"{split} {title}", f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}"))
    rows: list[dict[str, Plain]] = [dict(zip(("", "before", "after", "change"), line, strict=True)) for line in lines]
    return Sheet(", ".join(made), rows).terminal()


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f} MB"
