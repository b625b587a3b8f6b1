"""How near a sampled training step comes to its bare matrix products, phase by phase, with one thread and with two.

    python benchmarks/sampled_step.py
    python benchmarks/sampled_step.py --before ../before/src --out docs/results/sampled-step.json

FB15k-237 with DURA and 1,024 entities drawn by frequency. The products are the three of a step over these shapes: the scores, and
from them the gradients of the queries and of the sampled rows. They and the steps take turns in one process. With one thread all
times are processor times, so that other work on the machine counts less; it still takes its part of the caches. The share is that
of the best turns, and in brackets the median over the turns. `--before` names the sources of another version, which runs in a
process of its own: the two take turns, too. With `--pairs 20` two threads are compared with one by the clock, which needs an idle
machine: the load is printed. Phases are measured apart, since looking at the clock takes time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROWS = {
    "complex 200, 250 questions": {"model": "complex", "rank": 200, "batch": 250},
    "complex 200, 1000 questions": {"model": "complex", "rank": 200, "batch": 1000},
    "complex 1000, 250 questions": {"model": "complex", "rank": 1000, "batch": 250},
    "cp 200, 250 questions": {"model": "cp", "rank": 200, "batch": 250},
    "rescal 100, 250 questions": {"model": "rescal", "rank": 100, "batch": 250},
}
SAMPLES, BATCHES, STEPS = 1024, 16, 4
"""Entities drawn, different batches, and steps (and products) per turn."""
PHASES = {
    "gather": "tables.table:_Read.forward objectives.terms:_Targets.some",
    "query": "models.families:ComplexDiagonal.apply models.families:Diagonal.apply models.families:_Grouped.forward "
    "models.families:_Grouped.backward",
    "scores": "models.comparators.products:Dot.scores",
    "facts": "objectives.candidates:_answered models.comparators.products:Dot.pairs models.comparators.products:Dot.pull_pairs",
    "softmax": "objectives.losses:Softmax.over_sample",
    "pull": "models.comparators.products:Dot.pull",
    "regularizer": "regularizers.forms:Regularizer.__call__ models.families:_ScaledSquares.backward "
    "regularizers.forms:_Squares.backward",
    "scatter": "tables.table:Table.add_rows tables.table:Table.gradient_of tables.table:Table.used tables.table:Table.forget",
    "optimizer": "training.optimizers:RowAdagrad.step",
    "draw": "objectives.candidates:Sample.drawn objectives.candidates:_hits objectives.candidates:_distinct",
    "backward": "torch:Tensor.backward",
}
"""The functions of each phase, without what they call of another phase. What is left of a step is its "rest"."""


class Clock:
    """Time spent in each phase, without that of phases inside of it."""

    def __init__(self) -> None:
        self.spent, self.running, self.since = Counter[str](), ["rest"], time.process_time()

    def turn(self, phase: str | None) -> None:
        """Enter a phase, or leave the last one."""
        now = time.process_time()
        self.spent[self.running[-1]] += now - self.since  # type: ignore[assignment]
        self.since = now
        self.running.append(phase) if phase else self.running.pop()

    def watch(self, phase: str, where: str) -> None:
        """Count a function towards a phase, if this version has it."""
        module, _, path = where.partition(":")
        owner: Any = importlib.import_module(module if module == "torch" else f"dura.{module}")
        *classes, name = path.split(".")
        for one in classes:
            owner = getattr(owner, one, None)
        found = vars(owner).get(name) if owner is not None else None
        if found is None:
            return
        inner = found.__func__ if isinstance(found, staticmethod) else found

        def timed(*arguments: Any, **options: Any) -> Any:
            self.turn(phase)
            try:
                return inner(*arguments, **options)
            finally:
                self.turn(None)

        setattr(owner, name, staticmethod(timed) if isinstance(found, staticmethod) else timed)


def prepared(row: dict[str, Any]) -> tuple[Callable[[], None], Callable[[], None]]:
    """The products of a turn, and its steps."""
    import numpy as np
    import torch

    import dura
    from dura.config import Experiment
    from dura.runs.build import build, questions_of
    from dura.training.trainer import Plan, Trainer

    graph, batch = dura.load("fb15k-237"), row["batch"]
    settings = {
        "model.name": row["model"],
        "model.rank": row["rank"],
        "optimizer.lr": 0.001,
        "candidates.name": "sample",
    }
    settings |= {"candidates.samples": SAMPLES, "candidates.draw": "frequency"}
    experiment = Experiment()
    for path, value in settings.items():
        experiment = experiment.with_value(path, value)
    parts, every = build(experiment, graph.sizes), questions_of(experiment, graph)
    trainer = Trainer(parts.model, parts.objective, parts.regularizer, parts.optimizer, every, Plan(batch=batch))
    parts.objective.begin(0, 100)
    batches = [every.take(np.random.default_rng(i).permutation(len(every))[:batch]) for i in range(BATCHES)]
    width, at = row["rank"] * (2 if row["model"] == "complex" else 1), 0
    query, rows, scores = torch.randn(batch, width), torch.randn(SAMPLES, width), torch.empty(batch, SAMPLES)
    back, gradient = torch.empty_like(query), torch.empty_like(rows)

    def products() -> None:
        for _ in range(STEPS):
            torch.mm(query, rows.mT, out=scores)
            torch.mm(scores, rows, out=back)
            torch.mm(scores.mT, query, out=gradient)

    def steps() -> None:
        nonlocal at
        for _ in range(STEPS):
            trainer.step(batches[at % BATCHES])
            at += 1

    return products, steps


def worker() -> None:
    """Read commands from standard input: a row to prepare, a number of threads to take a turn with, or phases to measure."""
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    products: Callable[[], None]
    steps: Callable[[], None]
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, dict):
            products, steps = prepared(order)
            products()
            steps()
            said: Any = "ready"
        elif order == "phases":
            torch.set_num_threads(1)
            said = phases(steps)
        else:
            torch.set_num_threads(order)
            now = time.process_time if order == 1 else time.perf_counter
            said = [timed(products, now), timed(steps, now), timed(steps, time.perf_counter)]
        print(json.dumps(said), flush=True)


def timed(work: Callable[[], None], now: Callable[[], float]) -> float:
    """Milliseconds per step."""
    began = now()
    work()
    return 1e3 * (now() - began) / STEPS


def phases(steps: Callable[[], None]) -> dict[str, float]:
    """The share of a step that each phase takes. The functions stay watched, so this comes last."""
    clock = Clock()
    for phase, places in PHASES.items():
        for where in places.split():
            clock.watch(phase, where)
    found: dict[str, list[float]] = {}
    for _ in range(40):
        clock.spent.clear()
        clock.since = time.process_time()
        steps()
        clock.turn("rest")
        clock.running = ["rest"]
        total = sum(clock.spent.values())
        for phase in (*PHASES, "rest"):
            found.setdefault(phase, []).append(clock.spent[phase] / total)
    middle = {phase: median(shares) for phase, shares in found.items()}
    return {phase: share / sum(middle.values()) for phase, share in middle.items()}


class Tree:
    """A process that runs one source tree."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
        command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, message: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(row: dict[str, Any], sources: dict[str, Path], turns: int, pairs: int) -> dict[str, Any]:
    """The figures of each tree for one row."""
    trees = {name: Tree(source) for name, source in sources.items()}
    for tree in trees.values():
        tree.ask(row)
    one: dict[str, list[list[float]]] = {name: [] for name in trees}
    two: dict[str, list[list[float]]] = {name: [] for name in trees}
    load = os.getloadavg()[0]
    for turn in range(max(turns, pairs)):
        for name, tree in trees.items():
            if turn < turns:
                one[name].append(tree.ask(1))
            if turn < pairs:  # a turn of each right after the other
                two[name].append([tree.ask(1)[2], tree.ask(2)[2]])
    found = {}
    for name, tree in trees.items():
        products, steps, _ = (list(column) for column in zip(*one[name], strict=True))
        found[name] = {
            "products, ms": [min(products), median(products)],
            "step, ms": [min(steps), median(steps)],
            "share": [min(products) / min(steps), median(p / s for p, s in zip(products, steps, strict=True))],
            "load": load,
        }
        if pairs:
            alone, both = (list(column) for column in zip(*two[name], strict=True))
            ratios = [a / b for a, b in two[name]]
            found[name]["two threads, times as fast"] = [min(alone) / min(both), median(ratios)]
        found[name]["phases"] = tree.ask("phases")
        tree.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the sources of a version to compare with")
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--pairs", type=int, default=0, help="turns that compare two threads with one")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        worker()
        return
    sources = ({"before": chosen.before} if chosen.before else {}) | {"now": chosen.source}
    found: dict[str, Any] = {}
    for name, row in ROWS.items():
        if chosen.only not in name:
            continue
        found[name] = measured(row, sources, chosen.turns, chosen.pairs)
        for version, figures in found[name].items():
            (best, usual), (low, _) = figures["share"], figures["step, ms"]
            twice = figures.get("two threads, times as fast")
            twice = f"  two threads × {twice[0]:.2f} ({twice[1]:.2f})" if twice else ""
            parts = ", ".join(
                f"{phase} {100 * share:.0f}" for phase, share in figures["phases"].items() if share >= 0.005
            )
            print(f"{name:28s} {version:8s} {low:6.2f} ms  {100 * best:3.0f} % ({100 * usual:.0f}){twice}")
            print(f"    load {figures['load']:.1f}, % of the step: {parts}", flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps({"samples": SAMPLES, "turns": chosen.turns, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
