"""The graphs and the competitors: one turn of dura, the literal loop, PyKEEN and the bare matrix products.

To add a competitor in training, write a function (graph, model, rank) -> its turns, and add a row to `TRAINING`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

import dura
from dura.data.catalog import find
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.vocabulary import Vocabulary
from dura.models import MODELS
from dura.objectives import All, Softmax, objective_of
from dura.regularizers import REGULARIZERS
from dura.training.optimizers import optimizer
from dura.training.trainer import Plan, Trainer
from dura.types import IntArray, Sizes
from measure import Work, console, free_memory, paced
from reference import Reference, both_directions, step
from rival import Rival, version

T = TypeVar("T")
Turns = dict[str, Work]
"""The variants of a competitor, by name; the best one counts."""
BATCH, STEPS, TURN = 500, 3, 1000
"""dura: questions per batch (if the batch is fixed) and steps per turn. The others, which are slower: rows per turn."""
BATCHES, LITERAL_BATCHES, BOUND_BLOCKS = (1000, 2000), (500, 1000), (128, 256)
"""Questions per batch (literal loop: facts), and questions per block of the bare product in evaluation. The better one counts."""
MISSING = "not installed"


@dataclass(frozen=True)
class Shape:
    """The shape of a synthetic graph: its counts, and how fast the frequencies of entities and relations fall (Zipf)."""

    entities: int
    relations: int
    facts: tuple[int, int, int]
    fall: float = 0.8
    relation_fall: float = 1.0


SHAPES = {
    "fb15k-237": Shape(14_541, 237, (272_115, 17_535, 20_466), 1.0, 1.65),
    "wn18rr": Shape(40_943, 11, (86_835, 3_034, 3_134), 0.8, 1.0),
}
"""The falls are chosen so that a question has about as many answers as in the real graphs: 3.6 and 1.7."""


def drawn_facts(shape: Shape, seed: int = 0) -> IntArray:
    """Distinct random facts of this shape, in random order."""
    rng = np.random.default_rng(seed)

    def draw(n: int, fall: float, size: int) -> IntArray:
        odds = 1.0 / np.arange(1, n + 1) ** fall
        drawn: IntArray = rng.permutation(n)[rng.choice(n, size, p=odds / odds.sum())].astype(np.int64)
        return drawn

    size, (e, r) = 2 * sum(shape.facts), (shape.entities, shape.relations)
    keys = (draw(e, shape.fall, size) * r + draw(r, shape.relation_fall, size)) * e + draw(e, shape.fall, size)
    keys = rng.permutation(np.unique(keys))[: sum(shape.facts)]
    return np.stack([keys // e // r, keys // e % r, keys % e], axis=1).astype(np.int32)


def made_up(shape: Shape, name: str) -> Graph:
    """A synthetic graph of this shape."""
    train, valid, test = np.split(drawn_facts(shape), np.cumsum(shape.facts)[:2])
    names = (("e", shape.entities), ("r", shape.relations))
    entities, relations = (Vocabulary(f"{kind}{i:08}" for i in range(n)) for kind, n in names)
    return Graph(name, entities, relations, train, valid, test)


@cache
def graph_of(name: str, scale: float) -> Graph:
    """The graph of this name if it is on this machine, otherwise a synthetic one. A scale other than 1 is always synthetic."""
    listing = find(name)
    if scale == 1 and listing is not None and listing.path is not None:
        return dura.load(name)
    if name not in SHAPES:
        return dura.load(name)
    console.print(f"{name}* is a synthetic graph of the same shape; get the real one with: dura data get {name}")
    shape = SHAPES[name]
    train, valid, test = (max(100, int(scale * n)) for n in shape.facts)
    smaller = replace(shape, entities=max(100, int(scale * shape.entities)), facts=(train, valid, test))
    return made_up(smaller, f"{name}*")


def forever(make: Callable[[int], Iterator[T]]) -> Iterator[T]:
    """One epoch after the other, without end."""
    for epoch in count():
        yield from make(epoch)


def trainer_of(
    name: str, sizes: Sizes, questions: Questions, rank: int, block: int | None = None, regularizer: str = "dura"
) -> Trainer:
    """dura with cross entropy, a regularizer and Adagrad, as in `dura train` but with a smaller learning rate.

    In the first steps Adagrad moves every number by the learning rate. With 0.1 and ranks of 500 and more, the scores of RESCAL
    then become so large that most of them are computed twice. A usual step does not do this.
    """
    model = MODELS.build(name, {"rank": rank}, sizes)
    objective = objective_of({"tails": 1.0}, Softmax(), All("auto" if block is None else block))
    adagrad = optimizer("adagrad", {"lr": 0.001}, model.parameters())
    return Trainer(model, objective, REGULARIZERS.build(regularizer, {}), adagrad, questions, Plan(batch=BATCH))


def stepping(trainer: Trainer, steps: int = STEPS, batch: int = BATCH) -> Callable[[], None]:
    """A few steps on the next batches of questions, including the time to gather them."""
    batches = forever(lambda epoch: trainer.questions.batches(batch, 0, epoch))

    def work() -> None:
        for batch in islice(batches, steps):
            trainer.step(batch)

    return work


def facts_in(questions: Questions, batches: int, batch: int = BATCH) -> float:
    """How many facts this many batches cover, by the average of the whole graph."""
    return batches * min(batch, len(questions)) * questions.facts / len(questions)


def dura_turns(graph: Graph, name: str, rank: int) -> Turns:
    """Steps of the trainer with two batch sizes; a turn has the same number of questions with each."""
    trainer = trainer_of(name, graph.sizes, graph.questions, rank)
    steps = {size: max(BATCHES) // size for size in BATCHES}
    return {
        f"dura, {size} questions": paced(facts_in(graph.questions, n, size), stepping(trainer, n, size))
        for size, n in steps.items()
    }


def literal_turns(graph: Graph, name: str, rank: int) -> Turns:
    """Steps of the literal loop with two batch sizes."""
    facts = both_directions(graph.train, len(graph.relations))

    def turn(rows: int) -> Work:
        model = Reference(name, len(graph.entities), len(graph.relations), rank)
        adagrad = torch.optim.Adagrad(model.parameters(), lr=0.1)
        batches = forever(lambda _: iter(torch.randperm(len(facts)).split(rows)))
        steps = TURN // rows

        def work() -> None:
            for batch in islice(batches, steps):
                step(model, adagrad, facts[batch], weight=0.05)

        return paced(steps * min(rows, len(facts)), work)

    return {f"literal, {rows} facts": turn(rows) for rows in LITERAL_BATCHES}


def pykeen_turns(graph: Graph, name: str, rank: int) -> Turns:
    """Steps of PyKEEN's training loop with its fastest batch size; empty if PyKEEN is not installed."""
    if version() is None:
        return {}
    rival = Rival(name, graph.sizes, graph.train, rank)
    batch = rival.training_batch()
    return {f"PyKEEN, {batch} questions": partial(rival.train, batch, max(1, TURN // batch))}


def bare_turns(graph: Graph, name: str, rank: int) -> Turns:
    """The three products of a step of dura, for all questions at once. In blocks they were never faster."""
    width = 2 * rank if name == "complex" else rank
    table, turns = torch.randn(len(graph.entities), width), Turns()
    for size in BATCHES:
        rows = min(size, len(graph.questions))
        products = three_products(torch.randn(rows, width), table)
        turns[f"bound, {size} questions"] = paced(facts_in(graph.questions, 1, size), products)
    return turns


def three_products(query: Tensor, table: Tensor) -> Callable[[], None]:
    """The scores, and from them the gradients of queries and table, all written into memory that is already allocated."""
    scores = torch.empty(len(query), len(table))
    back, gradient = torch.empty_like(query), torch.empty_like(table)

    def work() -> None:
        torch.mm(query, table.mT, out=scores)
        torch.mm(scores, table, out=back)
        torch.mm(scores.mT, query, out=gradient)

    return work


def one_product(queries: int, table: Tensor, block: int) -> Callable[[], None]:
    """The scores of this many queries, block by block into the same memory."""
    query, scores = torch.randn(queries, table.shape[1]), torch.empty(block, len(table))

    def work() -> None:
        for q in query.split(block):
            torch.mm(q, table.mT, out=scores[: len(q)])

    return work


TRAINING: dict[str, Callable[[Graph, str, int], Turns]] = {
    "dura": dura_turns,
    "bound": bare_turns,
    "literal": literal_turns,
    "PyKEEN": pykeen_turns,
}
"""The competitors in training, in the order of their turns."""


def needs(who: str, sizes: Sizes, name: str, rank: int) -> tuple[float, float]:
    """About how many bytes a competitor needs all the time, and how many more during its turn. A high estimate."""
    width, square = rank * (2 if name == "complex" else 1), rank * rank if name == "rescal" else 0
    entity = 4.0 * sizes.entities * width
    tables = entity * (2 if name == "cp" else 1) + 8.0 * sizes.relations * (square or width)
    if who == "dura":
        return 3 * tables + 2e8, 0.2 * tables
    if who == "bound":
        return 3 * entity + 4.0 * sum(BATCHES) * sizes.entities, 0.0
    # All the time: tables, gradients and sums. In a turn: the gradients of single reads, and five copies of scores and matrices.
    models = len(LITERAL_BATCHES) if who == "literal" else 1
    return 3 * models * tables, 3 * tables + 20.0 * TURN * (sizes.entities + square)


def training_turns(graph: Graph, name: str, rank: int) -> tuple[Turns, dict[str, str]]:
    """The turns of the competitors that can take part, and why the others cannot."""
    turns, absent = Turns(), dict[str, str]()
    room, held, most = 0.85 * free_memory(), 0.0, 0.0
    for who, make in TRAINING.items():
        keeps, more = needs(who, graph.sizes, name, rank)
        if held + keeps + max(most, more) > room:
            absent[who] = f"needs {(keeps + more) / 1e9:.0f} GB"
        elif mine := make(graph, name, rank):
            turns |= mine
            held, most = held + keeps, max(most, more)
        else:
            absent[who] = MISSING
    return turns, absent
