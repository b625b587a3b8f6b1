"""The study of the theorems: does DURA's least value equal the nuclear 2-norm of the scores, as the paper says?"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dura.sheets.figures import COLOURS, LINES, figure, save
from dura.sheets.sheet import Sheet
from dura.studies.study import Bar, Count, Found, Made, OutOption, SeedOption, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTES = (
    "least ratio: smallest (regularizer / bound) over random factors; the bound is Σ over columns of the product of their lengths.",
    "at minimizers: largest |ratio − 1| after rescaling to the stated minimizers; scores moved: largest change of a score by it.",
    "minimised: L-BFGS over splits and scales, from random longer factorizations of tensors whose nuclear 2-norm is known.",
    "least and gap: smallest ratio to that norm on the way, largest |ratio − 1| at an end; conditions: largest error there.",
    "The theorems are about diagonal relations, the sum over all possible facts, and λ₁ = λ₂ = 1.",
    "weighted (ours): the least value is √(λ₁λ₂) times the norm for DURA and DURA1, (λ₁ + λ₂)/2 times for DURA2.",
    "p = 1: the paper says that it gives no such bound; factors of ones have the value 0 and a norm above 0, so no constant helps.",
)
_FLOOR = 1e-16
"""The height of a gap of zero on a logarithmic scale."""


def compute(
    *, draws: int = 200, starts: int = 5, size: int = 6, seed: int = 0, progress: Count | None = None
) -> dict[str, Any]:
    """Every statement of the paper with what was found for it (see `dura.analysis.theory.check`).

    >>> all(trial["holds"] for trial in compute(draws=5, starts=1)["trials"])  # doctest: +SKIP
    """
    from dura.analysis.theory import check

    verdicts = check(draws=draws, starts=starts, size=size, seed=seed, progress=progress)
    return {"seed": seed, "size": size, "trials": [verdict.to_dict() for verdict in verdicts]}


def sheets(found: Found) -> dict[str, Sheet]:
    """One row per statement: what was computed and what was found."""
    rows = [
        {
            "statement": verdict["statement"],
            "regularizer": verdict["regularizer"],
            "model": verdict["model"],
            "draws": len(verdict["ratios"]),
            "least ratio": f"{verdict['ratios'][0]:.10f}",
            "at minimizers": _small(verdict["gap"]),
            "scores moved": _small(verdict["moved"]),
            "starts": len(verdict["paths"]),
            "minimised: least": f"{verdict['lowest']:.10f}",
            "minimised: gap": _small(verdict["ends"]) if verdict["bounded"] else "",
            "conditions": _small(verdict["conditions"]),
            "verdict": _in_words(verdict),
        }
        for verdict in found["trials"]
    ]
    title = (
        f"The theorems, checked with 1 to {found['size']} entities, relations, times and columns, seed {found['seed']}"
    )
    return {"theory": Sheet(title, rows, _NOTES)}


def _small(value: float | None) -> str:
    return "" if value is None else f"{value:.0e}"


def _in_words(verdict: Found) -> str:
    if verdict["bounded"]:
        return "holds" if verdict["holds"] else "FAILS"
    return "no bound, as the paper says" if verdict["holds"] else "no counterexample found"


def draw(found: Found, path: Path) -> Path:
    """One column per theorem. Above: random factors, sorted. Below: minimisations. Heights are ratios to the bound minus 1.

    If there is no bound, the heights are the ratios themselves, with a line where a bound would be.
    """
    groups: dict[str, list[Found]] = {}
    for verdict in found["trials"]:
        groups.setdefault(verdict["statement"].partition(",")[0], []).append(verdict)
    with figure(2, len(groups), width=3.3, height=2.9) as (drawn, axes):
        for (name, verdicts), above, below in zip(groups.items(), axes[0], axes[1], strict=True):
            for i, verdict in enumerate(verdicts):
                _sorted_ratios(above, verdict, i)
                _minimisations(below, verdict, i)
            above.set_title(name)
            above.set_yscale("log")
            if len(verdicts) > 1:
                above.legend(fontsize=8)
            if verdicts[0]["bounded"]:
                below.set_yscale("log")
            else:
                _without_bound(above, below)
        axes[0, 0].set_ylabel("random: regularizer / bound − 1")
        axes[1, 0].set_ylabel("minimised: regularizer / norm − 1")
        return save(drawn, path)


def _without_bound(above: Axes, below: Axes) -> None:
    for panel in (above, below):
        panel.axhline(1, color="black", linewidth=1, zorder=1)
    above.set_ylabel("regularizer / bound")
    below.set_ylabel("regularizer / norm")
    below.set_ylim(bottom=0)


def _style(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)]}


def _heights(verdict: Found, ratios: Iterable[float]) -> list[float]:
    """The heights at which ratios are drawn; one that is not above its bound lies on the floor."""
    return [max(ratio - 1, _FLOOR) for ratio in ratios] if verdict["bounded"] else list(ratios)


def _sorted_ratios(panel: Axes, verdict: Found, i: int) -> None:
    ratios = [ratio for ratio in verdict["ratios"] if ratio > 0]  # the counterexample's 0 has no place on this scale
    shares = [100 * (k + 1) / len(ratios) for k in range(len(ratios))]
    name = verdict["statement"].partition(", ")[2] or "as stated"
    mark = "o" if len(ratios) == 1 else ""  # a line with one point cannot be seen
    panel.plot(shares, _heights(verdict, ratios), label=name, marker=mark, **_style(i))
    panel.set_xlabel("draws, %")


def _minimisations(panel: Axes, verdict: Found, i: int) -> None:
    for path in verdict["paths"]:
        best = _heights(verdict, accumulate(path, min))
        panel.plot(range(1, len(best) + 1), best, linewidth=0.9, **_style(i))
    panel.set_xlabel("values computed")


def command(
    seed: SeedOption = 0,
    size: Annotated[
        int, typer.Option(min=1, max=16, help="Each draw has 1 to this many entities, relations, times and columns.")
    ] = 6,
    draws: Annotated[int, typer.Option(min=1, help="Random factors per statement.")] = 200,
    starts: Annotated[int, typer.Option(min=1, help="Minimisations per statement.")] = 5,
    out: OutOption = Path("studies/theory"),
    *,
    bar: Bar,
) -> Made:
    """Check Theorems 1 to 3 of the paper numerically: DURA's least value is the nuclear 2-norm of the scores.

    Random factors must never go below the bound, the stated minimizers must attain it, and minimisations must end at it. Writes
    theory.md, .csv, .json, .png and .svg. The exit code is 1 if a statement fails.

    Examples:

        dura study theory

        dura study theory --seed 1 --size 10 --draws 1000 --out studies/theory-1
    """
    with bar("statements") as progress:
        found = compute(draws=draws, starts=starts, size=size, seed=seed, progress=progress)
    failed = [verdict["statement"] for verdict in found["trials"] if not verdict["holds"]]
    failure = f"these statements did not hold: {', '.join(failed)}" if failed else ""
    return finish(found, sheets(found), draw, out, failure)
