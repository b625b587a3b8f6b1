"""`dura data`: list, show, get and check graphs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dura.cli.common import HELP, JsonOption, QuietOption, TimeOption, print_json, print_table, say

app = typer.Typer(
    help="Graphs: list the known ones, get them, and check your own.\n\nExample:\n\n    dura data check facts.tsv",
    no_args_is_help=True,
    **HELP,
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A graph that 'dura data list' shows.")]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the known graphs and where each one is. DURA_DATA names more folders to look in.

    Example:

        DURA_DATA=~/graphs dura data list
    """
    from dura.data.catalog import list_graphs

    listings = list_graphs()
    if as_json:
        print_json({"graphs": [listing.to_dict() for listing in listings]})
        return
    from rich.table import Table

    table = Table("graph", "entities", "relations", "train", "times", "where", box=None)
    table.columns[0].no_wrap = True
    for listing in listings:
        entry = listing.entry
        counts = (
            [f"{entry.entities:,}", f"{entry.relations:,}", f"{entry.files['train'].facts:,}"] if entry else [""] * 3
        )
        table.add_row(listing.name, *counts, entry.times if entry else "", listing.where)
    print_table(table)


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show what is known about a graph: counts, source, licence, files and their checksums.

    Example:

        dura data show fb15k-237
    """
    from dura.data import catalog

    about = catalog.show(name)
    if as_json:
        print_json(about)
        return
    for key, value in about.items():
        if isinstance(value, dict):
            typer.echo(f"{key}:")
            for part, details in value.items():
                typer.echo(f"  {part}: {_one_line(details)}")
        elif value not in (None, ""):
            typer.echo(f"{key}: {value}")


def _one_line(details: Any) -> str:
    if not isinstance(details, dict):
        return str(details)
    return ", ".join(f"{key} {value}" for key, value in details.items() if value not in (None, "", 0))


@app.command()
def get(name: NameArgument, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Download a graph into the cache and check its files. A graph that is already there is only checked.

    Example:

        dura data get wn18rr
    """
    from dura.data import download

    path = download.get(name, progress=False if quiet else None)
    if as_json:
        print_json({"name": name, "path": str(path)})
    else:
        typer.echo(str(path))


@app.command()
def check(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, a folder or a graph's name.")],
    columns: Annotated[
        str | None,
        typer.Option(
            help="The columns of head, relation, tail, e.g. 0,2,1; for facts with times also time, or begin and end."
        ),
    ] = None,
    time: TimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a graph: bad lines, duplicates, leaks between splits and relations, unseen entities, cost of training.

    The exit code is 0 if there are at most notices, and 1 if there is a warning or an error.

    Example:

        dura data check facts.tsv

        dura data check visits.csv --time day
    """
    from dura.data.readers import ReadOptions
    from dura.runs.cost import check_graph

    report = check_graph(path, ReadOptions(columns=columns, time=time))
    if as_json:
        print_json(report.to_dict())
    else:
        typer.echo("\n".join(report.lines()))
    if report.worst in ("warning", "error"):
        say(f"dura: the worst finding is of severity {report.worst}")
        raise typer.Exit(1)
