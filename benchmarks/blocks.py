"""How near a training step and an evaluation come to their bare matrix products, by block size.

    python benchmarks/blocks.py                    # FB15k-237's and WN18RR's shapes, rank 200: under two minutes
    python benchmarks/blocks.py --rank 500 --batch 1000

Each row is a ratio measured in one run, repetitions interleaved with those of the bare products; median and spread (max - min).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from dura.data.questions import Questions
from dura.evaluation import rank
from dura.models import MODELS, Model
from dura.objectives import LARGEST, CrossEntropy
from dura.regularizers import REGULARIZERS
from dura.training.optimizers import optimizer
from dura.training.trainer import Plan, Trainer
from dura.types import Sizes

SHAPES = {"fb15k-237": (14_541, 237, 3.6), "wn18rr": (40_943, 11, 1.7)}
"""Entities, relations and answers a question of the real graphs."""


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def interleaved(works: dict[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for i in range(repeat + 1):
        for name, work in works.items():
            spent = seconds(work)
            if i:  # the first round warms up
                times[name].append(spent)
    return times


def questions(entities: int, relations: int, answers: float, size: int) -> Questions:
    rng = np.random.default_rng(0)
    counts = rng.geometric(1 / answers, size)
    return Questions(
        head=rng.integers(entities, size=size),
        relation=rng.integers(2 * relations, size=size),
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        answers=rng.integers(entities, size=int(counts.sum())),
    )


def bare_training(query: torch.Tensor, table: torch.Tensor, gradient: torch.Tensor, scores: torch.Tensor) -> None:
    for q in query.split(LARGEST):
        room = torch.mm(q, table.mT, out=scores[: len(q)])
        torch.mm(room, table)
        gradient.addmm_(room.mT, q)


def bare_ranking(query: torch.Tensor, table: torch.Tensor, scores: torch.Tensor) -> None:
    for q in query.split(LARGEST):
        torch.mm(q, table.mT, out=scores[: len(q)])


def training(model: Model, batch: Questions) -> dict[str, Callable[[], object]]:
    table = model.tail_table.detach()
    query, scores = torch.randn(len(batch), table.shape[1]), torch.empty(LARGEST, len(table))
    works: dict[str, Callable[[], object]] = {
        "three bare products": partial(bare_training, query, table, torch.zeros_like(table), scores)
    }
    for block in (64, 128, 256, 512):
        trainer = Trainer(
            model,
            CrossEntropy(block=block),
            REGULARIZERS.build("dura", {}),
            optimizer("adagrad", {"lr": 0.1}, model.parameters()),
            batch,
            Plan(batch=len(batch)),
        )
        works[f"step, block {block}"] = partial(trainer.step, batch)
    return works


def ranking(model: Model, batch: Questions, relations: int) -> dict[str, Callable[[], object]]:
    columns = [batch.head, batch.relation % relations, batch.answers[batch.offsets[:-1]]]
    facts = np.stack(columns, axis=1).astype(np.int32)
    table = model.tail_table.detach()
    query, scores = torch.randn(2 * len(facts), table.shape[1]), torch.empty(LARGEST, len(table))
    return {
        "one bare product": partial(bare_ranking, query, table, scores),
        "filtered ranking": partial(rank, model, facts, Questions.of(facts, relations=relations), relations),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    print(f"ComplEx rank {arguments.rank}, batches of {arguments.batch} questions, {torch.get_num_threads()} threads")
    print(f"{'shape':<12}{'work':<24}{'ms':>9}{'GFLOP/s':>10}{'of the bound':>14}{'spread':>9}")
    for name, (entities, relations, answers) in SHAPES.items():
        batch = questions(entities, relations, answers, arguments.batch)
        model = MODELS.build("complex", {"rank": arguments.rank}, Sizes(entities, relations))
        product = 2 * arguments.batch * entities * 2 * arguments.rank
        report(name, training(model, batch), arguments.repeat, 3 * product)
        report(name, ranking(model, batch, relations), arguments.repeat, 2 * product)


def report(shape: str, works: dict[str, Callable[[], object]], repeat: int, operations: float) -> None:
    times = interleaved(works, repeat)
    bound = statistics.median(next(iter(times.values())))
    for work, spent in times.items():
        median = statistics.median(spent)
        spread = (max(spent) - min(spent)) / median
        print(
            f"{shape:<12}{work:<24}{1e3 * median:>9.1f}{operations / median / 1e9:>10.0f}{bound / median:>14.0%}{spread:>9.0%}"
        )


if __name__ == "__main__":
    main()
