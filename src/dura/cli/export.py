"""`dura export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, RunArgument, counting_bar, print_json, say
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.tables.packed import NumberType


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    sparse: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Make this share of the entities' entries zero (the smallest) and store only the others, e.g. 0.7.",
        ),
    ] = None,
    float16: Annotated[bool, typer.Option("--float16", help="Two bytes per entry.")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="One byte per entry, and one scale per row.")] = False,
    test: Annotated[bool, typer.Option("--test", help="Also measure how much MRR is lost on the test facts.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Write the tables with their names for other programs, instead of a run folder: numpy, parquet, word2vec or "
            "safetensors.",
        ),
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="The binary form of word2vec.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a small copy of a run: without the state of training, with sparse tables or small numbers.

    The copy is evaluated and asked like any run, with the small tables as they are. Prints the bytes saved and the MRR lost.

    With --format, OUT gets the tables and their names in a format of other programs instead.

    Examples:

        dura export runs/mine runs/copy

        dura export runs/mine runs/sparse --sparse 0.7

        dura export runs/mine runs/smallest --sparse 0.7 --int8 --test

        dura export runs/mine vectors --format parquet

        dura export runs/mine vectors --format word2vec --binary
    """  # fmt: skip
    if form is not None:
        if sparse is not None or float16 or int8 or test:
            raise BadInput("--format writes the tables as they are: leave --sparse, --float16, --int8 and --test out")
        _vectors(run, out, form, binary, as_json)
        return
    if binary:
        raise BadInput("--binary is a form of --format word2vec")
    if float16 and int8:
        raise BadInput("numbers are stored in one way: give --float16 or --int8, not both")
    from dura.runs.api import open as open_run

    dtype: NumberType = "float16" if float16 else "int8" if int8 else "float32"
    trained = open_run(run)
    with counting_bar("ranking", quiet) as progress:
        report = trained.export(out, sparse=sparse, dtype=dtype, details=True, test=test, progress=progress, notify=say)
    if as_json:
        print_json({"run": str(run), **report})
        return
    typer.echo(_text(report))
    typer.echo(f"run folder {out}")


def _vectors(run: Path, out: Path, form: str, binary: bool, as_json: bool) -> None:
    """Write the tables for other programs, and say which files there are."""
    from dura.runs.api import open as open_run

    written = open_run(run).export(out, format=form, binary=binary, details=True, notify=say)  # type: ignore[call-overload]
    if as_json:
        print_json({"run": str(run), **written})
        return
    for one in written["files"]:
        typer.echo(f"{out / one['file']}: {one['table']} {' x '.join(map(str, one['shape']))}")


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
    for split, metrics in report["figures"].items():
        for key, title in (("mrr", "MRR"), ("hits@10", "Hits@10")):
            before, after = metrics["before"][key], metrics["after"][key]
            lines.append((f"{split} {title}", f"{before:.4f}", f"{after:.4f}", f"{after - before:+.4f}"))
    rows: list[dict[str, Plain]] = [dict(zip(("", "before", "after", "change"), line, strict=True)) for line in lines]
    return Sheet(", ".join(made), rows).terminal()


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f} MB"
