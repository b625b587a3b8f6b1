"""`dura demo`: the main job on a bundled graph, from training to answers, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dura.cli.common import print_table, say

QUESTIONS = (
    ("steroid", "affects", None),
    (None, "treats", "disease_or_syndrome"),
    ("bacterium", "causes", None),
)
RIVALS = ("none", "n3")


def demo(
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run folder to make (default: runs/demo-N).")
    ] = None,
) -> None:
    """Train ComplEx with DURA on the bundled UMLS graph, compare it with no regularizer and with N3, ask it.

    Example:

        dura demo --out runs/demo
    """
    from rich.table import Table

    from dura.cli.train import free_folder, stop_on_interrupt
    from dura.config import preset
    from dura.data import load
    from dura.experiments.run import train
    from dura.training.display import display

    graph, out = load("umls"), out or free_folder("demo")
    say(f"dura: {graph!r}")
    experiment = preset("umls/complex-dura")
    table = Table(
        "regularizer",
        "MRR",
        "Hits@1",
        "Hits@3",
        "Hits@10",
        "ranks",
        title="ComplEx on UMLS, filtered test facts",
        box=None,
    )
    kept = None
    for name in ("dura", *RIVALS):
        chosen = experiment if name == "dura" else preset(f"umls/complex-{name}")
        with stop_on_interrupt() as stopped, display(chosen, graph.name) as listener:
            trained = train(chosen, graph, out if name == "dura" else None, listeners=(listener,), stopped=stopped)
        m = trained.evaluate("test").metrics
        table.add_row(name, *(f"{value:.3f}" for value in (m.mrr, *(m.hits[k] for k in (1, 3, 10)))), f"{m.ranks:,}")
        kept = kept or trained
    assert kept is not None
    print_table(table)
    for answers in kept.predict_many(QUESTIONS, k=3):
        typer.echo(repr(answers))
    typer.echo(f"run folder {out}")
    say(f"next: dura evaluate {out} --by category    dura predict {out} --head virus --relation causes")
