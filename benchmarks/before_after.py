"""Compare two source trees of dura in one run: the pace of training steps and of ranking, turn by turn.

    git worktree add ../before v0.1.0
    python benchmarks/before_after.py ../before/src src --out before-after.json

Each tree runs in a process of its own. A row is measured in rounds: in each round both processes do the same work, one after the
other, in alternating order, while the other one waits. The ratio of a round is the time of the second tree divided by that of the
first. The table shows the median ratio and its quartiles. The graphs must be at hand (DURA_DATA or `dura data get`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

SAMPLED = {"objective.name": "sampled-cross-entropy", "objective.samples": 1024, "objective.draw": "frequency"}
ROWS: dict[str, dict[str, Any]] = {
    "train fb15k-237 complex 200": {"graph": "fb15k-237", "model.rank": 200},
    "train fb15k-237 complex 500": {"graph": "fb15k-237", "model.rank": 500},
    "train fb15k-237 cp 200": {"graph": "fb15k-237", "model.name": "cp", "model.rank": 200},
    "train fb15k-237 rescal 100": {"graph": "fb15k-237", "model.name": "rescal", "model.rank": 100},
    "train wn18rr complex 200": {"graph": "wn18rr", "model.rank": 200},
    "train wn18rr rescal 100": {"graph": "wn18rr", "model.name": "rescal", "model.rank": 100},
    "train fb15k-237 complex 200 n3": {"graph": "fb15k-237", "model.rank": 200, "regularizer.name": "n3"},
    "train fb15k-237 complex 200 sampled": {"graph": "fb15k-237", "model.rank": 200, **SAMPLED},
    "train wn18rr complex 200 sampled": {"graph": "wn18rr", "model.rank": 200, **SAMPLED},
    "train icews14 tcomplex 200": {
        "graph": "icews14", "model.name": "tcomplex", "model.rank": 200, "regularizer.name": "dura1", "smoothness.weight": 0.01
    },
    "rank fb15k-237 complex 200": {"graph": "fb15k-237", "model.rank": 200, "rank": 2000},
    "rank wn18rr complex 200": {"graph": "wn18rr", "model.rank": 200, "rank": 1000},
    "rank icews14 tcomplex 200": {
        "graph": "icews14", "model.name": "tcomplex", "model.rank": 200, "regularizer.name": "dura1", "rank": 2000
    },
    "ask fb15k-237 complex 200": {"graph": "fb15k-237", "model.rank": 200, "ask": 256},
}  # fmt: skip
"""What is measured: settings of version 1, which both trees read; `rank` facts or `ask` questions instead of training."""
SECONDS = 0.4
"""How long the work of a round takes, about."""


def worker() -> None:
    """Read rows and commands from standard input, and answer with seconds."""
    for line in sys.stdin:
        row = json.loads(line)
        try:
            work = prepared(row)
        except Exception as error:  # noqa: BLE001 (the other process must hear of it)
            answer({"error": repr(error)})
            continue
        count = 1
        while True:  # find how much work fills a round
            began = time.perf_counter()
            work(count)
            if time.perf_counter() - began > SECONDS / 2 or count >= 4096:
                break
            count *= 2
        answer({"count": count})
        for command in sys.stdin:
            wanted = json.loads(command)
            if not wanted:
                break
            began = time.perf_counter()
            work(wanted)
            answer({"seconds": time.perf_counter() - began})


def answer(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def prepared(row: dict[str, Any]) -> Callable[[int], object]:
    """The work of a row, with this tree's code; the parts have the same calls in all versions."""
    import numpy as np
    import torch

    import dura
    from dura.config import Experiment
    from dura.evaluation import rank
    from dura.training.trainer import Plan, Trainer

    try:
        from dura.runs.build import build, questions_of
        from dura.runs.trained import Trained
    except ImportError:  # version 0.1.0
        from dura.experiments.parts import build, questions_of  # type: ignore[import-not-found,no-redef]
        from dura.experiments.trained import Trained  # type: ignore[import-not-found,no-redef]

    torch.set_num_threads(row.pop("threads"))
    torch.set_flush_denormal(True)
    graph, facts, questions = dura.load(row.pop("graph")), row.pop("rank", 0), row.pop("ask", 0)
    experiment = Experiment().with_value("optimizer.lr", 0.001)
    for path in sorted(row, key=lambda path: not path.endswith(".name")):
        experiment = experiment.with_value(path, row[path])
    parts = build(experiment, graph.sizes)
    if facts:
        some = graph.asked("test")[:facts]
        return lambda count: [rank(parts.model, some, graph.known, len(graph.relations)) for _ in range(count)]
    if questions:
        trained, names = Trained(parts.model, graph, experiment), graph.entities.names(range(questions))
        asked = [(name, graph.relations.name(0), None) for name in names]
        return lambda count: [trained.predict_many(asked) for _ in range(count)]
    every = questions_of(experiment, graph)
    trainer = Trainer(parts.model, parts.objective, parts.regularizer, parts.optimizer, every, Plan(batch=500))
    batches = [every.take(np.random.default_rng(i).permutation(len(every))[:500]) for i in range(8)]
    at = 0

    def steps(count: int) -> None:
        nonlocal at
        for _ in range(count):
            trainer.step(batches[at % len(batches)])
            at += 1

    return steps


class Tree:
    """A process that runs one source tree."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
        command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, message: object, wait: bool = True) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline()) if wait else {}
        if "error" in found:
            raise SystemExit(f"{message}: {found['error']}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return
    if arguments.after is None:
        parser.error("name two source folders")
    trees, found = (Tree(arguments.before), Tree(arguments.after)), {}
    for name, row in ROWS.items():
        if arguments.only not in name:
            continue
        count = min(tree.ask({**row, "threads": arguments.threads})["count"] for tree in trees)
        seconds: list[tuple[float, float]] = []
        for turn in range(arguments.rounds):
            order = trees if turn % 2 == 0 else trees[::-1]
            took = {tree: tree.ask(count)["seconds"] for tree in order}
            seconds.append((took[trees[0]], took[trees[1]]))
        for tree in trees:
            tree.ask(0, wait=False)
        ratios = [after / before for before, after in seconds]
        low, _, high = quantiles(ratios, n=4)
        found[name] = {"ratio": median(ratios), "quartiles": [low, high], "count": count, "seconds": seconds}
        print(f"{name:40s} {median(ratios):6.3f}   [{low:.3f}, {high:.3f}]   {count} per round", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"threads": arguments.threads, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
