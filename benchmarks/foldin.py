"""Fold-in: how well rows of unseen entities answer, compared with full retraining and with random rows, and how long it takes.

    DURA_DATA=… python benchmarks/foldin.py --runs runs/foldin --out docs/results

A share of the entities is taken out of FB15k-237 and WN18RR with all their facts. A model is trained without them. Then they are
folded in with 80 % of their facts, and the other 20 % are ranked, from both sides, among all entities. The model that is trained
again has seen the same 80 %. Seconds are those of one processor, so that they do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dura
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.evaluation import evaluate
from dura.models import adopt
from dura.records import RunFolder
from dura.runs.build import blank_model
from dura.runs.folding import fold_in
from dura.runs.trained import Trained
from dura.types import SPLITS, IntArray
from measure import write

Row = dict[str, Any]
SHARE, GIVEN, SEED = 0.05, 0.8, 0
SETTINGS: dict[str, dict[str, Any]] = {
    "fb15k-237": {
        "preset": "fb15k-237/complex-dura-laptop",
        "rank": 64,
        "epochs": 24,
        "batch": 500,
        "settings": {
            "training.anneal": 8,
            "training.validate_every": 24,
            "candidates.name": "sample",
            "candidates.samples": 512,
            "candidates.draw": "frequency",
        },
    },
    "wn18rr": {
        "preset": "wn18rr/complex-dura-laptop",
        "rank": 100,
        "epochs": 16,
        "settings": {"training.anneal": 8},
    },
}
"""The presets for a laptop, with a smaller rank, fewer epochs and (FB15k-237) sampled candidates: two shared cores must do."""


def parted(graph: Graph) -> tuple[Graph, IntArray, Graph]:
    """The graph without some entities, the facts to fold in (ids of the whole graph), and the whole graph.

    The test facts of the whole graph are those to rank. Its train facts are those of the smaller graph and those to fold in.
    """
    rng = np.random.default_rng(SEED)
    out = np.zeros(len(graph.entities), dtype=bool)
    out[rng.choice(len(out), round(SHARE * len(out)), replace=False)] = True

    def about(facts: IntArray) -> np.ndarray:
        return np.asarray(out[facts[:, 0]] | out[facts[:, 2]])

    kept = {split: graph.facts(split)[~about(graph.facts(split))] for split in SPLITS}
    seen = np.zeros_like(out)
    seen[kept["train"][:, [0, 2]].ravel()] = True
    kept = {split: facts[seen[facts[:, 0]] & seen[facts[:, 2]]] for split, facts in kept.items()}
    theirs = np.concatenate([graph.facts(split)[about(graph.facts(split))] for split in SPLITS])
    theirs = theirs[rng.permutation(len(theirs))]
    given, asked = np.split(theirs, [round(GIVEN * len(theirs))])
    seen[given[:, [0, 2]].ravel()] = True
    asked = asked[seen[asked[:, 0]] & seen[asked[:, 2]]]  # an entity without any fact cannot be folded in
    smaller = _named(graph, kept["train"], kept["valid"], kept["test"])
    return smaller, given, _named(graph, np.concatenate([kept["train"], given]), kept["valid"], asked)


def _named(graph: Graph, train: IntArray, valid: IntArray, test: IntArray) -> Graph:
    """These facts, with the names that they use."""
    parts = {"train": train, "valid": valid, "test": test}
    used = np.unique(np.concatenate([facts[:, [0, 2]].ravel() for facts in parts.values()]))
    ids = np.full(len(graph.entities), -1, dtype=np.int32)
    ids[used] = np.arange(len(used))
    moved = {
        split: np.column_stack([ids[facts[:, 0]], facts[:, 1], ids[facts[:, 2]]]).astype(np.int32)
        for split, facts in parts.items()
    }
    entities = Vocabulary(pl.Series("name", graph.entities.names(used)))
    return Graph(graph.name, entities, graph.relations, moved["train"], moved["valid"], moved["test"])


def trained(name: str, graph: Graph, out: Path) -> Trained:
    """The run in this folder, which is made if it is not there yet."""
    if not (out / "run.json").exists():
        dura.fit(graph, **SETTINGS[name], seed=SEED, out=out, progress=False)
    if not any(record["kind"] == "end" for record in RunFolder.open(out).records()):
        raise SystemExit(
            f"the training in {out} was stopped: remove the folder, or continue with dura train --resume {out}"
        )
    return dura.open(out)


def training_seconds(name: str, graph: Graph) -> float:
    """The processor's seconds that training takes: those of one epoch, times the number of epochs."""
    settings = SETTINGS[name]
    began = time.process_time()
    dura.fit(graph, **{**settings, "epochs": 1}, seed=SEED, progress=False)
    return float(settings["epochs"] * (time.process_time() - began))


