"""`dura train` and `dura presets`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.cli.common import JsonOption, QuietOption, TimeOption, assignment, free_folder, print_json, print_table, say
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.config import Experiment
    from dura.runs.trained import Trained


def complete_preset(incomplete: str) -> list[str]:
    """Shell completion of preset names."""
    from dura.runs.presets import presets as known

    return [name for name in known() if name.startswith(incomplete)]


def complete_graph(incomplete: str) -> list[str]:
    """Shell completion of graph names."""
    from dura.data.catalog import list_graphs

    return [entry.name for entry in list_graphs() if entry.name.startswith(incomplete)]


def train(
    preset: Annotated[
        str | None,
        typer.Argument(
            metavar="PRESET",
            help="Settings to start from, e.g. umls/complex-dura ('dura presets' lists them) or a .toml file.",
            autocompletion=complete_preset,
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            help="A catalog NAME, a FOLDER with train/valid/test, or a FILE of facts.",
            autocompletion=complete_graph,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="complex (default), cp, distmult, rescal; facts with times: tcomplex (default), tntcomplex, trescal."
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Size of the embeddings (default 200).")] = None,
    regularizer: Annotated[
        str | None,
        typer.Option(
            help="dura (default), dura-i, dura-ii, n3, fro, reg-p1 or none; with times also dura1 (default), dura2, dura12."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many passes over the facts.")] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Questions a step; auto measures a few sizes and says what it took."),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu (default), cuda, cuda:1 or mps.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting by its path, e.g. regularizer.weight=0.05; may be repeated.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Which columns hold head, relation, tail: positions from 0 or header names, e.g. 0,2,1 or from,link,to."
        ),
    ] = None,
    time: TimeOption = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Read on past bad lines and say how many were skipped.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run folder to make (default: runs/GRAPH-MODEL-REGULARIZER-N)."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Continue this run where it stopped; takes no other settings."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Send the curves to tensorboard (RUN/tensorboard) or mlflow (MLFLOW_TRACKING_URI) too; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a model on a graph and keep it in a run folder.

    Examples:

        dura train umls/complex-dura

        dura train --graph facts.tsv

        dura train --graph mydata/ --model rescal --rank 100 --set regularizer.weight=0.1 --out runs/mine

        dura train --graph visits.csv --time date --model tcomplex

        dura train --graph facts.tsv --track tensorboard

        dura train --resume runs/mine
    """  # fmt: skip
    chosen = {
        "model": model,
        "rank": rank,
        "regularizer": regularizer,
        "epochs": epochs,
        "batch": batch,
        "lr": lr,
        "seed": seed,
        "device": device,
    }
    if resume is not None:
        others = {
            **chosen,
            "graph": graph,
            "out": out,
            "set": settings,
            "columns": columns,
            "time": time,
            "skip-bad": skip_bad or None,
        }
        given = ["a preset"] * (preset is not None) + [f"--{key}" for key, value in others.items() if value is not None]
        if given:
            raise BadInput(f"--resume continues a run with its own settings and takes no {', '.join(given)}")
        _continue(resume, track or [], as_json, quiet)
        return
    more: dict[str, Any] = dict(assignment(text) for text in settings or ())
    if columns is not None:
        from dura.data.table import ReadOptions

        more["graph.columns"] = ReadOptions(columns).chosen
    if skip_bad:
        more["graph.skip_bad"] = True
    _begin(preset, graph, chosen, more, time, out, track or [], as_json, quiet)


