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
            metavar="RUN...", help="Run folders; also tables that a study left, as .json files or folders of them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The HTML page (default: report.html, unless --markdown is given)."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as Markdown.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The figures as SVG files (with --markdown by default in FILE's name + -figures)."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make one page of a run, or of several side by side: figures, curves, tables, settings, protocol.

    It is made from the records in the run folders; 'dura evaluate RUN --by category' adds test figures to them.

    Examples:

        dura report runs/mine

        dura report runs/dura runs/n3 runs/none --out compared.html --open

        dura report runs/mine --markdown report.md --figures figures

        dura report runs/mine studies/sparsity
    """  # fmt: skip
    for path, endings in ((out, (".html", ".htm")), (markdown, (".md", ".markdown"))):
        if path is not None and path.exists() and path.suffix.lower() not in endings:
            raise BadInput(
                f"{path} is there and does not end in {endings[0]}, so it is no page of ours; name another file"
            )
    from dura.reports import page as pages

    page = pages.report(*pages.read_sources(sources))
    if out is None and (markdown is None or show):
        out = Path("report.html")
    if figures is None and markdown is not None:
        figures = markdown.with_name(f"{markdown.stem}-figures")
    drawn = [] if figures is None else pages.write_figures(page, figures)
    made = [] if out is None else [pages.write_html(page, out)]
    if markdown is not None and figures is not None:
        made.append(pages.write_markdown(page, markdown, figures))
    if as_json:
        written = {"html": out, "markdown": markdown}
        names = {kind: None if path is None else str(path) for kind, path in written.items()}
        print_json({**names, "figures": list(map(str, drawn))})
    else:
        for path in made:
            typer.echo(f"report {path}")
    if show and out is not None:
        typer.launch(out.resolve().as_uri())
