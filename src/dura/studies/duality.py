"""The study of duality: the plain model, the model with DURA, and the dual, which scores by distance.

Which run is which follows from its settings. The study asks two things: how well each kind of relation is answered, and how similar
the answers to one question are. The second is what DURA is said to bring from the dual to the plain model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.records import RunFolder
from dura.sheets.figures import bars, figure, legend_below, save
from dura.sheets.sheet import Sheet
from dura.studies.study import (
    Bar,
    Count,
    DeviceOption,
    Found,
    Made,
    OutOption,
    SplitName,
    SplitOption,
    answer_rows,
    finish,
    run_labels,
)
from dura.types import Split
from dura.words import spelled

if TYPE_CHECKING:
    from dura.config import Experiment
    from dura.data.questions import Questions
    from dura.models import Model

CATEGORIES = ("1-1", "1-N", "N-1", "N-N")
KINDS = {
    "plain": "--regularizer none",
    "DURA": "--regularizer dura",
    "dual": "--regularizer none --set model.comparator=distance",
}
"""The runs that the study is about, and how each is trained."""
_PLACES = {
    "cosine": "cosine,\nsame question",
    "cosine any": "cosine,\nany two",
    "distance": "distance,\nsame / any",
}
"""The similarities of a run, and what the figure writes below their bars."""
_NOTES = (
    "kind: from the settings; the dual scores by −‖hR̄ − t‖² where the plain model scores by <hR̄, t>.",
    "cosine: mean over two answers to the same question, every question counts the same; cosine any: of any two of these answers.",
    "distance: of two answers to the same question, divided by that of any two (root mean squares); below 1, they are nearer.",
)


def compute(
    runs: Sequence[Path],
    split: Split = "test",
    *,
    at_least: int = 10,
    device: str = "cpu",
    progress: Count | None = None,
) -> dict[str, Any]:
    """MRR by relation category and the similarity of answers, for runs of one or several graphs.

    Similarities are over the questions with `at_least` known answers.

    >>> compute([Path("runs/none"), Path("runs/dual")])["graphs"][0]["runs"][1]["cosine"]  # doctest: +SKIP
    """
    graphs = [_graph(own, split, at_least, device, progress) for own in _by_graph(runs)]
    return {"split": split, "at least": at_least, "graphs": graphs}


def _by_graph(runs: Sequence[Path]) -> list[list[Path]]:
    """The runs of each graph, in the order in which they are given."""
    groups: dict[str, list[Path]] = {}
    for run in runs:
        groups.setdefault(str(RunFolder.open(run).about().get("graph", {}).get("digest")), []).append(run)
    return list(groups.values())


def _graph(runs: Sequence[Path], split: Split, at_least: int, device: str, progress: Count | None) -> dict[str, Any]:
    from dura.analysis.similarity import many_answers
    from dura.runs.trained import open_run

    found: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    asked: Questions | None = None
    for run, label in zip(runs, run_labels(runs), strict=True):
        trained = open_run(run, device)
        asked = many_answers(trained.graph, at_least) if asked is None else asked
        similar = _similar(trained.model, asked)  # refuses what has none before anything is ranked
        result = trained.evaluate(split, ["category"], progress=progress)
        by, kind = result.groups["category"], _kind(trained.experiment)
        about = {
            "graph": trained.graph.name,
            "protocol": result.protocol,
            "ranks": {name: metrics.ranks for name, metrics in by.items()},
            "questions": len(asked),
            "answers": asked.facts,
        }
        category = {name: metrics.mrr for name, metrics in by.items()}
        found.append(
            {"run": str(run), "label": label, "kind": kind, "mrr": result.mrr, "category": category, **similar}
        )
    return {**about, "runs": found}


def _similar(model: Model, asked: Questions) -> dict[str, float]:
    import numpy as np

    from dura.analysis.similarity import similarity

    near = similarity(answer_rows(model, np.arange(model.sizes.entities)), asked)
    return {"cosine": near.cosine, "cosine any": near.cosine_any, "distance": near.distance}


def _kind(experiment: Experiment) -> str:
    """Plain, DURA or dual; another regularizer or model is called by its name."""
    from dura.models import MODELS, SemanticMatching
    from dura.regularizers import REGULARIZERS

    model, regularizer = experiment.model, experiment.regularizer.name
    called = spelled(regularizer, REGULARIZERS.get(regularizer).__name__)
    if not issubclass(MODELS.get(model.name), SemanticMatching):
        return "other"
    if model.options.get("comparator") == "distance":
        return "dual" if regularizer == "none" else f"dual, {called}"
    return "plain" if regularizer == "none" else called


def sheets(found: Found) -> dict[str, Sheet]:
    """One row per run: its kind, MRR by category and of all facts, and how similar answers are."""
    several, rows = len(found["graphs"]) > 1, []
    for graph in found["graphs"]:
        for run in graph["runs"]:
            about = {"graph": graph["graph"]} if several else {}
            mrr = {place: run["category"].get(place) for place in CATEGORIES}
            similar = {name: run[name] for name in _PLACES}
            rows.append({**about, "run": run["label"], "kind": run["kind"], **mrr, "all": run["mrr"], **similar})
    names = " and ".join(graph["graph"] for graph in found["graphs"])
    title = f"The plain model, DURA and the dual: MRR by relation category, {found['split']} facts of {names}"
    counted = [_counted(graph, found["at least"]) for graph in found["graphs"]]
    return {"duality": Sheet(title, rows, [*_NOTES, *counted, *_missing(found)])}


def _counted(graph: Found, at_least: int) -> str:
    """A note on one graph: how it was ranked, and how many questions the similarities are over."""
    protocol = graph["protocol"]
    return (
        f"{graph['graph']}: filtered ({protocol['filter']}), both sides, ties {protocol['ties']}; similarities over "
        f"{graph['questions']:,} questions with {at_least} known answers or more, {graph['answers']:,} answers."
    )


def _missing(found: Found) -> list[str]:
    """A note for each kind that no run has, and how to train it."""
    there = {run["kind"] for graph in found["graphs"] for run in graph["runs"]}
    there |= {"DURA"} if any(kind.startswith("DURA") for kind in there) else set()
    return [f"No run is of the kind {kind}; train one with {how}." for kind, how in KINDS.items() if kind not in there]


def draw(found: Found, path: Path) -> Path:
    """A line of two panels per graph: MRR by category, and the similarity of answers; one bar per run."""
    graphs = found["graphs"]
    labels = list(dict.fromkeys(run["label"] for graph in graphs for run in graph["runs"]))
    with figure(len(graphs), 2, width=5.4, height=3.2) as (drawn, axes):
        for graph, (left, right) in zip(graphs, axes, strict=True):
            runs = {run["label"]: run for run in graph["runs"]}
            mrr = {name: {**run["category"], "all": run["mrr"]} for name, run in runs.items()}
            near = {name: {place: run[key] for key, place in _PLACES.items()} for name, run in runs.items()}
            # The same label has the same colour in all panels, so a run that another graph has takes its place here too.
            for panel, heights in ((left, mrr), (right, near)):
                bars(panel, {label: heights.get(label, {}) for label in labels}, y="")
            left.set_title(graph["graph"])
            left.set_ylabel(f"{found['split']} MRR")
            right.set_title(f"the answers of {graph['questions']:,} questions")
            right.set_ylabel("mean over pairs of answers")
            right.axhline(1, color="black", linewidth=0.8, linestyle=":")
        legend_below(drawn, *axes.flat)
        return save(drawn, path)


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of one or several graphs.")],
    split: SplitOption = SplitName.test,
    at_least: Annotated[
        int, typer.Option(min=2, help="Compare the answers of questions with this many known answers or more.")
    ] = 10,
    out: OutOption = Path("studies/duality"),
    device: DeviceOption = "cpu",
    *,
    bar: Bar,
) -> Made:
    """Compare the plain model, the model with DURA and the dual (model.comparator = "distance").

    For each run: the MRR by relation category, and how similar the embeddings of the answers to one question are. Train the runs
    first; their settings say which is which. Writes duality.md, .csv, .json, .png and .svg.

    Examples:

        dura study duality runs/none runs/dura runs/dual

        dura study duality runs/wn-* runs/fb-* --at-least 20 --out studies/mine
    """
    with bar("ranking") as progress:
        found = compute(runs, split.value, at_least=at_least, device=device, progress=progress)
    return finish(found, sheets(found), draw, out)
