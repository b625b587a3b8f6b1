"""Calibration: ECE, Brier score and coverage of answer sets on the test facts of several runs.

    python benchmarks/calibration.py runs/fb15k-237 runs/wn18rr --figure docs/results/calibration.png

Each run is calibrated as `dura calibrate` does it: fitted on valid, measured on test; its calibration.json is written. The results
are added to docs/results/calibration.json. The figure shows the reliability of the best ten answers of each graph in that file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from dura.records import write_atomic
from dura.runs.calibrations import FEW
from dura.runs.trained import open_run
from dura.sheets.figures import GREY, curves, legend_below, panels, save


def measure(run: Path) -> dict[str, Any]:
    """Calibrate one run and return what is kept of it."""
    trained = open_run(run)
    begun = time.perf_counter()
    found = trained.calibrate()
    seconds = time.perf_counter() - begun
    about = trained.experiment
    measured = found.to_dict()
    return {
        "graph": trained.graph.name,
        "model": f"{about.model.name} {trained.model.rank}, {about.regularizer.name}",
        "seconds": round(seconds, 1),
        "fitted": measured["fitted"],
        **measured["test"],
    }


def draw(found: dict[str, Any], path: Path) -> Path:
    """Reliability of the best ten answers, one panel per graph."""
    with panels(len(found)) as (drawn, places):
        for panel, one in zip(places, found.values(), strict=True):
            answers = one["answers"]["top10"]
            panel.plot([0, 1], [0, 1], color=GREY, linewidth=1)
            lines = {
                name: tuple(
                    [b[key] for b in answers[name]["bins"] if b["count"] >= FEW] for key in ("probability", "share")
                )
                for name in ("before", "after")
            }
            ece = f"ECE {answers['before']['ece']:.3f} before, {answers['after']['ece']:.3f} after"
            curves(panel, lines, x="probability", y="share in test", title=f"{one['graph']}\n{ece}")  # type: ignore[arg-type]
            panel.set_xlim(-0.02, 1.02)
            panel.set_ylim(-0.02, 1.02)
        legend_below(drawn, *places)
        return save(drawn, path)


def rounded(value: Any) -> Any:
    """The document with five digits per number."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 5) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/calibration.json"))
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    for run in given.runs:
        one = rounded(measure(run))
        found[one["graph"]] = one
        write_atomic(given.out, json.dumps(found, indent=1).encode())
        after = one["answers"]["top10"]["after"]["ece"], one["answers"]["top1"]["after"]["ece"]
        print(one["graph"], "ECE", after, "coverage", [(s["asked"], s["measured"]) for s in one["sets"]], flush=True)
    if given.figure:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