def measure(name: str, runs: Path) -> Row:
    """Fold in, and compare with training again and with random rows."""
    graph = dura.load(name)
    smaller, given, whole = parted(graph)
    without = trained(name, smaller, runs / f"{name}-without")
    again = trained(name, whole, runs / f"{name}-whole")
    facts = list(zip(*_columns(graph, given), strict=True))
    began = time.process_time()
    folded, done = fold_in(without, facts)
    spent = time.process_time() - began
    assert folded.graph.entities == whole.entities
    new = np.setdiff1d(np.arange(len(whole.entities)), with_ids(without, folded))
    alone = single(without, facts)
    mrr = {
        "folded in": evaluate(folded.model, whole, "test"),
        "trained again": evaluate(again.model, whole, "test"),
        "random rows": evaluate(random_rows(folded, new), whole, "test"),
    }
    return {
        "graph": name,
        "entities": len(graph.entities),
        "new_entities": done.entities,
        "new_facts": done.facts,
        "ranked_facts": len(whole.test),
        "epochs": done.epochs,
        "steps": done.steps,
        "results": {
            key: {"mrr": r.mrr, **{f"hits@{k}": share for k, share in r.hits.items()}} for key, r in mrr.items()
        },
        "seconds": {"fold in all": spent, "fold in one": alone, "train again": training_seconds(name, whole)},
        "settings": SETTINGS[name],
    }


def _columns(graph: Graph, facts: IntArray) -> tuple[list[str], list[str], list[str]]:
    return graph.entities.names(facts[:, 0]), graph.relations.names(facts[:, 1]), graph.entities.names(facts[:, 2])


def with_ids(small: Trained, folded: Trained) -> IntArray:
    """The ids that known entities have after the fold-in."""
    names = pl.Series("name", list(small.graph.entities))
    return folded.graph.entities.ids(names)


def random_rows(folded: Trained, new: IntArray) -> Any:
    """The model with the row of a random known entity for each new one: rows of the right size that know nothing."""
    rng = np.random.default_rng(SEED)
    known = np.setdiff1d(np.arange(len(folded.graph.entities)), new)
    state = {key: tensor.clone() for key, tensor in folded.model.state().items()}
    state["entity"][new] = state["entity"][rng.choice(known, len(new), replace=False)]
    model = blank_model(folded.experiment, folded.graph.sizes)
    adopt(model, state)
    return model.eval()


def single(small: Trained, facts: list[tuple[str, str, str]]) -> float:
    """The processor's median seconds to fold in one entity, with its facts to known entities."""
    known = small.graph.entities
    own: dict[str, list[tuple[str, str, str]]] = {}
    for head, relation, tail in facts:
        if (head in known) != (tail in known):
            own.setdefault(tail if head in known else head, []).append((head, relation, tail))
    spent = []
    for entity in sorted(own)[:: max(1, len(own) // 9)]:
        began = time.process_time()
        fold_in(small, own[entity])
        spent.append(time.process_time() - began)
    return float(np.median(spent))


def main() -> None:
    """Measure both graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=Path, required=True, help="where trained runs are kept; those that are there are used"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--graphs", nargs="+", default=list(SETTINGS))
    options = parser.parse_args()
    rows = [measure(name, options.runs) for name in options.graphs]
    for row in rows:
        print(json.dumps(row, indent=2))
    write(options.out / "foldin.json", {"graphs": rows})


if __name__ == "__main__":
    main()
