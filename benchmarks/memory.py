"""Memory of `dura serve` by entities, facts and rank: made graphs, untrained ComplEx, sixty questions and sixty searches.

python benchmarks/memory.py --out docs/results/serve-memory.json
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import torch

import dura
from dura.config import Experiment
from dura.data.synthesis import synth
from dura.models import MODELS
from dura.runs.trained import Trained

SIZES = ((10_000, 100_000, 100), (100_000, 1_000_000, 100), (100_000, 1_000_000, 200), (300_000, 3_000_000, 100))
"""Entities, facts and rank."""


def status(pid: int, key: str) -> int:
    """A value of /proc/PID/status in bytes."""
    found = re.search(rf"^{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found
    return int(found[1]) * 1024


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def unshared(pid: int) -> int:
    """PSS: what a process has for itself, and its part of what it shares."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    assert found
    return int(found[1]) * 1024


def served(run: Path, names: list[str], relation: str, workers: int) -> dict[str, int]:
    """Peak memory of the largest process, and the sum of what all processes have for themselves or share."""
    command = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--workers", str(workers), "-q"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr
            address = next(line for line in service.stderr if " at http" in line).split(" at ")[1].split()[0]
            for at in range(60):
                name = names[at % len(names)]
                urlopen(f"{address}/predict?{urlencode({'head': name, 'relation': relation, 'k': 10})}").close()
                urlopen(f"{address}/entities?{urlencode({'query': name[:4]})}").close()
            own = children(service.pid) if workers > 1 else [service.pid]
            return {"peak": max(status(pid, "VmHWM") for pid in own), "pss": sum(map(unshared, own))}
        finally:
            service.terminate()


def made(home: Path, entities: int, facts: int, rank: int) -> Trained:
    """An untrained model over a made graph. Training would change the numbers in the tables, not their size."""
    synth(home / "graph", entities=entities, facts=facts, relations=40)
    graph = dura.load(home / "graph")
    experiment = Experiment.from_dict({"graph": {"source": "made"}, "model": {"name": "complex", "rank": rank}})
    torch.manual_seed(0)
    return Trained(MODELS.build("complex", {"rank": rank}, graph.sizes), graph, experiment)


def measured(home: Path, entities: int, facts: int, rank: int) -> dict[str, Any]:
    trained, run = made(home, entities, facts, rank), home / "run"
    trained.save(run)
    tables = sum(parameter.numel() * parameter.element_size() for parameter in trained.model.parameters())
    names, relation = [trained.graph.entities.name(i) for i in range(10)], trained.graph.relations.name(0)
    del trained
    row = {"entities": entities, "facts": facts, "rank": rank, "tables": tables}
    row["folder"] = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    return row | {f"workers {n}": served(run, names, relation, n) for n in (1, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    rows = []
    for entities, facts, rank in SIZES:
        with tempfile.TemporaryDirectory() as home:
            rows.append(measured(Path(home), entities, facts, rank))
        print(json.dumps(rows[-1]), flush=True)
        out.write_text(json.dumps({"command": "python benchmarks/memory.py", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
