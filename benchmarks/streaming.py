"""How fast files of questions and facts are answered and scored, and how much memory it takes.

    python benchmarks/streaming.py RUN --lines 20000 --out streaming.json

It asks (head, relation, ?) for test facts of the graph, over and over, writes the answers to each format, and scores the facts.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

import dura
from dura.data.exporting import facts_frame


def peak() -> float:
    """The most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = dura.open(given.run)
    facts = facts_frame(model.graph, model.graph.test[:, :3])
    facts = pl.concat([facts] * (given.lines // len(facts) + 1)).head(given.lines)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        facts.drop("tail").write_csv(home / "questions.csv")
        facts.write_csv(home / "facts.csv")
        (home / "few.csv").write_text("\n".join((home / "questions.csv").read_text().splitlines()[:1001]))
        model.predict_file(home / "few.csv", home / "few.jsonl")
        before = peak()
        for work, source in (("predict", "questions.csv"), ("score", "facts.csv")):
            for ending in ("csv", "jsonl", "parquet"):
                start, cpu = time.perf_counter(), time.process_time()
                getattr(model, f"{work}_file")(home / source, home / f"{work}.{ending}")
                seconds, used = time.perf_counter() - start, time.process_time() - cpu
                row = {"work": work, "format": ending, "lines": given.lines, "seconds": round(seconds, 1)}
                found.append(row | {"cpu_seconds": round(used, 1), "more_mb": round(peak() - before, 1)})
                print(found[-1])
    if given.out:
        given.out.write_text(
            json.dumps({"run": Path(given.run).name, "graph": model.graph.name, "rows": found}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
