"""Compare the speed of distance models and ConvE with PyKEEN's: training with negatives, ranking, and its memory.

    OMP_NUM_THREADS=1 python benchmarks/systems.py
    OMP_NUM_THREADS=1 python benchmarks/systems.py --parts ranking --scale 0.05      # a small graph, to try the program itself

Everything is measured in rounds after one that warms up, and each competitor has one turn per round. Ratios are taken round by
round. Times are processor seconds of one thread, so other programs on the machine do not count. "compiled" is dura with the extra
`fast` (numba); "torch" is the same program without it.

How facts are counted. One fact with its negatives counts once: one score of the fact, `count` scores of its negatives, and the
gradients of all of them. PyKEEN (sLCWA) replaces the head or the tail in each negative of a fact. dura asks a fact from both sides,
each time with `count` negatives, and each side counts once. So an epoch of dura has twice as many of these units, with one batch of
the same size after the other. Both use the self-adversarial loss (NSSA) with the same margin and temperature, Adam (fused, same
rate), the same batch, rank and number of negatives, no filter for negatives that are facts ("filtered": dura with its filter), no
weights of facts and no regularizer. PyKEEN's TransE would also normalize all entities after each step; here it does not. Its RotatE
measures ‖·‖₂ over all numbers instead of the sum of their moduli, which cannot be set, and costs it no more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import measure
import rival
from dura.data.graph import Graph
from dura.evaluation import metrics, rank
from dura.models import MODELS
from dura.models.comparators import kernels
from dura.objectives import BinaryCrossEntropy, Negatives, SelfAdversarial, objective_of
from dura.objectives.candidates import All
from dura.regularizers import REGULARIZERS
from dura.training.optimizers import optimizer
from dura.training.trainer import Plan, Trainer
from measure import Measured, Work, console, interleaved, ratio, show
from turns import graph_of, stepping

Row = dict[str, Any]
MARGIN, TEMPERATURE, RATE = 9.0, 1.0, 1e-3
CELLS = [
    ("rotate", 100, 512, 64),
    ("rotate", 100, 1024, 256),
    ("rotate", 500, 512, 64),
    ("transe", 200, 512, 64),
    ("transe", 200, 1024, 256),
]
"""Model, rank, facts per batch and negatives per fact."""
RANKED, RANKED_AT_ONCE = 32, (4, 16, 32)
"""Facts to rank per turn, and the batches that PyKEEN may choose from: [batch, entities, rank] numbers must fit in memory."""


def spent(units: float, work: Callable[[], object]) -> Work:
    """A turn that does `units` units of work, in processor seconds."""

    def turn() -> float:
        began = time.process_time()
        work()
        return units / (time.process_time() - began)

    return turn


def with_kernels(use: bool, work: Work) -> Work:
    """The same turn with or without compiled kernels."""

    def turn() -> float:
        before, kernels.installed = kernels.installed, lambda: use  # type: ignore[assignment]
        try:
            return work()
        finally:
            kernels.installed = before

    return turn


class Some(rival.Some):
    """A data loader that ends after `steps` batches and measures their processor seconds."""

    def __iter__(self) -> Iterator[Any]:
        began = time.process_time()
        yield from islice(self.loader, self.steps)
        self.seconds = time.process_time() - began


class Stepped(rival.Rival):
    """A model of PyKEEN in one of its training loops, with Adam."""

    def __init__(self, facts: Any, model: Any, loop: str, made: Row, given: Row, loader: Row) -> None:
        self.facts, self.model = facts, model.to("cpu")
        self._kind, self._made, self._given, self._loader = loop, made, given, loader
        self._loops: dict[int, tuple[Any, rival.Some]] = {}
        self._epochs: dict[int, int] = {}

    def _loop(self, batch: int) -> tuple[Any, rival.Some]:
        if batch not in self._loops:
            loop = getattr(rival.part("training"), self._kind)(
                model=self.model, triples_factory=self.facts, optimizer="Adam",
                optimizer_kwargs={"lr": RATE, "fused": True}, automatic_memory_optimization=False, **self._made,
            )  # fmt: skip
            make: Callable[..., Any] = loop._create_training_data_loader
            some = Some(
                make(self.facts, sampler=None, batch_size=batch, num_workers=0, pin_memory=False, **self._loader)
            )
            loop._create_training_data_loader = lambda *_, **__: some
            self._loops[batch] = loop, some
        return self._loops[batch]

    def train(self, batch: int, steps: int) -> float:
        """Facts per second of some steps, each with its negatives; questions per second over all entities."""
        loop, some = self._loop(batch)
        some.steps = min(steps, len(some.loader))
        self._epochs[batch] = epochs = self._epochs.get(batch, 0) + 1
        options = {"use_tqdm": False, "use_tqdm_batch": False, "num_workers": 0, "pin_memory": False, **self._given}
        loop.train(self.facts, num_epochs=epochs, continue_training=epochs > 1, batch_size=batch, **options)
        return some.steps * batch / some.seconds


def sampled(graph: Graph, name: str, size: int, count: int) -> Stepped:
    """PyKEEN's TransE or RotatE, trained with negatives (sLCWA)."""
    triples, models = rival.part("triples"), rival.part("models")
    ids = torch.as_tensor(graph.train).long()
    facts = triples.CoreTriplesFactory.create(ids, graph.sizes.entities, graph.sizes.relations)
    loss = rival.part("losses").NSSALoss(margin=MARGIN, adversarial_temperature=TEMPERATURE)
    shared = {"triples_factory": facts, "loss": loss, "random_seed": 0, "embedding_dim": size}
    kinds = {"transe": partial(models.TransE, scoring_fct_norm=1, entity_constrainer=None), "rotate": models.RotatE}
    made = {"negative_sampler_kwargs": {"num_negs_per_pos": count}}
    return Stepped(facts, kinds[name](**shared), "SLCWATrainingLoop", made, {}, {"drop_last": True})


