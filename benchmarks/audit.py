"""Audit: how many of the errors that were planted into a graph are among its least plausible facts.

    python benchmarks/audit.py run fb15k-237 --epochs 6 --seed 1 --out work/fb15k-237-1
    python benchmarks/audit.py run wn18rr --epochs 8 --seed 1 --out work/wn18rr-1
    python benchmarks/audit.py table work/fb15k-237-1 work/wn18rr-1 --out docs/results/audit.json

`run` adds errors to the training facts, one for a hundred: the head and the relation of a random fact with another tail that
training facts have with this relation. None of them is a fact of the graph. A model is then trained on all of it, and an audit is
made of it. `table` counts how many of the k least plausible facts are errors: by the score of the model that was trained on all
facts (plain), by the same judgement as in the audit but from that model (seen), and by the audit. Chance is the share of errors
among all facts.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dura
from dura.data.graph import Graph
from dura.inference import score_facts
from dura.inference.judge import Judged, judge
from dura.runs.api import choose
from dura.runs.audit import Plan, cross_fitted, degrees
from dura.runs.work import train_or_resume
from dura.types import FloatArray, IntArray

SHARE = 0.01
SETTINGS: dict[str, dict[str, Any]] = {
    "fb15k-237": {"candidates.name": "sample", "candidates.samples": 256, "candidates.draw": "frequency"},
    "wn18rr": {"candidates.samples": 256},
}
"""Settings that two cores can afford, on top of the preset complex-dura-laptop and rank 50."""


def planted(graph: Graph, share: float, seed: int) -> IntArray:
    """Errors [n, 3]: true heads and relations with another tail of the same relation, which are not known in any split."""
    rng = np.random.default_rng(seed)
    tails = {r: np.unique(graph.train[graph.train[:, 1] == r, 2]) for r in np.unique(graph.train[:, 1])}
    found: list[tuple[int, int, int]] = []
    for at in rng.permutation(len(graph.train)):
        if len(found) == round(share * len(graph.train)):
            break
        h, r, _ = graph.train[at].tolist()
        t = int(rng.choice(tails[r]))
        if t not in graph.known.known(np.array([h]), np.array([r])).answers:
            found.append((h, r, t))
    return np.unique(np.array(found, dtype=graph.train.dtype), axis=0)


def run(name: str, out: Path, epochs: int, seed: int, pairs: bool) -> None:
    """Plant errors, train on all facts, make an audit, and keep what both make of every fact."""
    graph = dura.load(name)
    errors = planted(graph, SHARE, seed)
    dirty = replace(graph, train=np.concatenate([graph.train, errors]), name=f"{name}+errors")
    settings = {"model.rank": 50, **SETTINGS[name], "training.epochs": epochs, "training.anneal": epochs // 2}
    experiment = choose(f"{name}/complex-dura-laptop", settings=settings)
    began, none = time.time(), dirty.train[:0]
    trained = train_or_resume(experiment, out / "all", replace(dirty, valid=none, test=none))
    trained_in = time.time() - began
    seen = judge(trained.model, dirty.train, dirty.known, len(dirty.relations))
    plain = score_facts(trained.model, *torch.from_numpy(dirty.train.astype(np.int64)).unbind(1)).double().numpy()
    began = time.time()
    fold, judged = cross_fitted(
        experiment,
        dirty,
        Plan(5, epochs, seed, pairs),
        out / ("audit-pairs" if pairs else "audit"),
        progress=lambda done, every: print(f"{name}: {done} of {every} folds", flush=True),
    )
    np.savez(
        out / ("pairs.npz" if pairs else "judged.npz"),
        error=np.arange(len(dirty.train)) >= len(graph.train),
        fold=fold,
        share=judged.share,
        rank=judged.rank,
        all_share=seen.share,
        all_rank=seen.rank,
        plain=plain,
        seconds=np.array([trained_in, time.time() - began]),
        facts=dirty.train,
    )


def precision(value: FloatArray, error: IntArray, ks: tuple[int, ...]) -> dict[str, float]:
    """The share of errors among the facts with the k lowest values; facts that were not judged come last."""
    order = np.argsort(np.where(np.isfinite(value), value, np.inf), kind="stable")
    return {str(k): round(float(error[order[:k]].mean()), 4) for k in ks}


def row(path: Path) -> dict[str, Any]:
    """What a run found."""
    kept = np.load(path / "judged.npz" if path.is_dir() else path)
    facts, fold, error = kept["facts"], kept["fold"], kept["error"]
    known = np.bincount(facts[:, [0, 2]].ravel(), minlength=int(facts[:, [0, 2]].max()) + 1)[facts[:, [0, 2]]]
    ks = (100, 500, int(error.sum()))
    return {
        "run": path.name if path.is_dir() else f"{path.parent.name}/{path.stem}",
        "facts": len(facts),
        "errors": int(error.sum()),
        "not_judged": int((fold < 0).sum()),
        "errors_not_judged": int((error & (fold < 0)).sum()),
        "seconds_training": round(float(kept["seconds"][0])),
        "seconds_audit": round(float(kept["seconds"][1])),
        "chance": round(float(error.mean()), 4),
        "plain": precision(kept["plain"], error, ks),
        "seen": precision(Judged(kept["all_share"], kept["all_rank"]).plausibility(facts[:, 1], known), error, ks),
        "audit": precision(
            Judged(kept["share"], kept["rank"]).plausibility(facts[:, 1], degrees(facts, fold)), error, ks
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("name", choices=list(SETTINGS))
    one.add_argument("--epochs", type=int, required=True)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--pairs", action="store_true")
    many = commands.add_parser("table")
    many.add_argument("paths", nargs="+", type=Path)
    for command in (one, many):
        command.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "run":
        run(given.name, given.out, given.epochs, given.seed, given.pairs)
    else:
        given.out.write_text(json.dumps([row(path) for path in given.paths], indent=1) + "\n")
