"""PyKEEN as a competitor of dura: its models, its LCWA training loop, its evaluator and its reader.

If PyKEEN is not installed (`version()` is None), only the rows that need it are left out. It is set up as an expert would for speed
on a CPU:

- LCWA with cross entropy and inverse relations, torch's fused Adagrad with rate .1;
- the regularizer that its models have by default (it has no DURA; its CP has none);
- no progress bars, data in the main process, no slicing, and batch sizes given so that it does not search for one.

What PyKEEN prepares once (grouping the facts, the set of known facts) does not count in its times. dura's own preparations do.
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dura.models import MODELS, Model
from dura.types import IntArray, Sizes

TRAINING_BATCHES, RANKING_BATCHES = (500, 1000, 2000), (32, 128, 256)
"""The batch sizes that are tried; the fastest one is then measured."""


def version() -> str | None:
    """PyKEEN's version; None if it is not installed."""
    try:
        return installed("pykeen")
    except PackageNotFoundError:
        return None


def part(name: str) -> Any:
    """A module of PyKEEN. It does not write into the home folder, and it logs errors only."""
    os.environ.setdefault("PYKEEN_HOME", str(Path(tempfile.gettempdir()) / "pykeen-of-the-benchmarks"))
    for noisy in ("pykeen", "torch_max_mem"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    return importlib.import_module(f"pykeen.{name}")


def factory(facts: IntArray, sizes: Sizes) -> Any:
    """The facts in PyKEEN's format, with inverse relations."""
    return part("triples").CoreTriplesFactory.create(
        torch.as_tensor(facts).long(), sizes.entities, sizes.relations, create_inverse_triples=True
    )


def build(name: str, facts: Any, rank: int) -> Any:
    """PyKEEN's model with the name and rank of dura's, with cross entropy and its default regularizer.

    PyKEEN's own initializations, N(0, 1) and uniform, spread the scores so far that the softmax is full of denormal numbers.
    That makes its steps about twenty times slower on a CPU. Here it starts near zero, as dura does.
    """
    models = part("models")
    small = partial(torch.nn.init.normal_, std=1e-2 if name == "rescal" else 1e-3)
    shared = {"triples_factory": facts, "loss": "crossentropy", "random_seed": 0, "embedding_dim": rank}
    shared |= {"entity_initializer": small, "relation_initializer": small}
    if name == "cp":  # its CP sums over `rank` slices of such vectors; with one slice it is the same as ours
        return models.CP(**shared, rank=1).to("cpu")
    kind = {"complex": models.ComplEx, "rescal": models.RESCAL}[name]
    return kind(**shared).to("cpu")


@torch.no_grad()
def tables(model: Any) -> Model:
    """dura's model with the tables of PyKEEN's ComplEx, CP or RESCAL with inverse relations. The scores are the same.

    PyKEEN numbers r and r⁻¹ as 2r and 2r + 1; dura uses r and r + |R|. PyKEEN's ComplEx conjugates the tail, dura's the head.
    """
    name = type(model).__name__.lower()
    entities = [representation() for representation in model.entity_representations]
    interleaved = model.relation_representations[0]()
    relations = torch.cat([interleaved[0::2], interleaved[1::2]])
    if name == "complex":
        entities, relations = [_reals(rows) for rows in entities], _reals(relations.conj().resolve_conj())
    rank = entities[0].shape[-1] // (2 if name == "complex" else 1)
    copy = MODELS.build(name, {"rank": rank}, Sizes(len(entities[0]), len(relations) // 2))
    rows = {"entity": entities[0], "relations": relations} | ({"tail": entities[1]} if name == "cp" else {})
    for key, table in rows.items():
        target = copy.get_parameter(key)
        target.copy_(table.reshape(target.shape))
    return copy


def _reals(rows: Tensor) -> Tensor:
    """Complex numbers as real and imaginary parts next to each other."""
    return torch.view_as_real(rows).flatten(-2)


class Some:
    """A data loader that ends after `steps` batches and measures the seconds from the first batch to the end of the last."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.steps, self.seconds = loader, 1, 0.0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        began = time.perf_counter()
        yield from islice(self.loader, self.steps)
        self.seconds = time.perf_counter() - began


class Rival:
    """One model of PyKEEN on the facts of a graph.

    >>> rival = Rival("complex", graph.sizes, graph.train, rank=200)  # doctest: +SKIP
    >>> rival.train(batch=500, steps=2)  # doctest: +SKIP
    6180.2
    """

    def __init__(self, name: str, sizes: Sizes, facts: IntArray, rank: int) -> None:
        self.facts = factory(facts, sizes)
        self.model = build(name, self.facts, rank)
        self._loops: dict[int, tuple[Any, Some]] = {}
        self._epochs: dict[int, int] = {}

    def tables(self) -> Model:
        """This model as dura's."""
        return tables(self.model)

    def train(self, batch: int, steps: int) -> float:
        """Facts per second (reciprocal ones counted) of some steps of its training loop, including reading batches.

        A batch is `batch` questions, since LCWA groups facts by (head, relation) too. The number of facts per question is the
        average of the whole graph.
        """
        loop, some = self._loop(batch)
        some.steps = min(steps, len(some.loader))
        self._epochs[batch] = epochs = self._epochs.get(batch, 0) + 1
        loop.train(
            self.facts,
            num_epochs=epochs,
            continue_training=epochs > 1,
            batch_size=batch,
            use_tqdm=False,
            use_tqdm_batch=False,
            num_workers=0,
            pin_memory=False,
        )
        data = some.loader.dataset
        questions = some.steps * min(batch, len(data))
        return float(questions * (data.compressed.nnz / len(data)) / some.seconds)

    def training_batch(self) -> int:
        """The fastest of some batch sizes; each has one step to warm up and one that is measured."""
        paces = {batch: (self.train(batch, 1), self.train(batch, 1))[1] for batch in TRAINING_BATCHES}
        best = max(paces, key=paces.__getitem__)
        self._loops = {best: self._loops[best]}  # the optimizers of the others need as much memory as the tables
        return best

    def ranking_batch(self, facts: IntArray, known: list[IntArray]) -> int:
        """The fastest of some batch sizes for ranking."""
        self.rank(facts[: RANKING_BATCHES[0]], known, RANKING_BATCHES[0])  # warms up
        paces = {batch: self.rank(facts, known, batch)[0] for batch in RANKING_BATCHES}
        return max(paces, key=paces.__getitem__)

    def _loop(self, batch: int) -> tuple[Any, Some]:
        """The training loop for this batch size; its data loader is made once and gives a few batches at a time."""
        if batch not in self._loops:
            loop = part("training").LCWATrainingLoop(
                model=self.model,
                triples_factory=self.facts,
                optimizer="Adagrad",
                optimizer_kwargs={"lr": 0.1, "fused": True},
                automatic_memory_optimization=False,
            )
            make: Callable[..., Any] = loop._create_training_data_loader
            some = Some(make(self.facts, None, batch_size=batch, shuffle=True, num_workers=0, pin_memory=False))
            loop._create_training_data_loader = lambda *_, **__: some
            self._loops[batch] = loop, some
        return self._loops[batch]

    def rank(self, facts: IntArray, known: list[IntArray], batch: int) -> tuple[float, float]:
        """(questions per second, MRR) of its filtered evaluation of both sides of these facts."""
        evaluator = part("evaluation").RankBasedEvaluator(filtered=True, metrics=["mrr"], add_defaults=False)
        stamps: list[float] = []
        # It calls `clear` when everything is prepared, and `finalize` when everything is ranked.
        evaluator.clear = _stamped(evaluator.clear, stamps)
        evaluator.finalize = _stamped(evaluator.finalize, stamps)
        result = evaluator.evaluate(
            self.model,
            torch.as_tensor(facts).long(),
            batch_size=batch,
            slice_size=self.model.num_entities,  # all entities at once: no slicing
            use_tqdm=False,
            additional_filter_triples=[torch.as_tensor(others).long() for others in known],
        )
        return 2 * len(facts) / (stamps[1] - stamps[0]), float(result.get_metric("mrr"))


def _stamped(method: Callable[[], Any], stamps: list[float]) -> Callable[[], Any]:
    def stamped() -> Any:
        stamps.append(time.perf_counter())
        return method()

    return stamped


def load(path: Path) -> Any:
    """A file of facts read by PyKEEN."""
    return part("triples").TriplesFactory.from_path(path)