def convolved(graph: Graph, like: Any) -> Stepped:
    """PyKEEN's ConvE with the shape of dura's, over all entities (LCWA) with the binary loss."""
    facts, filters = rival.factory(graph.train, graph.sizes), like.convolution.weight.shape
    shape = {"embedding_dim": like.rank, "embedding_height": like.height, "embedding_width": like.width}
    shape |= {"output_channels": filters[0], "kernel_height": filters[2], "kernel_width": filters[3]}
    loss = rival.part("losses").BCEWithLogitsLoss()
    model = rival.part("models").ConvE(triples_factory=facts, loss=loss, random_seed=0, **shape)
    return Stepped(facts, model, "LCWATrainingLoop", {}, {"label_smoothing": 0.1}, {"shuffle": True})


def trainer_of(graph: Graph, name: str, size: int, batch: int, count: int, filtered: bool = False) -> Trainer:
    """dura with the same settings, and batches of facts."""
    model = MODELS.build(name, {"rank": size}, graph.sizes)
    loss = SelfAdversarial(margin=MARGIN, temperature=TEMPERATURE, subsampling=False)
    objective = objective_of({"tails": 1.0}, loss, Negatives(count, filtered=filtered))
    adam = optimizer("adam", {"lr": RATE}, model.parameters())
    questions = graph.questions.one_by_one()
    return Trainer(model, objective, REGULARIZERS.build("none", {}), adam, questions, Plan(batch=batch))


