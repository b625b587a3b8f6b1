"""`dura demo`: from training to answers on a bundled graph, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dura.cli.common import JsonOption, QuietOption, free_folder, print_json, print_table, say

if TYPE_CHECKING:
    from dura.evaluation import Result
    from dura.runs.trained import Trained

QUESTIONS = (
    ("steroid", "affects", None),
    (None, "treats", "disease_or_syndrome"),
    ("bacterium", "causes", None),
)
OTHERS = ("none", "n3")


def demo(
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder to make (default: runs/demo-N).")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train ComplEx with DURA on the bundled UMLS graph, compare it with no regularizer and with N3, and ask it questions.

    Example:

        dura demo --out runs/demo
    """
    from dura.cli.train import stop_on_interrupt
    from dura.runs.api import load
    from dura.runs.choices import Choices
    from dura.runs.run import start_run

    graph, out = load("umls"), out or free_folder("runs", "demo")
    if not quiet:
        say(f"dura: {graph!r}")

    def fit(regularizer: str, folder: Path | None = None) -> Trained:
        if not quiet:
            say(f"dura: training ComplEx with the regularizer {regularizer}")
        choices = Choices(f"umls/complex-{regularizer}")
        return start_run(graph, choices, out=folder, progress=not quiet, stopping=stop_on_interrupt)

    kept = fit("dura", out)
    models = {"dura": kept, **{name: fit(name) for name in OTHERS}}
    results = {name: trained.evaluate("test") for name, trained in models.items()}
    answers = kept.ask(QUESTIONS, k=3)
    if as_json:
        documents = {name: result.to_dict() for name, result in results.items()}
        print_json({"run": str(out), "results": documents, "questions": [a.to_dict() for a in answers]})
        return
    _print(results)
    for a in answers:
        typer.echo(repr(a))
    typer.echo(f"run folder {out}")
    say(f"next: dura evaluate {out} --by category    dura predict {out} --head virus --relation causes")


def _print(results: dict[str, Result]) -> None:
    from rich.table import Table

    columns = ("regularizer", "MRR", "Hits@1", "Hits@3", "Hits@10", "ranks")
    table = Table(*columns, title="ComplEx on UMLS, filtered test facts", box=None)
    for name, result in results.items():
        numbers = (result.mrr, *(result.hits[k] for k in (1, 3, 10)))
        table.add_row(name, *(f"{value:.3f}" for value in numbers), f"{result.metrics.ranks:,}")
    print_table(table)
