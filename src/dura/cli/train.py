"""`dura train` and `dura presets`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from dura import world
from dura.cli.common import JsonOption, QuietOption, assignment, free_folder, print_json, print_table, say
from dura.cli.reading import Reading, reads_a_graph
from dura.types import BadInput

if TYPE_CHECKING:
    from dura.runs.trained import Trained


def complete_preset(incomplete: str) -> list[str]:
    """Shell completion of preset names."""
    from dura.runs.presets import presets as known

    return [name for name in known() if name.startswith(incomplete)]


def complete_graph(incomplete: str) -> list[str]:
    """Shell completion of graph names."""
    from dura.data.catalog import list_graphs

    return [entry.name for entry in list_graphs() if entry.name.startswith(incomplete)]


class TrainCommand(TyperCommand):
    """Adds the known models and regularizers to the help text when it is printed; they are not read before."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options."""
        from dura.config import Experiment
        from dura.models import MODELS
        from dura.regularizers import REGULARIZERS

        static, dated = Experiment(), Experiment.of_dated_facts()
        for option in (parameter for parameter in self.params if isinstance(parameter, TyperOption)):
            if option.name in ("model", "regularizer"):
                names = MODELS.names() if option.name == "model" else REGULARIZERS.names()
                first, other = (getattr(experiment, option.name).name for experiment in (static, dated))
                option.help = f"{', '.join(names)} (default {first}; {other} if facts have times)."
        super().format_options(ctx, formatter)


@reads_a_graph
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
            help="A catalog NAME, a FOLDER with train/valid/test or with a stored graph, or a FILE of facts.",
            autocompletion=complete_graph,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model's name."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="Size of the embeddings (default: 25 to 1,000, by graph and model).")
    ] = None,
    regularizer: Annotated[
        str | None,
        typer.Option(help="The regularizer's name."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Take about this many minutes in all (1 to 120 is usual); rank, epochs and the rest are chosen to fit.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="This many passes over the facts.")] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto", help="Questions per step; auto measures a few sizes and says which one it chose."
        ),
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same numbers.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu (default), cuda, cuda:1 or mps.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting by its path, e.g. regularizer.weight=0.05; can be repeated.",
        ),
    ] = None,
    reading: Reading = Reading(),  # noqa: B008
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run folder to make (default: runs/GRAPH-MODEL-REGULARIZER-N)."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Continue this run where it stopped; takes no other settings."),
    ] = None,
    reviews: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|FILE",
            help="Train with what people decided about facts: a run that 'dura review' was used on, or a file of decisions.",
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also send the curves to tensorboard (RUN/tensorboard) or mlflow (MLFLOW_TRACKING_URI); can be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a model on a graph and keep it in a run folder.

    Examples:

        dura train umls/complex-dura

        dura train --graph facts.tsv

        dura train --graph facts.tsv --minutes 10

        dura train --graph mydata/ --model rescal --rank 100 --set regularizer.weight=0.1 --out runs/mine

        dura train --graph visits.csv --time date --model tcomplex

        dura train --graph facts.tsv --track tensorboard

        dura train --resume runs/mine

        torchrun --nproc-per-node 2 -m dura train --graph facts.tsv --out runs/two
    """  # fmt: skip
    chosen: dict[str, Any] = {
        "graph": graph,
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
        given = {name.removeprefix("graph."): value for name, value in reading.settings().items()}
        _check_resume(
            preset,
            {
                **chosen,
                **given,
                "time": reading.time,
                "out": out,
                "set": settings,
                "reviews": reviews,
                "minutes": minutes,
            },
        )
        from dura.runs.run import resume_run

        trained = resume_run(resume, progress=not quiet, track=track or [], stopping=stop_on_interrupt)
    else:
        from dura.runs.choices import Choices

        more: dict[str, Any] = {
            **reading.settings(),
            "graph.reviews": reviews,
            **dict(assignment(text) for text in settings or ()),
        }
        choices = Choices(preset, settings=more, **chosen)
        from dura.runs.run import start_run  # after the choices: a wrong one is refused before torch is imported

        trained = start_run(
            None,
            choices,
            time=reading.time,
            out=out or (lambda name: free_folder("runs", name)),
            progress=not quiet,
            track=track or [],
            notify=None if quiet else lambda sentence: say(f"dura: {sentence}"),
            stopping=stop_on_interrupt,
            minutes=minutes,
        )
    _report(trained, as_json)


def _check_resume(preset: str | None, others: dict[str, Any]) -> None:
    """Refuse settings: a run is continued with its own."""
    given = [f"--{key.replace('_', '-')}" for key, value in others.items() if value is not None]
    given = ["a preset"] * (preset is not None) + given
    if given:
        raise BadInput(f"--resume continues a run with its own settings and takes no {', '.join(given)}")


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C (or SIGTERM) stops training after the current step; the second stops at once."""
    asked: list[int] = []

    def handler(number: int, _: Any) -> None:
        asked.append(number)
        if world.size() > 1 and len(asked) > 1:
            return  # torchrun passes on the signal that the terminal has sent already
        if len(asked) > 1:
            raise KeyboardInterrupt
        once_more = "" if world.size() > 1 else " (once more to stop at once)"
        say(f"dura: stopping after this step{once_more} …")

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _report(trained: Trained, as_json: bool) -> None:
    """Show how training went."""
    from dura.runs.run import summary

    found = summary(trained)
    if as_json:
        print_json(found)
        return
    if valid := found["valid"]:
        epoch = f"epoch {found['best_epoch']} of {found['epochs']}, {found['seconds']:.0f} s"
        typer.echo(f"valid MRR {valid['mrr']:.4f}, Hits@10 {valid['hits@10']:.4f} ({epoch})")
    typer.echo(f"run folder {found['run']}")
    say(f"next: dura evaluate {found['run']}    dura predict {found['run']} --head … --relation …")


def presets(as_json: JsonOption = False) -> None:
    """List the presets: settings that come with dura, with the test MRR they should reach.

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
