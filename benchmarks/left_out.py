"""Left out: are the defaults good on a graph that had no say in them?

    DURA_DATA=… python benchmarks/left_out.py run umls kinships nations wn18rr --runs runs/left-out
    python benchmarks/left_out.py table

The weight of a short training is made heavier for the long one. By how much is a rule: not at all, the root of the ratio of their
ranks, or that ratio. `run` searches the weight of each graph once and trains it with each rule. `table` then leaves one graph out
at a time: the rule with the best mean valid MRR on the others is taken, and its test MRR on the graph that was left out is compared
with the preset that was tuned for it. A training that has ended is not repeated. Results are added to docs/results/left-out.json.
`--rules root` saves time on a large graph, which then has no say in the rule of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dura
from defaults import PRESETS
from dura.data.graph import Graph
from dura.records import RunFolder, write_atomic
from dura.runs.build import complete
from dura.runs.choices import Choices
from dura.runs.defaults import Outline, fit_to
from dura.runs.presets import preset
from dura.runs.run import resume
from dura.runs.training import best_mrr
from dura.runs.weight import MOST_VALID, climb, heavier, long_weight, part_of_valid, shortened

RULES: dict[str, Callable[[float], float]] = {"same": lambda _: 1.0, "root": math.sqrt, "ratio": lambda ratio: ratio}
"""By how much the long training has a heavier weight, from the ratio of the two ranks."""
OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "left-out.json"


def searched(name: str, graph: Graph, choices: Choices, runs: Path) -> tuple[dict[float, float], float]:
    """Valid MRR of short trainings by weight, and the ratio of the ranks. Searched once."""
    kept = runs / f"{name}.json"
    if not kept.exists():
        experiment = fit_to(choices.experiment(dated=graph.times is not None), Outline.of(graph), choices.chosen)
        short, tried = shortened(experiment, graph), dict[float, float]()
        some = part_of_valid(graph, MOST_VALID, experiment.training.seed)
        more = heavier(experiment, short)
        start = float(str(complete(experiment).regularizer.options["weight"])) / more
        climb(start, lambda weight: best_mrr(short.with_value("regularizer.weight", weight), some, _never), tried)
        write_atomic(kept, json.dumps([list(tried.items()), more**2]).encode())
    found, ratio = json.loads(kept.read_text())
    return dict(found), ratio


def _never() -> bool:
    return False


def trained(name: str, precision: str, runs: Path, rules: list[str]) -> list[dict[str, Any]]:
    """The rows of one graph: one per rule."""
    graph, own = dura.load(name), {"training.precision": precision, "training.threads": 1}
    runs.mkdir(parents=True, exist_ok=True)
    tried, ratio = searched(name, graph, Choices(settings=own), runs)
    rows = []
    for rule in rules:
        run, weight = runs / f"{name}-{rule}", long_weight(tried, RULES[rule](ratio))
        began = time.process_time()
        if not run.exists():
            model = dura.fit(graph, out=run, settings={**own, "regularizer.weight": weight}, progress=False)
        else:
            model = resume(run)
        records = list(RunFolder.open(run).records())
        rows.append(
            {
                "graph": name,
                "rule": rule,
                "weight": weight,
                "rank": model.experiment.model.options["rank"],
                "precision": precision,
                "valid_mrr": round(max(r["valid"]["mrr"] for r in records if "valid" in r), 4),
                "test_mrr": round(model.evaluate("test").mrr, 4),
                "preset": PRESETS[name],
                "preset_mrr": preset(PRESETS[name]).expected["mrr"],
                "minutes": round((time.process_time() - began) / 60, 1),
                "tried": {f"{weight:.2g}": round(mrr, 4) for weight, mrr in sorted(tried.items())},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """One line per graph that is left out: the rule that the others choose, and what it is worth there."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    by = {(row["graph"], row["rule"]): row for row in rows}
    lines = [
        "| left out | chosen by the others | weight | test MRR | tuned preset | difference |",
        "|---|---|---|---|---|---|",
    ]
    for graph in graphs:
        others = [other for other in graphs if other != graph and all((other, rule) in by for rule in RULES)]
        means = {rule: sum(by[other, rule]["valid_mrr"] for other in others) / len(others) for rule in RULES}
        row = by[graph, max(means, key=lambda rule: means[rule])]
        gain = row["test_mrr"] - row["preset_mrr"]
        lines.append(
            f"| {graph} | {row['rule']} | {row['weight']:g} | {row['test_mrr']:.4f} | {row['preset_mrr']:.3f} | {gain:+.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Train the graphs and add their rows to the file, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train graphs with each rule")
    run.add_argument("graphs", nargs="+", choices=sorted(PRESETS))
    run.add_argument("--runs", type=Path, required=True)
    run.add_argument("--rules", nargs="+", choices=list(RULES), default=list(RULES))
    run.add_argument("--precision", default="float32", help="of the products; the same for all rules")
    commands.add_parser("table", help="leave one graph out at a time")
    for each in commands.choices.values():
        each.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text("utf-8")) if given.out.exists() else []
    if given.command == "table":
        print(table(rows))
        return
    for name in given.graphs:
        new = trained(name, given.precision, given.runs, given.rules)
        rows = [row for row in rows if row["graph"] != name] + new
        write_atomic(given.out, (json.dumps(rows, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
