"""Defaults: what a graph gets that nobody has tuned for, next to the preset that was tuned for it.

    DURA_DATA=… python benchmarks/defaults.py umls kinships wn18rr --runs runs/defaults --out docs/results/defaults.json
    DURA_DATA=… python benchmarks/defaults.py fb15k-237 --minutes 1 3 10 --runs runs/defaults --out docs/results/defaults.json

Each graph is trained as `dura train --graph NAME` does it, or with `--minutes N`. A run that has ended is not trained again, so the
command can be stopped and repeated. Results are added to the file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import dura
from dura.records import RunFolder, write_atomic
from dura.runs.presets import preset
from dura.runs.run import resume

PRESETS = {
    **{name: f"{name}/complex-dura" for name in ("umls", "kinships", "nations")},
    **{name: f"{name}/complex-dura-laptop" for name in ("wn18rr", "fb15k-237")},
    **{name: f"{name}/tcomplex-dura1-laptop" for name in ("icews14", "icews05-15", "yago15k")},
}
"""The preset that was tuned for each graph."""
SHOWN = ("model.rank", "regularizer.weight", "loss.w0", "candidates.name", "training.epochs", "training.batch")


def trained(name: str, minutes: float | None, runs: Path) -> dict[str, Any]:
    """Train a graph with the settings that dura chooses, unless that was done before."""
    graph, run = dura.load(name), runs / (name if minutes is None else f"{name}-{minutes:g}")
    began = time.monotonic()
    ended = run.exists() and any(record["kind"] == "end" for record in RunFolder.open(run).records())
    if run.exists():
        model = resume(run) if not ended else dura.open(run)
    else:
        model = dura.fit(graph, out=run, minutes=minutes, progress=False)
    wall, records = time.monotonic() - began, RunFolder.open(run).records()
    settings, expected = model.experiment.by_path(), preset(PRESETS[name]).expected["mrr"] if name in PRESETS else None
    found = model.evaluate("test")
    return {
        "graph": name,
        "minutes": minutes,
        "test_mrr": round(found.mrr, 4),
        "preset": PRESETS.get(name),
        "preset_mrr": expected,
        "difference": None if expected is None else round(found.mrr - expected, 4),
        "minutes_of_steps": round(next(r["seconds"] for r in reversed(records) if r["kind"] == "end") / 60, 1),
        **({} if ended else {"minutes_in_all": round(wall / 60, 1)}),
        "settings": {path: settings[path] for path in SHOWN if path in settings},
        "said": records[0].get("auto", ""),
    }


def main() -> None:
    """Train, and add the rows to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--minutes", type=float, nargs="+", default=[None])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/defaults.json"))
    given = parser.parse_args()
    for name in given.graphs:
        for minutes in given.minutes:
            row = trained(name, minutes, given.runs)
            print(json.dumps(row), flush=True)
            rows = json.loads(given.out.read_text()) if given.out.exists() else []
            rows = [old for old in rows if (old["graph"], old["minutes"]) != (name, minutes)] + [row]
            write_atomic(given.out, (json.dumps(rows, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