def _begin(
    preset: str | None,
    graph: str | None,
    chosen: dict[str, Any],
    more: dict[str, Any],
    time: str | None,
    out: Path | None,
    track: list[str],
    as_json: bool,
    quiet: bool,
) -> None:
    from dura.runs.api import choose

    experiment = choose(preset, graph=graph, settings=more, **chosen)
    if not experiment.graph.source:
        raise BadInput(
            "which graph? give a preset, or --graph with a catalog name, a folder or a file; e.g. --graph umls"
        )
    if time is not None:
        experiment = _with_time(experiment, time)
    from dura.runs.store import load_graph
    from dura.runs.trackers import open_trackers, tracking

    trackers = open_trackers(track)
    read = load_graph(experiment.graph, None if quiet else lambda sentence: say(f"dura: {sentence}"))
    from dura.runs.run import train as run
    from dura.training.display import display

    if read.times is not None:
        dated = choose(preset, graph=graph, settings=more, dated=True, **chosen)
        experiment = replace(dated, graph=experiment.graph)
    out = out or free_folder("runs", f"{read.name}-{experiment.model.name}-{experiment.regularizer.name}")
    with (
        stop_on_interrupt() as stopped,
        display(experiment, read.name, quiet) as listener,
        tracking(trackers, experiment, read.name, out, listener.notice) as others,
    ):
        trained = run(experiment, read, out, listeners=(listener, *others), stopped=stopped)
    _report(trained, as_json)


def _with_time(experiment: Experiment, time: str) -> Experiment:
    """The experiment with the column of times, or those of begin and end, behind head, relation and tail."""
    from dura.data.columns import with_time

    settings, path = experiment.graph, Path(experiment.graph.source)
    header = {"auto": None, "yes": True, "no": False}[settings.header]
    columns = with_time(path, time, settings.columns or None, header=header, separator=settings.separator or None)
    return experiment.with_value("graph.columns", columns)


def _continue(path: Path, track: list[str], as_json: bool, quiet: bool) -> None:
    from dura.records import RunFolder
    from dura.runs.run import resume
    from dura.runs.store import read_settings
    from dura.runs.trackers import open_trackers, tracking
    from dura.training.display import display

    folder, trackers = RunFolder.open(path), open_trackers(track)
    experiment, graph = read_settings(folder), str(folder.about()["graph"]["name"])
    with (
        stop_on_interrupt() as stopped,
        display(experiment, path.name, quiet) as listener,
        tracking(trackers, experiment, graph, path, listener.notice) as others,
    ):
        trained = resume(path, listeners=(listener, *others), stopped=stopped)
    _report(trained, as_json)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C (or SIGTERM) asks training to stop after the step under way; a second one stops at once."""
    asked: list[int] = []

    def handler(number: int, _: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        say("dura: stopping after this step (once more to stop at once) …")

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _report(trained: Trained, as_json: bool) -> None:
    """What came out of training, from the run's records."""
    from dura.records import RunFolder, curve

    assert trained.path is not None
    records = RunFolder.open(trained.path).records()
    epochs = curve(records)
    validated = [record for record in epochs if "valid" in record and None not in record["valid"].values()]
    best = max(validated, key=lambda record: record["valid"]["mrr"]) if validated else None
    document = {
        "run": str(trained.path),
        "graph": trained.graph.name,
        "epochs": len(epochs),
        "best_epoch": best["epoch"] if best else None,
        "valid": best["valid"] if best else None,
        "seconds": epochs[-1]["seconds"] if epochs else 0.0,
    }
    if as_json:
        print_json(document)
        return
    if best:
        figures, epoch, spent = best["valid"], f"epoch {best['epoch']} of {len(epochs)}", document["seconds"]
        typer.echo(f"valid MRR {figures['mrr']:.4f}, Hits@10 {figures['hits@10']:.4f} ({epoch}, {spent:.0f} s)")
    typer.echo(f"run folder {trained.path}")
    say(f"next: dura evaluate {trained.path}    dura predict {trained.path} --head … --relation …")


def presets(as_json: JsonOption = False) -> None:
    """List the presets: settings that come with dura, with the figures they should reach.

    Example:

        dura presets
    """
    from dura.runs.presets import preset as read
    from dura.runs.presets import presets as known

    rows = {name: read(name) for name in known()}
    if as_json:
        print_json({"presets": {name: experiment.to_dict() for name, experiment in rows.items()}})
        return
    from rich.table import Table

    table = Table("preset", "model", "rank", "regularizer", "expected test MRR", box=None)
    for name, e in rows.items():
        expected = e.expected.get("mrr", "")
        table.add_row(name, e.model.name, str(e.model.options.get("rank", "")), e.regularizer.name, str(expected))
    print_table(table)
