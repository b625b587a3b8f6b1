"""`dura data`: list, show, get, check, store and make graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import HELP, JsonOption, QuietOption, counting_bar, print_json, print_table, say
from dura.cli.reading import Reading, reads_a_graph
from dura.types import SPLITS

if TYPE_CHECKING:
    from dura.data.graph import Graph

app = typer.Typer(
    help="Graphs: list the known ones, get them, check, import, export or store your own, make large ones.\n\n"
    "Example:\n\n    dura data check facts.tsv",
    no_args_is_help=True,
    **HELP,
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A graph that 'dura data list' shows.")]
StoredOption = Annotated[Path, typer.Option(metavar="FOLDER", help="The new folder of the stored graph.")]


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
@reads_a_graph
def check(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, a folder or a graph's name.")],
    reading: Reading = Reading(),  # noqa: B008
    as_json: JsonOption = False,
) -> None:
    """Check a graph: bad lines, duplicates, leaks between splits and relations, unseen entities, cost of training.

    The exit code is 0 if there are at most notices, and 1 if there is a warning or an error.

    Example:

        dura data check facts.tsv

        dura data check visits.csv --time day
    """
    from dura.data.loading import as_said
    from dura.runs.cost import check_graph

    report = check_graph(path, *as_said(reading.graph(path), reading.time))
    if as_json:
        print_json(report.to_dict())
    else:
        typer.echo("\n".join(report.lines()))
    if report.worst in ("warning", "error"):
        say(f"dura: the worst finding is of severity {report.worst}")
        raise typer.Exit(1)


@app.command("import")
@reads_a_graph
def import_(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A file, a folder, a graph's name, a database, or - for standard input."),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The new folder.")],
    reading: Reading = Reading(),  # noqa: B008
    as_json: JsonOption = False,
) -> None:
    """Read a graph from any source and write it as a folder of Parquet files, which every command accepts as a graph.

    Facts that come without valid and test stay together, unless --split says how to hold some out. Labels, types and descriptions
    are kept.

    Example:

        dura data import facts.csv --out graphs/mine

        dura data import people.ttl.gz --out graphs/people --split grouped

        dura data import sqlite:crm.db --query "SELECT head, relation, tail FROM links" --out graphs/crm

        zcat links.nt.gz | dura data import - --format nt --out graphs/links
    """
    from dura.data.assembly import tell
    from dura.data.exporting import import_graph
    from dura.data.loading import as_said

    options, shares = as_said(reading.graph(source), reading.time)
    loaded, files = import_graph(source, out, options, shares, split=reading.split is not None)
    tell(loaded.notes, say)
    _tell_written(loaded.graph, files, as_json)


@app.command()
@reads_a_graph
def export(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, a folder or a graph's name.")],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="A new file, whose ending names the format, or a new folder."),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="The format of the files in a folder: parquet, arrow, csv, tsv, jsonl or nt."
        ),
    ] = "parquet",
    reading: Reading = Reading(),  # noqa: B008
    as_json: JsonOption = False,
) -> None:
    """Write a graph as files for other programs: all facts into one file, or a folder with train, valid and test.

    Example:

        dura data export umls umls.csv

        dura data export graphs/mine shared/mine --to tsv
    """
    from dura.data.assembly import tell
    from dura.data.exporting import export_graph, import_options
    from dura.data.loading import as_said, load_with_notes

    options, shares = as_said(reading.graph(source), reading.time)
    loaded = load_with_notes(source, options, import_options(shares, reading.split is not None))
    tell(loaded.notes, say)
    _tell_written(loaded.graph, export_graph(loaded.graph, out, format="" if out.suffix else to), as_json)


def _tell_written(graph: Graph, files: list[Path], as_json: bool) -> None:
    """Say which files a graph was written to."""
    counts = {"entities": len(graph.entities), "relations": len(graph.relations)}
    counts |= {} if graph.times is None else {"times": len(graph.times)}
    facts = {split: len(graph.facts(split)) for split in SPLITS}
    if as_json:
        print_json({"files": [str(file) for file in files], "graph": {"name": graph.name, **counts, **facts}})
        return
    shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    typer.echo(f"{shown}; facts: " + ", ".join(f"{count:,} {split}" for split, count in facts.items() if count))
    for file in files:
        typer.echo(f"  {file}")


@app.command()
@reads_a_graph
def pack(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, a folder or a graph's name.")],
    out: StoredOption,
    reading: Reading = Reading(),  # noqa: B008
    as_json: JsonOption = False,
) -> None:
    """Store a graph as ids in a folder, which dura opens immediately. Use the folder like any other graph.

    Example:

        dura data pack facts.tsv --out stored/facts

        dura train --graph ./stored/facts
    """
    from dura.data.loading import load_dated
    from dura.data.stored import check_free, describe, store

    check_free(out)
    store(load_dated(reading.graph(source), reading.time, say)[0], out)
    _tell_stored(out, describe(out), as_json)


@app.command()
def synth(
    out: StoredOption,
    entities: Annotated[int, typer.Option(help="How many entities, at least 64.")] = 10_000,
    relations: Annotated[int, typer.Option(help="How many relations.")] = 40,
    facts: Annotated[int, typer.Option(help="How many facts, in all splits together.")] = 80_000,
    times: Annotated[int, typer.Option(help="How many times; with 0, facts have no times.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same graph.")] = 0,
    held_out: Annotated[
        int | None,
        typer.Option(help="How many facts valid has; test has the same number [default: 5 % of all, at most 10000]."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a stored graph of any size from a seed, with degrees by Zipf's law and planted patterns.

    The patterns are symmetric, inverse, composed and hierarchical relations and, with times, temporal ones. Every held-out fact
    follows from facts of train by its pattern. A small graph is a control for a large one if both have the same number of facts per
    entity and the same number of relations. The second example makes a control for the first.

    Example:

        dura data synth --entities 2500000 --relations 500 --facts 20000000 --out stored/large

        dura data synth --entities 25000 --relations 500 --held-out 2000 --facts 200000 --out stored/control
    """
    from dura.data import synth as make
    from dura.data.stored import describe

    with counting_bar("entities", quiet) as progress:
        make(
            out,
            entities=entities,
            relations=relations,
            facts=facts,
            times=times,
            seed=seed,
            held_out=held_out,
            progress=progress,
        )
    _tell_stored(out, describe(out), as_json)


def _tell_stored(folder: Path, about: dict[str, Any], as_json: bool) -> None:
    """Say what a stored graph holds."""
    graph, planted = about["graph"], about.get("planted")
    if as_json:
        print_json({"path": str(folder), "graph": graph} | ({"planted": planted} if planted else {}))
        return
    counts = ", ".join(f"{graph[key]:,} {key}" for key in ("entities", "relations", "times") if graph.get(key))
    typer.echo(f"{folder}: {counts}; facts: " + ", ".join(f"{graph[key]:,} {key}" for key in SPLITS))
    for kind, found in (planted or {}).get("patterns", {}).items():
        typer.echo(f"  {kind}: {_one_line({key: f'{value:,}' for key, value in found.items()})}")