def training(options: measure.Options) -> list[Row]:
    """Facts per second with their negatives."""
    rows, graph = [], graph_of(options.data[0], options.scale)
    for name, size, batch, count in CELLS:
        console.print(f"training {name} {size} …", style="dim")
        steps = max(1, 2**26 // (batch * count * size * 8))
        works: dict[str, Work] = {}
        for who, use, filtered in (("compiled", True, False), ("torch", False, False), ("filtered", True, True)):
            if not use or kernels.installed():
                trainer = trainer_of(graph, name, size, batch, count, filtered)
                works[who] = with_kernels(use, spent(steps * batch, stepping(trainer, steps, batch)))
        if rival.version():
            works["PyKEEN"] = partial(sampled(graph, name, size, count).train, batch, 1)
        paces = interleaved(works, repeat=5, seconds=40)
        row: Row = {"graph": graph.name, "model": name, "rank": size, "batch": batch, "negatives": count}
        rows.append(row | _compared(paces))
    show("training, facts with their negatives per second", rows)
    return rows


def _compared(paces: dict[str, list[float]]) -> Row:
    """Each competitor's pace, and how many times PyKEEN's it is."""
    theirs = paces.get("PyKEEN")
    row: Row = {who: Measured.of(turns) for who, turns in paces.items()}
    for who in ("compiled", "torch", "dura"):
        if who in paces and theirs:
            row[f"{who} × PyKEEN"] = ratio(paces[who], theirs)
    return row


def conve(options: measure.Options) -> list[Row]:
    """ConvE over all entities with the binary loss, in questions per second. Left out while there is no such model."""
    if "conve" not in MODELS.names():
        return []
    graph, batch, steps = graph_of(options.data[0], options.scale), 256, 2
    model = MODELS.build("conve", {}, graph.sizes)
    objective = objective_of({"tails": 1.0}, BinaryCrossEntropy(0.1), All())
    adam = optimizer("adam", {"lr": RATE}, model.parameters())
    trainer = Trainer(model, objective, REGULARIZERS.build("none", {}), adam, graph.questions, Plan(batch=batch))
    works: dict[str, Work] = {"dura": spent(steps * batch, stepping(trainer, steps, batch))}
    if rival.version():
        works["PyKEEN"] = partial(convolved(graph, model).train, batch, steps)
    row: Row = {"graph": graph.name, "model": "conve", "rank": model.rank, "batch": batch}
    row |= {"parameters": sum(p.numel() for p in model.parameters())}
    rows = [row | _compared(interleaved(works, repeat=5, seconds=90))]
    show("training ConvE over all entities, questions per second", rows)
    return rows


def ranking(options: measure.Options) -> list[Row]:
    """Filtered ranking: questions per second, and the peak memory of each competitor in a process of its own."""
    rows, graph = [], graph_of(options.data[0], options.scale)
    for name, size in (("transe", 200), ("rotate", 100)):
        console.print(f"ranking {name} {size} …", style="dim")
        works, batch = {}, RANKED_AT_ONCE[0]
        for who, use in (("compiled", True), ("torch", False)):
            if not use or kernels.installed():
                works[who] = with_kernels(use, spent(2 * RANKED, partial(ranked, graph, name, size)))
        if rival.version():
            theirs = sampled(graph, name, size, 1)
            facts, known = chosen(graph), [graph.train, graph.valid, graph.test]
            turns = {b: spent(2 * RANKED, partial(theirs.rank, facts, known, b)) for b in RANKED_AT_ONCE}
            batch = max(turns, key=lambda b: (turns[b](), turns[b]())[1])
            works["PyKEEN"] = turns[batch]
        row: Row = {"graph": graph.name, "model": name, "rank": size, "batch of PyKEEN": batch}
        row |= _compared(interleaved(works, repeat=5, seconds=60, least=2))
        for who in works:
            work = {"who": who, "name": name, "size": size, "batch": batch}
            order = json.dumps(work | {"graph": options.data[0], "scale": options.scale})
            done = subprocess.run([sys.executable, __file__, "--child", order], stdout=subprocess.PIPE, check=True)
            row[f"MB of {who}"] = float(done.stdout.splitlines()[-1])
        rows.append(row)
    note = "MB: peak memory while ranking, above that of the model and the graph, each in its own process"
    show("filtered ranking, questions per second (two per fact)", rows, [note])
    return rows


def chosen(graph: Graph) -> np.ndarray[Any, Any]:
    """The facts to rank."""
    facts: np.ndarray[Any, Any] = graph.test[np.random.default_rng(0).permutation(len(graph.test))[:RANKED]]
    return facts


def ranked(graph: Graph, name: str, size: int) -> float:
    """The MRR of some facts; the model is as it starts."""
    model = MODELS.build(name, {"rank": size}, graph.sizes)
    return metrics(rank(model, chosen(graph), graph.known, graph.sizes.relations)).mrr


def child(who: str, name: str, size: int, batch: int, graph: str, scale: float) -> float:
    """One process of `ranking`: how many MB more it held at most than before it ranked."""
    held = graph_of(graph, scale)
    theirs = sampled(held, name, size, 1) if who == "PyKEEN" else None
    model, known = MODELS.build(name, {"rank": size}, held.sizes), held.known
    before = measure.peak()
    if theirs is not None:
        theirs.rank(chosen(held), [held.train, held.valid, held.test], batch)
    else:
        kernels.installed = lambda: who == "compiled"  # type: ignore[assignment]
        rank(model, chosen(held), known, held.sizes.relations)
    return round((measure.peak() - before) / 1e6, 1)


PARTS: dict[str, Callable[[measure.Options], list[Row]]] = {"training": training, "conve": conve, "ranking": ranking}


def main() -> None:
    """Run the chosen parts and write systems-speed.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="folder for systems-speed.json")
    parser.add_argument("--data", nargs=1, default=["fb15k-237"], help="a graph by name")
    parser.add_argument("--scale", type=float, default=1.0, help="smaller synthetic graphs, to try the program itself")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    if given.child:
        print(child(**json.loads(given.child)))
        return
    options = measure.Options(False, given.scale, given.data, given.out)
    parts: dict[str, list[Row]] = {}
    for name in given.parts:
        parts[name] = PARTS[name](options)
        measure.write(given.out / "systems-speed.json", {"pykeen": rival.version(), "parts": parts})


if __name__ == "__main__":
    main()
