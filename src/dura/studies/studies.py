"""Studies of trained runs: figures by relation category, and the projection of answers; runs in, plain values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dura.analysis.projection import (
    SEVERAL,
    Points,
    Rows,
    answer_points,
    drawn_questions,
    nearness,
    own_shares,
    paper_questions,
    picture,
)
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.models import MODELS, Model
from dura.records import RunFolder, exported_as
from dura.runs.store import read_graph, read_settings
from dura.runs.trained import open_run
from dura.types import BadInput, DuraError, IntArray, Split

Progress = Callable[[int, int], None]
_SPELLED = {"none": "none", "reg-p1": "Reg-p1"}


def run_labels(runs: Sequence[Path]) -> list[str]:
    """How runs of one graph are called beside each other: "RESCAL DURA-I", "ComplEx DURA, 70 % zeros, int8" for exported ones.

    Where that does not tell them apart, they are called by their folders.
    Runs of several graphs, or one run twice, are refused.
    """
    folders = [RunFolder.open(run) for run in runs]
    places = [run.resolve() for run in runs]
    for place, times in Counter(places).items():
        if times > 1:
            raise BadInput(f"the run {place} is given {times} times; name each run once")
    graphs = [folder.about().get("graph", {}) for folder in folders]
    for run, graph in zip(runs, graphs, strict=True):
        if graph.get("digest") != graphs[0].get("digest"):
            raise BadInput(
                f"{runs[0]} and {run} are runs of different graphs ({graphs[0].get('name')} and {graph.get('name')}, by their "
                "digests), so their figures cannot stand side by side; give runs of one graph"
            )
    labels = [_label(folder) for folder in folders]
    for names in ([place.name for place in places], [str(run) for run in runs]):
        counts = Counter(labels)
        labels = [name if counts[label] > 1 else label for label, name in zip(labels, names, strict=True)]
    return labels


def _label(folder: RunFolder) -> str:
    experiment = read_settings(folder)
    regularizer = experiment.regularizer.name
    name = f"{MODELS.get(experiment.model.name).__name__} {_SPELLED.get(regularizer, regularizer.upper())}"
    return ", ".join(filter(None, (name, exported_as(folder.records()))))


def categories(
    runs: Sequence[Path], split: Split = "test", *, device: str = "cpu", progress: Progress | None = None
) -> dict[str, Any]:
    """MRR by relation category, and by category and side, of several runs of one graph; with the protocol.

    >>> categories([Path("runs/none"), Path("runs/dura")])["runs"][0]["category"]["1-N"]  # doctest: +SKIP
    """
    found: list[dict[str, Any]] = []
    protocol: dict[str, Any] = {}
    for run, label in zip(runs, run_labels(runs), strict=True):
        result = open_run(run, device).evaluate(split, ["category", "category-side"], progress=progress)
        protocol = result.protocol
        by: dict[str, Any] = {kind: {name: m.mrr for name, m in group.items()} for kind, group in result.groups.items()}
        ranks = {name: m.ranks for name, m in result.groups["category"].items()}
        found.append({"run": str(run), "label": label, "mrr": result.mrr, **by, "ranks": ranks})
    return {"graph": protocol["graph"], "split": split, "protocol": protocol, "runs": found}


def projection(
    runs: Sequence[Path],
    *,
    questions: str = "auto",
    seed: int = 0,
    more_than: int = 50,
    most: int = 200,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The answers of some questions in two dimensions, for each run, and how near those of the same question are.

    `questions` are "paper" (the paper's ten, of FB15k-237 with labels), "drawn" (ten by the seed with `more_than` answers), "auto"
    (the paper's where the graph has them, else drawn) or the path of a file as `dura predict --input` takes it. Of each question
    `most` answers are shown.

    >>> projection([Path("runs/none"), Path("runs/dura")])["runs"][1]["silhouette cosine"]  # doctest: +SKIP
    """
    labels = run_labels(runs)
    graph = read_graph(RunFolder.open(runs[0]))
    source, asked = _questions(graph, questions, seed, more_than)
    points = answer_points(asked, most, seed)
    found = []
    for done, (run, label) in enumerate(zip(runs, labels, strict=True)):
        rows = _answers(open_run(run, device).model, points.entity)
        found.append({"run": str(run), "label": label, **_pictured(run, rows, points, seed)})
        if progress is not None:
            progress(done + 1, len(runs))
    answers = [
        {"entity": name, "label": graph.label(name), "question": None if at == SEVERAL else at + 1}
        for name, at in zip(graph.entities.names(points.entity), points.question.tolist(), strict=True)
    ]
    shown = np.bincount(points.question[points.question != SEVERAL]).tolist()
    about = {"graph": graph.name, "digest": graph.digest, "seed": seed, "source": source}
    return {**about, "questions": _described(graph, asked, shown), "answers": answers, "runs": found}


