"""Do explanations name the facts that answers depend on? Remove these facts, train again, and look at the answers.

    python benchmarks/explain.py run wn18rr --answers 100 --seeds 0 1 --out wn.jsonl
    python benchmarks/explain.py run fb15k-237 --answers 100 --seeds 0 1 --out fb.jsonl
    python benchmarks/explain.py time runs/fb --answers 50 --out time.jsonl
    python benchmarks/explain.py join wn.jsonl fb.jsonl time.jsonl --out docs/results/explain.json

`run` trains a model and takes test answers that it ranks 1 to 10. Each way of choosing names k facts per answer. The facts of all
answers are removed at once, and a model is trained with the same settings and the same seed. What counts is the change of the rank
and of the log-probability of each answer. The ways are:

explain   the facts with the largest effects (dura.inference.influence)
dot       the same without the inverse matrix: the inner product of the two gradients
cosine    their cosine
head      random facts of the same head
around    random facts of the head or the tail
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dura
import measure
from dura.data.graph import Graph
from dura.inference.influence import Around, around, effects
from dura.models import Model
from dura.types import IntArray

SETTINGS: dict[str, dict[str, Any]] = {
    "wn18rr": {"epochs": 3, "settings": {"candidates.samples": 1024, "training.anneal": 1, "regularizer.weight": 0.1}},
    "fb15k-237": {
        "epochs": 6,
        "settings": {"candidates.samples": 1024, "training.anneal": 1, "regularizer.weight": 0.05},
    },
}
"""Small models that train in about a minute."""
SHARED = {
    "candidates.name": "sample",
    "candidates.draw": "frequency",
    "training.batch": 250,
    "training.validate_every": 100,
}
BEST = 10
"""An answer is explained if its rank is at most this."""


def train(graph: Graph, seed: int, rank: int) -> Model:
    """A small ComplEx with DURA."""
    own = SETTINGS.get(graph.name, {"epochs": 20, "settings": {}})
    settings = {**(SHARED if graph.name in SETTINGS else {}), **own["settings"]}
    trained = dura.fit(
        graph, model="complex", rank=rank, epochs=own["epochs"], seed=seed, settings=settings, progress=False
    )
    return trained.model


def places(model: Model, graph: Graph, facts: IntArray) -> tuple[np.ndarray, np.ndarray]:
    """The filtered rank of each fact's tail, and its log-probability among the entities that are not known answers."""
    ranks, logs = [], []
    with model.answering():
        for at in range(0, len(facts), 64):
            part = facts[at : at + 64]
            head, relation, tail = torch.from_numpy(part[:, :3].astype(np.int64)).unbind(1)
            scores = model.score_all(head, relation)
            own = scores.gather(1, tail[:, None])
            known = graph.known.known(part[:, 0], part[:, 1])
            scores[torch.from_numpy(known.question), torch.from_numpy(known.answers.astype(np.int64))] = -torch.inf
            ranks.append(1 + (scores > own).sum(1) + 0.5 * ((scores == own).sum(1)))
            logs.append((own - torch.logsumexp(torch.cat([own, scores], 1), 1, keepdim=True))[:, 0])
    return torch.cat(ranks).numpy(), torch.cat(logs).numpy()


def ordered(way: str, both: list[Around], head: int, rng: np.random.Generator) -> IntArray:
    """The facts around an answer in the order in which a way of choosing would remove them."""
    facts, at = np.unique(np.concatenate([part.facts for part in both]), axis=0, return_inverse=True)
    if way in ("head", "around"):
        here = facts if way == "around" else facts[(facts[:, 0] == head) | (facts[:, 2] == head)]
        return rng.permutation(here)
    own = []
    for part in both:
        products = part.by_fact @ part.by_answer
        if way == "cosine":
            products /= part.by_fact.norm(dim=1) * part.by_answer.norm() + 1e-30
        own.append((effects(part.by_answer, part.by_fact) if way == "explain" else products).double().numpy())
    return facts[np.argsort(-np.bincount(at.reshape(-1), np.concatenate(own)), kind="stable")]


def without(graph: Graph, facts: IntArray) -> Graph:
    """The graph without these training facts."""
    gone = {tuple(fact) for fact in facts.tolist()}
    keep = np.array([tuple(fact) not in gone for fact in graph.train.tolist()])
    return dataclasses.replace(graph, train=graph.train[keep], home=None)


