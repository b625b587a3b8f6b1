"""Index: recall and speed of approximate answers next to exact ones, as the number of entities grows.

    python benchmarks/index.py runs/wn --out docs/results

The tables are those of a trained run, grown to the wanted number of entities: each further row lies between a trained row and one
of its ten nearest rows, with a tenth of noise. So rows have the clusters and lengths that training makes, which independent random
numbers would not have. Questions are those of the run's training facts: trained heads, moved by trained relations. Every question
is asked for its ten best answers, in blocks of 64 as `predict` asks, with one thread. Times are those of the processor.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

import dura
from dura.inference.nearest import Links, Nearest, recall
from dura.runs.indexing import sample_questions
from dura.runs.trained import Trained
from dura.tables import Table
from measure import show, write

Row = dict[str, Any]
Floats = NDArray[np.float32]
TOP, BLOCK, NEAR, NOISE = 10, 64, 10, 0.1


def grown(rows: Floats, count: int) -> Floats:
    """The rows and further ones between neighbours."""
    if count <= len(rows):
        return rows[:count]
    rng, flat = np.random.default_rng(0), faiss.IndexFlatL2(rows.shape[1])
    flat.add(rows)
    base = rng.integers(len(rows), size=count - len(rows))
    some = np.unique(base)
    neighbours = np.zeros((len(rows), NEAR), dtype=np.int64)
    neighbours[some] = flat.search(rows[some], NEAR + 1)[1][:, 1:]
    size, parts = NOISE * float(rows.std()), [rows]
    for at in range(0, len(base), 50_000):
        mine = base[at : at + 50_000]
        other = neighbours[mine, rng.integers(NEAR, size=len(mine))]
        share = rng.random((len(mine), 1), dtype=np.float32)
        noise = rng.standard_normal((len(mine), rows.shape[1]), dtype=np.float32)
        parts.append(share * rows[mine] + (1 - share) * rows[other] + size * noise)
    return np.concatenate(parts)


def asked(work: Callable[[torch.Tensor], list[list[int]]], query: torch.Tensor) -> tuple[list[list[int]], float]:
    """The answers to all queries, and the processor's milliseconds per query."""
    work(query[:BLOCK])  # the first call allocates
    began, found = time.process_time(), list[list[int]]()
    for at in range(0, len(query), BLOCK):
        found += work(query[at : at + BLOCK])
    return found, 1000 * (time.process_time() - began) / len(query)


def own(trained: Trained, rows: Floats, query: torch.Tensor, exact: list[list[int]]) -> list[Row]:
    """faiss, a graph of neighbours: as `dura index` builds it."""
    trained.model.entity = Table(torch.from_numpy(rows))
    began = time.process_time()
    index = Nearest(trained.model, Links.of(rows, "dot"), TOP)
    built, found = time.process_time() - began, list[Row]()
    for effort in (16, 64, 256, 1024):
        index.effort = effort
        answers, spent = asked(lambda part: index.search(part, TOP).tolist(), query)
        found.append({"setting": f"effort {effort}", "recall": recall(exact, answers), "ms": spent, "build_s": built})
    return found


def lists(rows: Floats, query: torch.Tensor, exact: list[list[int]]) -> list[Row]:
    """faiss, lists of similar rows."""
    began, count = time.process_time(), round(2 * len(rows) ** 0.5)
    means = faiss.Kmeans(rows.shape[1], count, niter=10, seed=0, max_points_per_centroid=64)
    means.train(rows)
    centres = faiss.IndexFlatIP(rows.shape[1])
    centres.add(np.asarray(means.centroids))
    index = faiss.IndexIVFFlat(centres, rows.shape[1], count, faiss.METRIC_INNER_PRODUCT)
    place = means.index.search(rows, 1)[1][:, 0].astype(np.int64)
    index.is_trained = True
    index.add_core(len(rows), faiss.swig_ptr(rows), None, faiss.swig_ptr(place))
    built, found = time.process_time() - began, list[Row]()
    for probes in (4, 16, 64, 256):
        index.nprobe = probes
        answers, spent = asked(lambda part: index.search(part.numpy(), TOP)[1].tolist(), query)
        found.append({"setting": f"probes {probes}", "recall": recall(exact, answers), "ms": spent, "build_s": built})
    return found


def hnsw(rows: Floats, query: torch.Tensor, exact: list[list[int]]) -> list[Row]:
    """usearch, a graph of neighbours."""
    from usearch.index import Index

    began = time.process_time()
    index = Index(ndim=rows.shape[1], metric="ip", dtype="f32", connectivity=16, expansion_add=64)
    index.add(np.arange(len(rows)), rows, threads=1)
    built, found = time.process_time() - began, list[Row]()
    for width in (64, 256, 1024):
        index.expansion_search = width
        answers, spent = asked(
            lambda part: index.search(part.numpy(), TOP, threads=1).keys.reshape(len(part), -1).tolist(), query
        )
        found.append({"setting": f"width {width}", "recall": recall(exact, answers), "ms": spent, "build_s": built})
    return found


def measure(trained: Trained, entities: int, libraries: list[str]) -> list[Row]:
    """Exact answers and those of each library for one size."""
    table = trained.model.target_table
    assert table is not None
    rows = grown(np.ascontiguousarray(dura_rows(trained)), entities)
    head, relation, moment = sample_questions(trained.graph)
    with trained.model.answering():
        query = trained.model.query(head, relation, moment)
    every = torch.from_numpy(rows)
    exact, spent = asked(lambda part: trained.model.compare(part, every).topk(TOP, dim=1).indices.tolist(), query)
    _, single = one_by_one(lambda part: trained.model.compare(part, every).topk(TOP, dim=1).indices.tolist(), query)
    found: list[Row] = [
        {"library": "exact", "setting": "", "recall": 1.0, "ms": spent, "build_s": 0.0, "single_ms": single}
    ]
    kept = trained.model.entity
    with torch.no_grad():
        found += [{"library": "faiss, links", **row} for row in own(trained, rows, query, exact)]
    trained.model.entity = kept
    if "lists" in libraries:
        found += [{"library": "faiss, lists", **row} for row in lists(rows, query, exact)]
    if "usearch" in libraries:
        found += [{"library": "usearch, links", **row} for row in hnsw(rows, query, exact)]
    gc.collect()
    return [{"entities": entities, **row, "speedup": spent / row["ms"]} for row in found]


def one_by_one(work: Callable[[torch.Tensor], list[list[int]]], query: torch.Tensor) -> tuple[list[list[int]], float]:
    """The same for single questions, a few of them."""
    began = time.process_time()
    found = [work(query[at : at + 1])[0] for at in range(16)]
    return found, 1000 * (time.process_time() - began) / 16


def dura_rows(trained: Trained) -> Floats:
    """The trained rows of the entities."""
    rows: Floats = trained.model.state()["entity"].numpy().astype(np.float32)
    return rows


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run of a model that scores by inner products, such as ComplEx")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--all-up-to", type=int, default=100_000, help="other indexes are not built for more entities")
    options = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    trained, rows = dura.open(options.run), list[Row]()
    for size in options.sizes:
        rows += measure(trained, size, ["lists", "usearch"] if size <= options.all_up_to else [])
        show(f"{size:,} entities", [row for row in rows if row["entities"] == size])
        width = int(trained.model.state()["entity"].shape[1])
        write(options.out / "index.json", {"width": width, "model": trained.experiment.model.name, "rows": rows})


if __name__ == "__main__":
    main()
