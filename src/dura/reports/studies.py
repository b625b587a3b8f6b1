"""The tables and figures of the studies by category, of projections and of the theorems, from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dura.reports.plots import COLOURS, LINES, MARKERS, bars, figure, legend_below, panels, save
from dura.reports.tables import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Study = Mapping[str, Any]
GREY = "#999999"
TITLE_LETTERS = 42
"""How many letters stand side by side above a picture."""


# -- by relation category -----------------------------------------------------------------------------------------------


def category_sheet(study: Study, kind: str = "category") -> Sheet:
    """MRR by category, or by "category-side": one line a run, with that of all facts."""
    runs = study["runs"]
    places = list(runs[0][kind])
    rows = [{"run": run["label"], **{place: run[kind][place] for place in places}, "all": run["mrr"]} for run in runs]
    side = " and side" if kind == "category-side" else ""
    ranks = ", ".join(f"{place} {count:,}" for place, count in runs[0]["ranks"].items())
    protocol = study["protocol"]
    notes = [
        f"Filtered: {protocol['filter']}; both sides; ties {protocol['ties']}; {protocol['candidates']} ranked.",
        f"Ranks by category: {ranks}. A side is N from 1.5 on average on, by the facts of train.",
    ]
    return Sheet(f"MRR by relation category{side}, {study['split']} facts of {study['graph']}", rows, notes)


def draw_categories(study: Study, path: Path) -> Path:
    """Bars side by side: one group a category, one bar a run."""
    groups = {run["label"]: {**run["category"], "all": run["mrr"]} for run in study["runs"]}
    with figure(width=6.4) as (drawn, axes):
        pane = axes[0, 0]
        bars(pane, groups, y=f"{study['split']} MRR")
        top = max(max(heights.values()) for heights in groups.values())
        pane.set_ylim(0, 1.06 * top)
        legend_below(drawn, pane)
        return save(drawn, path)


# -- projections --------------------------------------------------------------------------------------------------------

_NEAR_NOTES = (
    "Silhouette: −1 to 1; above 0 an answer is nearer to those of the same question than to those of the next one.",
    "By cosine and by Euclidean distance of the rows as they are; by Euclidean distance in the picture, where angles mean nothing.",
    "Cosine within: mean over two answers of the same question; between: of two questions. Every question counts the same.",
)
_NEAR = ("silhouette cosine", "silhouette euclidean", "silhouette picture", "cosine within", "cosine between")


def projection_sheet(study: Study) -> Sheet:
    """How near the answers of the same question are: one line a run."""
    rows = [{"run": run["label"], **{name: run[name] for name in _NEAR}} for run in study["runs"]]
    several = sum(answer["question"] is None for answer in study["answers"])
    alone = len(study["answers"]) - several
    notes = [
        f"Questions: {study['source']}.",
        f"{alone:,} answers to one of them; {several:,} to several: grey crosses in the picture, and in none of the numbers.",
        *_NEAR_NOTES,
    ]
    return Sheet(f"Answers of {len(study['questions'])} questions on {study['graph']}", rows, notes)


def question_sheet(study: Study) -> Sheet:
    """The questions, with the mean cosine of two answers in each run."""
    rows = [
        {
            "number": asked["number"],
            "question": asked["question"],
            "answers": asked["answers"],
            "shared": asked["shared"],
            "shown": asked["shown"],
            **{run["label"]: run["within by question"][i] for run in study["runs"]},
        }
        for i, asked in enumerate(study["questions"])
    ]
    notes = [
        "answers: known ones of all splits; shared: those that answer another of these questions too; shown: those in the numbers.",
        "Under a run: mean cosine of two answers of the question.",
    ]
    return Sheet(f"The questions, with cosines within, on {study['graph']}", rows, notes)


def draw_projection(study: Study, path: Path) -> Path:
    """One picture a run, side by side; a question has the same colour, marker and number in all of them."""
    runs = study["runs"]
    with panels(len(runs), width=4.2, height=5.2) as (drawn, places):
        drawn.set_figheight(drawn.get_figheight() + 1)  # for the legend
        for pane, run in zip(places, runs, strict=True):
            _scatter(pane, study, run["coordinates"])
            pane.set_title(fill(run["label"], TITLE_LETTERS))
            pane.set_xlabel(
                f"silhouette: cosine {run['silhouette cosine']:.3f}, Euclidean {run['silhouette euclidean']:.3f}\n"
                f"in the picture {run['silhouette picture']:.3f}\n"
                f"cosine within {run['cosine within']:.3f}, between {run['cosine between']:.3f}"
            )
        handles, names = places[0].get_legend_handles_labels()
        abreast = 1 if len(runs) == 1 else 2
        drawn.legend(handles, names, loc="outside lower center", ncols=abreast, fontsize=8, handletextpad=0.2)
        return save(drawn, path)


def _scatter(pane: Axes, study: Study, coordinates: Sequence[Sequence[float]]) -> None:
    from matplotlib.patheffects import withStroke

    for number, name in ((None, "several of these"), *((q["number"], _short(q)) for q in study["questions"])):
        xy = [at for at, answer in zip(coordinates, study["answers"], strict=True) if answer["question"] == number]
        if number is None:
            style: dict[str, Any] = {"color": GREY, "marker": "x", "s": 12, "linewidths": 0.8, "zorder": 1}
        else:
            # Seven colours and seven markers in step, then the markers one on: no two of 49 questions look the same.
            turn, colour = divmod(number - 1, len(COLOURS))
            marker = MARKERS[(colour + turn) % len(MARKERS)]
            style = {"color": COLOURS[colour], "marker": marker, "s": 14, "linewidths": 0.3, "edgecolors": "white"}
        if xy:
            pane.scatter(*zip(*xy, strict=True), label=name, **style)
        if xy and number is not None:
            x, y = (median(axis) for axis in zip(*xy, strict=True))
            text = pane.text(x, y, str(number), fontsize=8, weight="bold", ha="center", va="center", zorder=5)
            text.set_path_effects([withStroke(linewidth=2, foreground="white")])  # a box would hide markers
    # A square as large as the picture: the same distance has the same length on both axes.
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*coordinates, strict=True))
    half = 0.53 * max(right - left, high - low)
    pane.set_xlim((left + right) / 2 - half, (left + right) / 2 + half)
    pane.set_ylim((low + high) / 2 - half, (low + high) / 2 + half)
    pane.set_box_aspect(1)
    pane.set_xticks([])
    pane.set_yticks([])
    pane.spines[["top", "right"]].set_visible(True)


def _short(question: Mapping[str, Any]) -> str:
    """A question short enough for a legend: the last part of a relation that is a path."""
    given, relation, other = question["parts"]
    words = (given, relation.rstrip("/").rsplit("/", 1)[-1], other)
    return f"{question['number']}  " + " · ".join(word if len(word) <= 28 else f"{word[:27]}…" for word in words)


# -- theorems -----------------------------------------------------------------------------------------------------------

_THEORY_NOTES = (
    "least ratio: smallest (regularizer / bound) over random factors; the bound is Σ over columns of the product of their lengths.",
    "at minimizers: largest |ratio − 1| after rescaling to the stated minimizers; scores moved: largest change of a score by it.",
    "minimised: L-BFGS over splits and scales, from random longer factorizations of tensors whose nuclear 2-norm is known.",
    "least and gap: smallest ratio to that norm on the way, largest |ratio − 1| at an end; conditions: how far they fail there.",
    "The theorems are about diagonal relations, the sum over all facts that could be, and λ₁ = λ₂ = 1.",
    "weighted (ours): the least value is √(λ₁λ₂) times the norm for DURA and DURA1, (λ₁ + λ₂)/2 times for DURA2.",
    "p = 1: the paper says that it gives no such bound; factors of ones have the value 0 and a norm above 0, so no constant helps.",
)
_FLOOR = 1e-16
"""Where a gap of nothing stands on a logarithmic scale."""


def theory_sheet(study: Study) -> Sheet:
    """One line a statement: what was tried and what was found."""
    rows = [
        {
            "statement": trial["statement"],
            "regularizer": trial["regularizer"],
            "model": trial["model"],
            "draws": len(trial["ratios"]),
            "least ratio": f"{trial['ratios'][0]:.10f}",
            "at minimizers": _small(trial["gap"]),
            "scores moved": _small(trial["moved"]),
            "starts": len(trial["paths"]),
            "minimised: least": f"{trial['lowest']:.10f}",
            "minimised: gap": _small(trial["ends"]) if trial["bounded"] else "",
            "conditions": _small(trial["conditions"]),
            "verdict": _verdict(trial),
        }
        for trial in study["trials"]
    ]
    title = (
        f"The theorems, tried with 1 to {study['size']} entities, relations, times and columns, seed {study['seed']}"
    )
    return Sheet(title, rows, _THEORY_NOTES)


def _small(value: float | None) -> str:
    return "" if value is None else f"{value:.0e}"


def _verdict(trial: Study) -> str:
    if trial["bounded"]:
        return "holds" if trial["holds"] else "FAILS"
    return "no bound, as the paper says" if trial["holds"] else "no counterexample found"


def draw_theory(study: Study, path: Path) -> Path:
    """A column a theorem. Above: random factors, sorted. Below: minimisations on their way. Heights are ratios to the bound less 1.

    Where there is no bound, the ratios themselves, with a line where a bound would be.
    """
    groups: dict[str, list[Study]] = {}
    for trial in study["trials"]:
        groups.setdefault(trial["statement"].partition(",")[0], []).append(trial)
    with figure(2, len(groups), width=3.3, height=2.9) as (drawn, axes):
        for (name, trials), above, below in zip(groups.items(), axes[0], axes[1], strict=True):
            for i, trial in enumerate(trials):
                _sorted_ratios(above, trial, i)
                _minimisations(below, trial, i)
            above.set_title(name)
            above.set_yscale("log")
            if len(trials) > 1:
                above.legend(fontsize=8)
            if trials[0]["bounded"]:
                below.set_yscale("log")
                continue
            for pane in (above, below):
                pane.axhline(1, color="black", linewidth=1, zorder=1)
            above.set_ylabel("regularizer / bound")
            below.set_ylabel("regularizer / norm")
            below.set_ylim(bottom=0)
        axes[0, 0].set_ylabel("random: regularizer / bound − 1")
        axes[1, 0].set_ylabel("minimised: regularizer / norm − 1")
        return save(drawn, path)


def _style(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)]}


def _heights(trial: Study, ratios: Iterable[float]) -> list[float]:
    """Ratios as they are drawn; one that is not above a bound lies on the floor."""
    return [max(ratio - 1, _FLOOR) for ratio in ratios] if trial["bounded"] else list(ratios)


def _sorted_ratios(pane: Axes, trial: Study, i: int) -> None:
    ratios = [ratio for ratio in trial["ratios"] if ratio > 0]  # the counterexample's 0 has no place on this scale
    shares = [100 * (k + 1) / len(ratios) for k in range(len(ratios))]
    name = trial["statement"].partition(", ")[2] or "as stated"
    mark = "o" if len(ratios) == 1 else ""  # a line of one point is not seen
    pane.plot(shares, _heights(trial, ratios), label=name, marker=mark, **_style(i))
    pane.set_xlabel("draws, %")


def _minimisations(pane: Axes, trial: Study, i: int) -> None:
    for path in trial["paths"]:
        best = _heights(trial, accumulate(path, min))
        pane.plot(range(1, len(best) + 1), best, linewidth=0.9, **_style(i))
    pane.set_xlabel("values looked at")