def _pictured(run: Path, rows: Rows, points: Points, seed: int) -> dict[str, Any]:
    """The picture of a run's rows and the numbers under it."""
    try:
        drawn = picture(rows, seed)
    except DuraError as error:
        raise type(error)(f"{run}: {error}") from None
    near = nearness(rows, points.question, drawn)
    return {
        "silhouette cosine": near.silhouette_cosine,
        "silhouette euclidean": near.silhouette_euclidean,
        "silhouette picture": near.silhouette_picture,
        "cosine within": float(np.mean(near.within)),
        "cosine between": near.between,
        "within by question": list(near.within),
        "coordinates": drawn.round(4).tolist(),
    }


def _described(graph: Graph, asked: Questions, shown: Sequence[int]) -> list[dict[str, Any]]:
    """Each question in words and numbers."""
    relations, described = len(graph.relations), []
    shared = (asked.counts * (1 - own_shares(asked))).round().astype(int).tolist()
    for i, (given, relation) in enumerate(zip(asked.head.tolist(), asked.relation.tolist(), strict=True)):
        entity, name = graph.label(graph.entities.name(given)), graph.relations.name(relation % relations)
        parts = (entity, name, "?") if relation < relations else ("?", name, entity)
        described.append(
            {
                "number": i + 1,
                "question": f"({', '.join(parts)})",
                "parts": list(parts),
                "answers": int(asked.counts[i]),
                "shared": shared[i],
                "shown": shown[i],
            }
        )
    return described


def _questions(graph: Graph, chosen: str, seed: int, more_than: int) -> tuple[str, Questions]:
    """Where the questions come from, and the questions."""
    if chosen in ("auto", "paper"):
        paper = paper_questions(graph)
        if paper is not None:
            return "the paper's ten", paper
        if chosen == "paper":
            raise BadInput(
                f"the graph {graph.name!r} does not have the paper's ten questions, which are of FB15k-237 with its labels; "
                "take --questions drawn or a file"
            )
    if chosen in ("auto", "drawn"):
        asked = drawn_questions(graph, seed, more_than=more_than)
        return f"{len(asked)} drawn by the seed {seed} among those with more than {more_than} answers", asked
    return f"of the file {Path(chosen).name}", _read(graph, Path(chosen))


def _read(graph: Graph, path: Path) -> Questions:
    """The questions of a file with their known answers; at any time where facts have times."""
    from dura.inference.asking import read_questions

    at = []
    for question in read_questions(path):
        relation = graph.relations.id(question.relation, "relation")
        if question.time is not None:
            raise BadInput(
                f"{path}: {question} has a time, but a projection shows the answers at any time; leave it out"
            )
        given = graph.entities.id(question.head or question.tail or "", "entity")
        asked = relation if question.tail is None else relation + len(graph.relations)
        found = int(graph.known_ever.find(np.array([given]), np.array([asked]))[0])
        if found < 0:
            raise BadInput(f"{path}: {question} has no known answer in the graph {graph.name!r}")
        at.append(found)
    if len(set(at)) < max(2, len(at)):
        raise BadInput(
            f"{path} holds {len(set(at))} different questions on {len(at)} lines; at least 2 are needed, each once"
        )
    return graph.known_ever.take(np.array(at))


def _answers(model: Model, entities: IntArray) -> Rows:
    """The rows of these entities as answers."""
    with model.answering():
        rows = model.targets(torch.from_numpy(np.ascontiguousarray(entities)).to(model.device, torch.long))
        assert isinstance(rows, torch.Tensor)
        return rows.cpu().numpy()
