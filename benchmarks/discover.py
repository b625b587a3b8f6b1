"""Discover: seconds, peak memory, and how many of the best facts are held-out facts.

    python benchmarks/discover.py runs/fb15k-237 --out docs/results/discover.json

The graph is searched as if its test facts were unknown. Those that are found are certainly true, so their share is a lower bound of
the precision: in an incomplete graph other facts that are found may be true as well. Results are added to the file.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import dura
from dura.data.graph import common


def measure(run: str, top: int) -> dict[str, object]:
    """One search with all relations."""
    trained = dura.open(run)
    graph = trained.graph
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trained.graph = replace(graph, test=graph.test[:0])
    began, cpu = time.perf_counter(), time.process_time()
    found = trained.discover(top=top)
    seconds, spent = time.perf_counter() - began, time.process_time() - cpu
    frame = found.to_frame()
    ids = (graph.entities.ids(frame["head"]), graph.relations.ids(frame["relation"]), graph.entities.ids(frame["tail"]))
    facts = np.stack(ids, axis=1)
    number = frame[found.about["value"]]
    return {
        "graph": graph.name,
        "model": trained.experiment.model.name,
        "rank": trained.model.rank,
        "value": found.about["value"],
        "top": top,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(spent, 1),
        "megabytes_before": before // 1024,
        "megabytes_at_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "in_test": {str(k): len(common(facts[:k], graph.test[:, :3])) for k in (100, 1000, 5000) if k <= top},
        "values": {str(k): round(float(number[k - 1]), 4) for k in (1, 100, 1000, 5000) if k <= len(number)},
        "test_facts": len(graph.test),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--top", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text()) if given.out.exists() else []
    rows.append(measure(given.run, given.top))
    given.out.write_text(json.dumps(rows, indent=1) + "\n")
