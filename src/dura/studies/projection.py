"""The study of projections: are the answers to the same question near each other?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.records import RunFolder
from dura.sheets.figures import COLOURS, GREY, MARKERS, panels, save
from dura.sheets.sheet import Sheet
from dura.studies.study import (
    Bar,
    Count,
    DeviceOption,
    Found,
    Made,
    OutOption,
    RunsArgument,
    SeedOption,
    answer_rows,
    finish,
    run_labels,
)
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dura.analysis.projection import Floats, Shown
    from dura.data.graph import Graph
    from dura.data.questions import Questions

TITLE_LETTERS = 42
"""The most letters of a line above a panel."""
_NUMBERS = ("silhouette cosine", "silhouette euclidean", "silhouette picture", "cosine within", "cosine between")
_NOTES = (
    "Silhouette: −1 to 1; above 0, an answer is nearer to answers of the same question than to those of the nearest other one.",
    "cosine, euclidean: by this distance of the rows; picture: by Euclidean distance in the figure, where angles mean nothing.",
    "Cosine within: mean over two answers of the same question; between: of two questions. Every question counts the same.",
)


def compute(
    runs: Sequence[Path],
    *,
    questions: str = "auto",
    seed: int = 0,
    more_than: int = 50,
    most: int = 200,
    device: str = "cpu",
    progress: Count | None = None,
) -> dict[str, Any]:
    """The answers of some questions in two dimensions, for each run, and how near those of the same question are.

    `questions` is "paper" (the paper's ten, of FB15k-237 with labels), "drawn" (ten random ones with `more_than` answers), "auto"
    (the paper's if the graph has them, else drawn) or the path of a file as for `dura predict --input`. At most `most` answers of
    each question are shown.

    >>> compute([Path("runs/none"), Path("runs/dura")])["runs"][1]["silhouette cosine"]  # doctest: +SKIP
    """
    import numpy as np

    from dura.analysis.projection import SEVERAL, shown_answers
    from dura.runs.store import read_graph
    from dura.runs.trained import open_run

    labels = run_labels(runs)
    graph = read_graph(RunFolder.open(runs[0]))
    source, asked = _questions(graph, questions, seed, more_than)
    shown = shown_answers(asked, most, seed)
    found = []
    for done, (run, label) in enumerate(zip(runs, labels, strict=True), start=1):
        rows = answer_rows(open_run(run, device).model, shown.entity)
        found.append({"run": str(run), "label": label, **_projected(run, rows, shown, seed)})
        if progress is not None:
            progress(done, len(runs))
    answers = [
        {"entity": name, "label": graph.label(name), "question": None if at == SEVERAL else at + 1}
        for name, at in zip(graph.entities.names(shown.entity), shown.question.tolist(), strict=True)
    ]
    counts = np.bincount(shown.question[shown.question != SEVERAL]).tolist()
    about = {"graph": graph.name, "digest": graph.digest, "seed": seed, "source": source}
    return {**about, "questions": _described(graph, asked, counts), "answers": answers, "runs": found}


def _projected(run: Path, rows: Floats, shown: Shown, seed: int) -> dict[str, Any]:
    """The coordinates of a run's rows, and the numbers below them."""
    import numpy as np

    from dura.analysis.projection import coordinates, nearness

    try:
        drawn = coordinates(rows, seed)
    except DuraError as error:
        raise type(error)(f"{run}: {error}") from None
    near = nearness(rows, shown.question, drawn)
    return {
        "silhouette cosine": near.silhouette_cosine,
        "silhouette euclidean": near.silhouette_euclidean,
        "silhouette picture": near.silhouette_picture,
        "cosine within": float(np.mean(near.within)),
        "cosine between": near.between,
        "within by question": list(near.within),
        "coordinates": drawn.round(4).tolist(),
    }


def _described(graph: Graph, asked: Questions, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Each question in words and numbers."""
    from dura.analysis.projection import own_shares

    relations, described = len(graph.relations), []
    shared = (asked.counts * (1 - own_shares(asked))).round().astype(int).tolist()
    for i, (given, relation) in enumerate(zip(asked.head.tolist(), asked.relation.tolist(), strict=True)):
        entity = graph.label(graph.entities.name(given))
        name = graph.relation_label(graph.relations.name(relation % relations))
        parts = (entity, name, "?") if relation < relations else ("?", name, entity)
        described.append(
            {
                "number": i + 1,
                "question": f"({', '.join(parts)})",
                "parts": list(parts),
                "answers": int(asked.counts[i]),
                "shared": shared[i],
                "shown": counts[i],
            }
        )
    return described


def _questions(graph: Graph, chosen: str, seed: int, more_than: int) -> tuple[str, Questions]:
    """The source of the questions, in words, and the questions."""
    from dura.analysis.projection import drawn_questions, paper_questions

    if chosen in ("auto", "paper"):
        paper = paper_questions(graph)
        if paper is not None:
            return "the paper's ten", paper
        if chosen == "paper":
            raise BadInput(
                f"the graph {graph.name!r} does not have the paper's ten questions, which are from FB15k-237 with its labels; "
                "use --questions drawn or a file"
            )
    if chosen in ("auto", "drawn"):
        asked = drawn_questions(graph, seed, more_than=more_than)
        return f"{len(asked)} drawn with seed {seed} from those with more than {more_than} answers", asked
    return f"from the file {Path(chosen).name}", _read(graph, Path(chosen))


def _read(graph: Graph, path: Path) -> Questions:
    """The questions of a file with their known answers, at any time if facts have times."""
    import numpy as np

    from dura.inference.asking import read_questions

    at = []
    for question in read_questions(path):
        relation = graph.relation(question.relation)
        if question.time is not None:
            raise BadInput(
                f"{path}: {question} has a time, but a projection shows the answers at any time; leave the time out"
            )
        given = graph.entity(question.head or question.tail or "")
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


def sheets(found: Found) -> dict[str, Sheet]:
    """How near the answers of the same question are, one row per run; and the questions."""
    return {"projection": _near_sheet(found), "projection-questions": _question_sheet(found)}


def _near_sheet(found: Found) -> Sheet:
    rows = [{"run": run["label"], **{name: run[name] for name in _NUMBERS}} for run in found["runs"]]
    several = sum(answer["question"] is None for answer in found["answers"])
    alone = len(found["answers"]) - several
    notes = [
        f"Questions: {found['source']}.",
        f"{alone:,} answers to one of them; {several:,} to several: grey crosses in the figure, not in the numbers.",
        *_NOTES,
    ]
    return Sheet(f"Answers of {len(found['questions'])} questions on {found['graph']}", rows, notes)


def _question_sheet(found: Found) -> Sheet:
    """The questions, with the mean cosine of two answers in each run."""
    rows = [
        {
            "number": asked["number"],
            "question": asked["question"],
            "answers": asked["answers"],
            "shared": asked["shared"],
            "shown": asked["shown"],
            **{run["label"]: run["within by question"][i] for run in found["runs"]},
        }
        for i, asked in enumerate(found["questions"])
    ]
    notes = [
        "answers: known answers in all splits; shared: those that answer another of these questions too; shown: those in numbers.",
        "In the column of a run: the mean cosine of two answers to the question.",
    ]
    return Sheet(f"The questions, with cosines within, on {found['graph']}", rows, notes)


def draw(found: Found, path: Path) -> Path:
    """One panel per run, side by side; a question has the same colour, marker and number in all of them."""
    runs = found["runs"]
    with panels(len(runs), width=4.2, height=5.2) as (drawn, places):
        drawn.set_figheight(drawn.get_figheight() + 1)  # for the legend
        for panel, run in zip(places, runs, strict=True):
            _scatter(panel, found, run["coordinates"])
            panel.set_title(fill(run["label"], TITLE_LETTERS))
            panel.set_xlabel(
                f"silhouette: cosine {run['silhouette cosine']:.3f}, Euclidean {run['silhouette euclidean']:.3f}\n"
                f"in the figure {run['silhouette picture']:.3f}\n"
                f"cosine within {run['cosine within']:.3f}, between {run['cosine between']:.3f}"
            )
        handles, names = places[0].get_legend_handles_labels()
        columns = 1 if len(runs) == 1 else 2
        drawn.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=8, handletextpad=0.2)
        return save(drawn, path)


def _scatter(panel: Axes, found: Found, coordinates: Sequence[Sequence[float]]) -> None:
    from matplotlib.patheffects import withStroke

    for number, name in ((None, "several of these"), *((q["number"], _short(q)) for q in found["questions"])):
        xy = [at for at, answer in zip(coordinates, found["answers"], strict=True) if answer["question"] == number]
        if xy:
            panel.scatter(*zip(*xy, strict=True), label=name, **_marks(number))
        if xy and number is not None:
            x, y = (median(axis) for axis in zip(*xy, strict=True))
            text = panel.text(x, y, str(number), fontsize=8, weight="bold", ha="center", va="center", zorder=5)
            text.set_path_effects([withStroke(linewidth=2, foreground="white")])  # a box would hide markers
    # A square around everything: the same distance has the same length on both axes.
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*coordinates, strict=True))
    half = 0.53 * max(right - left, high - low)
    panel.set_xlim((left + right) / 2 - half, (left + right) / 2 + half)
    panel.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
    panel.set_box_aspect(1)
    panel.set_xticks([])
    panel.set_yticks([])
    panel.spines[["top", "right"]].set_visible(True)


def _marks(number: int | None) -> dict[str, Any]:
    """How the answers of a question look; None means answers of several questions."""
    if number is None:
        return {"color": GREY, "marker": "x", "s": 12, "linewidths": 0.8, "zorder": 1}
    # Each further round of the seven colours shifts the seven markers by one: all of 49 questions look different.
    turn, colour = divmod(number - 1, len(COLOURS))
    marker = MARKERS[(colour + turn) % len(MARKERS)]
    return {"color": COLOURS[colour], "marker": marker, "s": 14, "linewidths": 0.3, "edgecolors": "white"}


def _short(question: Mapping[str, Any]) -> str:
    """A question that is short enough for a legend: only the last part of a relation that is a path."""
    given, relation, other = question["parts"]
    words = (given, relation.rstrip("/").rsplit("/", 1)[-1], other)
    return f"{question['number']}  " + " · ".join(word if len(word) <= 28 else f"{word[:27]}…" for word in words)


def command(
    runs: RunsArgument,
    questions: Annotated[
        str,
        typer.Option(
            metavar="paper|drawn|FILE",
            help="The paper's ten (FB15k-237 with labels), ten drawn at random, or a file as for 'dura predict --input'; "
            "auto means the paper's if the graph has them, else drawn.",
        ),
    ] = "auto",
    seed: SeedOption = 0,
    more_than: Annotated[int, typer.Option(min=1, help="Drawn questions have more known answers than this.")] = 50,
    answers: Annotated[
        int, typer.Option(min=2, help="Show at most this many answers per question, drawn at random.")
    ] = 200,
    out: OutOption = Path("studies/projection"),
    device: DeviceOption = "cpu",
    *,
    bar: Bar,
) -> Made:
    """Show the answers of ten questions in two dimensions (t-SNE), and how near those of the same question are.

    Below each panel: silhouettes of the embeddings and of the points in the figure, mean cosines within and between questions.
    Writes projection.md, .csv, .json (with the coordinates), .png and .svg, and projection-questions.md, .csv and .json.

    Examples:

        dura study projection runs/none runs/dura

        dura study projection runs/mine --questions drawn --more-than 20 --seed 1

        dura study projection runs/none runs/dura --questions mine.tsv --answers 100
    """
    with bar("projections") as progress:
        found = compute(
            runs, questions=questions, seed=seed, more_than=more_than, most=answers, device=device, progress=progress
        )
    return finish(found, sheets(found), draw, out)
