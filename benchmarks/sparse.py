"""What small tables save and cost: bytes, memory, processor time per question and MRR of a run, exported in several ways.

    python benchmarks/sparse.py runs/fb-dura
    python benchmarks/sparse.py --wide 200000     # an untrained ComplEx of rank 100 with this many entities: memory and time only

Each way is measured in its own process with one thread. Times are processor times. Memory is the peak above what the process
held before it opened the run (the program, and the graph with its names and known answers).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dura
from dura.config import Experiment
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.models import MODELS
from dura.records import RunFolder
from dura.runs.store import read_graph
from dura.runs.trained import Trained
from dura.sheets.sheet import Plain, Sheet
from dura.tables.packed import Csr, NumberType, Small

WAYS: dict[str, tuple[float | None, NumberType]] = {
    "dense": (None, "float32"),
    "float16": (None, "float16"),
    "int8": (None, "int8"),
    "sparse 0.5": (0.5, "float32"),
    "sparse 0.7": (0.7, "float32"),
    "sparse 0.9": (0.9, "float32"),
    "sparse 0.5, int8": (0.5, "int8"),
    "sparse 0.9, int8": (0.9, "int8"),
}
ALONE = 50
"""Questions asked one at a time."""


def wide(entities: int) -> Trained:
    """An untrained model over many entities."""
    facts = np.stack([np.arange(600), np.zeros(600, int), np.arange(600) * 7 + 1], axis=1).astype(np.int32)
    names = Vocabulary(f"e{i}" for i in range(entities))
    graph = Graph("wide", names, Vocabulary(["r0"]), facts[:500], facts[500:550], facts[550:])
    experiment = Experiment.from_dict({"graph": {"source": "wide"}, "model": {"name": "complex", "rank": 100}})
    torch.manual_seed(0)
    return Trained(MODELS.build("complex", {"rank": 100, "init_scale": 1.0}, graph.sizes), graph, experiment)


def measure(run: Path) -> dict[str, float]:
    """Open the run, ask it and rank its test facts; called in a process of its own."""
    torch.set_num_threads(1)
    for table in (Csr.of(torch.ones(64, 64), "float32"), Small.of(torch.ones(64, 64), "float32")):
        table.product(torch.ones(64, 64))  # what torch loads for its first products is not the run's
    graph = read_graph(RunFolder.open(run))
    assert len(graph.known)  # it is made on its first use
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")  # reset the peak
    before = status("VmRSS:")
    trained = dura.open(run)
    trained.graph = graph
    heads, relation = list(graph.entities)[:ALONE], next(iter(graph.relations))
    began = time.process_time()
    for head in heads:
        trained.predict(head=head, relation=relation, k=10, time=None if graph.times is None else graph.times.span[0])
    alone = (time.process_time() - began) / ALONE
    asked = status("VmHWM:") - before
    done: list[int] = []
    began = time.process_time()
    result = trained.evaluate("test", progress=lambda *counts: done.append(counts[0]))
    together = (time.process_time() - began) / done[-1]
    return {"alone": alone, "together": together, "mrr": result.mrr, "asked": asked, "peak": status("VmHWM:") - before}


def status(key: str) -> int:
    """A line of /proc/self/status in bytes; 0 if there is none."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(key)), 0)


def rows(trained: Trained, name: str) -> list[dict[str, Plain]]:
    found: list[dict[str, Plain]] = []
    with tempfile.TemporaryDirectory() as folder:
        for way, (sparse, dtype) in WAYS.items():
            out = trained.export(Path(folder) / way, sparse=sparse, dtype=dtype)
            done = subprocess.run(
                [sys.executable, __file__, "--measure", out], capture_output=True, text=True, check=True
            )
            measured: dict[str, Any] = json.loads(done.stdout)
            size = sum(file.stat().st_size for file in (out / "checkpoints").glob("best-*"))
            found.append(
                {
                    "run": name,
                    "tables": way,
                    "MB": size / 1e6,
                    "memory to ask, MB": measured["asked"] / 1e6,
                    "to rank, MB": measured["peak"] / 1e6,
                    "ms a question alone": 1e3 * measured["alone"],
                    "when ranking": 1e3 * measured["together"],
                    "test MRR": measured["mrr"],
                }
            )
            print(".", end="", flush=True, file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument(
        "--wide", type=int, metavar="ENTITIES", help="also measure an untrained model with this many entities"
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure)))
        return
    found = [row for run in chosen.runs for row in rows(dura.open(run), run.name)]
    if chosen.wide:
        found += rows(wide(chosen.wide), f"{chosen.wide:,} entities")
    digits = {"MB": 2, "memory to ask, MB": 1, "to rank, MB": 1, "ms a question alone": 2, "when ranking": 3}
    print(Sheet("Small tables", found, digits=digits).markdown())


if __name__ == "__main__":
    main()