def run(args: argparse.Namespace) -> None:
    """Train, explain, remove, train again."""
    graph = dura.load(args.graph)
    for seed in args.seeds:
        rng, began = np.random.default_rng(seed), time.perf_counter()
        model = train(graph, seed, args.rank)
        seconds = time.perf_counter() - began
        test = rng.permutation(graph.test)[: 20 * args.answers]
        ranks, logs = places(model, graph, test)
        good = np.flatnonzero(ranks <= BEST)[: args.answers]
        answers, ranks, logs = test[good].astype(np.int64), ranks[good], logs[good]
        near = [around(model, graph, answer) for answer in answers]
        print(
            f"{graph.name} seed {seed}: trained in {seconds:.0f} s, {len(answers)} answers, MRR {np.mean(1 / ranks):.3f}",
            flush=True,
        )
        for choice in args.choices:
            way, k = choice.split(":")
            draw = np.random.default_rng([seed, 1])
            gone = np.concatenate(
                [ordered(way, both, answer[0], draw)[: int(k)] for both, answer in zip(near, answers, strict=True)]
            )
            again = train(without(graph, gone), seed, args.rank)
            after, after_logs = places(again, graph, answers)
            line = {
                "graph": graph.name,
                "seed": seed,
                "way": way,
                "k": int(k),
                "answers": len(answers),
                "removed": len(np.unique(gone, axis=0)),
                "mrr_before": float(np.mean(1 / ranks)),
                "mrr_after": float(np.mean(1 / after)),
                "median_rank_before": float(np.median(ranks)),
                "median_rank_after": float(np.median(after)),
                "worse": float(np.mean(after > ranks)),
                "left_best": float(np.mean(after > BEST)),
                "log_probability_change": float(np.mean(after_logs - logs)),
                "training_seconds": seconds,
                "ranks_before": ranks.tolist(),
                "ranks_after": after.tolist(),
            }
            print(json.dumps({key: value for key, value in line.items() if "ranks_" not in key}), flush=True)
            with args.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


def clock(args: argparse.Namespace) -> None:
    """How long explanations of random test facts take: seconds of the processor, and of the clock on a machine with this load.

    The first explanation also indexes the facts, so it is told apart.
    """
    trained, seconds, waited = dura.open(args.run), [], []
    graph = trained.graph
    for fact in np.random.default_rng(0).permutation(graph.test)[: args.answers].tolist():
        entities, relation = graph.entities.names([fact[0], fact[2]]), graph.relations.name(fact[1])
        time_of = [None] if graph.times is None else [graph.times.names([fact[3]])[0] or None]
        began, used = time.perf_counter(), time.process_time()
        trained.explain(entities[0], relation, entities[1], *time_of)
        seconds.append(time.process_time() - used)
        waited.append(time.perf_counter() - began)
    rest = np.array(seconds[1:])
    line = {
        "graph": graph.name,
        "model": f"{trained.experiment.model.name} of rank {trained.model.rank}",
        "explanations": len(seconds),
        "seconds_first": seconds[0],
        "seconds_median": float(np.median(rest)),
        "seconds_90_percent": float(np.quantile(rest, 0.9)),
        "seconds_most": float(rest.max()),
        "clock_median": float(np.median(waited[1:])),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(line))
    with args.out.open("a") as file:
        file.write(json.dumps(line) + "\n")


def compared(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[float] | None:
    """By how much the MRR after `one` lies below that after `other`, with a bootstrap interval of 95 %: [low, mean, high].

    Only seeds that both have count; the answers of a seed are the same for all ways.
    """
    seeds = {line["seed"]: line for line in other}
    pairs = [(line["ranks_after"], seeds[line["seed"]]["ranks_after"]) for line in one if line["seed"] in seeds]
    if not pairs:
        return None
    falls = np.concatenate([1 / np.array(theirs) - 1 / np.array(ours) for ours, theirs in pairs])
    drawn = np.random.default_rng(0).choice(falls, (5000, len(falls))).mean(1)
    return [round(float(value), 3) for value in (np.quantile(drawn, 0.025), falls.mean(), np.quantile(drawn, 0.975))]


def join(args: argparse.Namespace) -> None:
    """One small document: a row per graph, way and k with means over the seeds, and the times."""
    lines = [json.loads(line) for path in args.files for line in path.read_text().splitlines()]
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for line in lines:
        if "way" in line:
            groups.setdefault((line["graph"], line["way"], line["k"]), []).append(line)
    rows = []
    for (graph, way, k), several in sorted(groups.items()):
        row: dict[str, Any] = {"graph": graph, "way": way, "k": k, "seeds": [line["seed"] for line in several]}
        row |= {"answers": sum(line["answers"] for line in several)}
        for key in KEYS:
            row[key] = round(float(np.mean([line[key] for line in several])), 4)
        if way == "explain":
            row["mrr_below_head"] = compared(several, groups.get((graph, "head", k), []))
        rows.append(row)
    document = {"machine": measure.machine(), "removal": rows, "times": [line for line in lines if "way" not in line]}
    args.out.write_text(json.dumps(document, indent=1) + "\n")


KEYS = ("removed", "mrr_before", "mrr_after", "median_rank_after", "worse", "left_best", "log_probability_change")
CHOICES = ["explain:3", "head:3", "explain:1", "head:1", "explain:5", "head:5", "around:3", "dot:3", "cosine:3"]


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("graph")
    one.add_argument("--answers", type=int, default=100)
    one.add_argument("--rank", type=int, default=32)
    one.add_argument("--seeds", type=int, nargs="+", default=[0])
    one.add_argument("--choices", nargs="+", default=CHOICES, help="WAY:K")
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(do=run)
    two = commands.add_parser("time")
    two.add_argument("run", type=Path)
    two.add_argument("--answers", type=int, default=50)
    two.add_argument("--out", type=Path, required=True)
    two.set_defaults(do=clock)
    three = commands.add_parser("join")
    three.add_argument("files", type=Path, nargs="+")
    three.add_argument("--out", type=Path, required=True)
    three.set_defaults(do=join)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.do(args)


if __name__ == "__main__":
    main()
