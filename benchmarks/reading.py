"""How fast files become rows and ids: lines per second and peak memory, each file in a process of its own.

python benchmarks/reading.py                  a million facts in each format
python benchmarks/reading.py --scale 0.01     a quick trial
python benchmarks/reading.py --only nt ttl --out reading.json

Sources are read to a sheet, and what dura.load reads also to ids. The memory is what the process holds at most above what
it held before it read, so libraries are not counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dura.data import Graph
from dura.data.opening import endings
from dura.data.readers import READERS as KNOWN
from dura.types import SPLITS
from measure import peak

FACTS, ENTITIES, RELATIONS = 1_000_000, 100_000, 200
BASE = "http://example.org"
READERS = {
    "tsv": "separated.read_tsv",
    "csv": "separated.read_csv",
    "parquet": "sources.columnar.read_parquet",
    "arrow": "sources.columnar.read_arrow",
    "jsonl": "sources.jsonl.read_jsonl",
    "nt": "sources.rdf.read_ntriples",
    "nt.gz": "sources.rdf.read_ntriples",
    "nq": "sources.rdf.read_nquads",
    "ttl": "sources.rdf.read_turtle",
    "trig": "sources.rdf.read_trig",
    "rdf": "sources.rdf.read_xml",
    "neo4j": "sources.neo4j.load",
    "openke": "sources.openke.load",
}
"""Ending, or name of a folder -> module and function."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="the number of facts, in millions")
    parser.add_argument("--only", nargs="+", choices=list(READERS), default=list(READERS))
    parser.add_argument("--out", type=Path, help="write the results to this JSON file too")
    parser.add_argument("--child", nargs=3, metavar=("KIND", "PATH", "WORK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    rows = list(measured(max(100, int(options.scale * FACTS)), options.only))
    result = json.dumps({"facts": max(100, int(options.scale * FACTS)), "rows": rows}, indent=1)
    if options.out:
        options.out.write_text(result + "\n")
    print(result)


def measured(count: int, kinds: list[str]) -> Iterator[dict[str, Any]]:
    facts = drawn(count)
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            path = write(facts, kind, Path(folder))
            for work in ("sheet", "ids") if endings(path)[0] in KNOWN else ("sheet",):
                order = [sys.executable, __file__, "--child", kind, str(path), work]
                done = subprocess.run(order, stdout=subprocess.PIPE, check=True)
                row = json.loads(done.stdout)
                assert row["facts"] > 0.999 * count, row  # a graph drops a fact that was drawn twice
                yield {"kind": kind, "work": work, "lines_per_second": round(count / row["seconds"]), **row}


def child(kind: str, path: str, work: str) -> dict[str, Any]:
    """Read a file in this process."""
    read = reader(kind, work)
    before = peak()
    wall, processor = time.perf_counter(), time.process_time()
    facts = read(Path(path))
    seconds, busy = time.perf_counter() - wall, time.process_time() - processor
    more = peak() - before
    return {
        "facts": facts,
        "seconds": round(seconds, 3),
        "processor_seconds": round(busy, 3),
        "peak_mb": round(more / 2**20),
    }


def reader(kind: str, work: str) -> Callable[[Path], int]:
    """What reads a file and returns how many facts it holds; everything that it needs is imported."""
    from dura.data.loading import load
    from dura.data.readers import ReadOptions

    if work == "ids":
        return lambda path: facts_of(load(path))
    module, function = READERS[kind].rsplit(".", 1)
    read = getattr(import_module(f"dura.data.{module}"), function)
    if "rdf" in module:
        import_module("pyoxigraph")

    def count(path: Path) -> int:
        found = read(path, ReadOptions())
        return sum(map(len, found.sheets.values())) if hasattr(found, "sheets") else len(found)

    return count


def facts_of(graph: Graph) -> int:
    return sum(len(graph.facts(split)) for split in SPLITS)


# -- files ------------------------------------------------------------------------------------------------------------


def drawn(count: int) -> pl.DataFrame:
    random = np.random.default_rng(0)
    numbers = {
        name: random.integers(0, most, count) for name, most in zip("hrt", (ENTITIES, RELATIONS, ENTITIES), strict=True)
    }
    return pl.DataFrame(numbers).with_columns(
        head=pl.format("E{}", "h"), relation=pl.format("R{}", "r"), tail=pl.format("E{}", "t")
    )


def write(facts: pl.DataFrame, kind: str, folder: Path) -> Path:
    """Write the facts in a format. Returns the file, or the folder."""
    path = folder / f"facts.{kind}"
    named = facts.select("head", "relation", "tail")
    if kind in ("tsv", "csv"):
        named.write_csv(path, separator="\t" if kind == "tsv" else ",")
    elif kind == "parquet":
        named.write_parquet(path)
    elif kind == "arrow":
        named.write_ipc(path, compression="lz4")
    elif kind == "jsonl":
        named.write_ndjson(path)
    elif kind in ("neo4j", "openke"):
        path.mkdir()
        (write_neo4j if kind == "neo4j" else write_openke)(facts, path)
    else:
        write_rdf(facts, kind, path)
    return path


def write_rdf(facts: pl.DataFrame, kind: str, path: Path) -> None:
    full = f"<{BASE}/e/{{}}> <{BASE}/r/{{}}> <{BASE}/e/{{}}> "
    form, start, end = {
        "nq": (full + f"<{BASE}/g> .", "", ""),
        "ttl": ("e:{} r:{} e:{} .", f"@prefix e: <{BASE}/e/> .\n@prefix r: <{BASE}/r/> .\n", ""),
        "trig": ("e:{} r:{} e:{} .", f"@prefix e: <{BASE}/e/> .\n@prefix r: <{BASE}/r/> .\n", ""),
        "rdf": (
            f'<rdf:Description rdf:about="{BASE}/e/{{}}"><r:{{}} rdf:resource="{BASE}/e/{{}}"/></rdf:Description>',
            f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:r="{BASE}/r/">\n',
            "</rdf:RDF>\n",
        ),
    }.get(kind, (full + ".", "", ""))
    lines = facts.select(pl.format(form, "head", "relation", "tail")).to_series()
    data = (start + "\n".join(lines) + "\n" + end).encode()
    path.write_bytes(gzip.compress(data, 1) if kind.endswith(".gz") else data)


def write_neo4j(facts: pl.DataFrame, folder: Path) -> None:
    titles = {"head": ":START_ID", "relation": ":TYPE", "tail": ":END_ID"}
    facts.select(pl.col(name).alias(title) for name, title in titles.items()).write_csv(folder / "facts.csv")
    names = pl.concat([facts["head"], facts["tail"]]).unique(maintain_order=True)
    nodes = pl.DataFrame({"id:ID": names, "name": "entity " + names})
    nodes.with_columns(pl.lit("Thing").alias(":LABEL")).write_csv(folder / "nodes.csv")


def write_openke(facts: pl.DataFrame, folder: Path) -> None:
    lines = facts.select(pl.format("{} {} {}", "h", "t", "r")).to_series()
    names = {"train2id": lines}
    for name, letter, most in (("entity2id", "E", ENTITIES), ("relation2id", "R", RELATIONS)):
        names[name] = pl.Series([f"{letter}{at}\t{at}" for at in range(most)])
    for name, column in names.items():
        (folder / f"{name}.txt").write_text(f"{len(column)}\n" + "\n".join(column) + "\n")


if __name__ == "__main__":
    main()
