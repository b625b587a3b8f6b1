"""`dura report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import JsonOption, print_json
from dura.types import BadInput


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Run folders; also the tables of studies, as .json files or folders of them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The HTML page (default: report.html, unless --markdown is given)."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="The same page as Markdown.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the figures as SVG files (with --markdown, the default is FILE's name + -figures).",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make one page about a run, or about several side by side: metrics, curves, tables, settings, protocol.

    It is made from the records in the run folders; 'dura evaluate RUN --by category' adds test results to them.

    Examples:

        dura report runs/mine

        dura report runs/dura runs/n3 runs/none --out compared.html --open

        dura report runs/mine --markdown report.md --figures figures

        dura report runs/mine studies/sparsity
    """  # fmt: skip
    for path, endings in ((out, (".html", ".htm")), (markdown, (".md", ".markdown"))):
        if path is not None and path.exists() and path.suffix.lower() not in endings:
            raise BadInput(
                f"{path} exists and does not end in {endings[0]}, so it may be another file of yours; name another file"
            )
    from dura.reports.page import write

    if out is None and (markdown is None or show):
        out = Path("report.html")
    drawn = write(sources, html=out, markdown=markdown, figures=figures)
    written = {"html": out, "markdown": markdown}
    if as_json:
        names = {kind: None if path is None else str(path) for kind, path in written.items()}
        print_json({**names, "figures": list(map(str, drawn))})
    else:
        for path in filter(None, written.values()):
            typer.echo(f"report {path}")
    if show and out is not None:
        typer.launch(out.resolve().as_uri())
