"""Estimates: what a run costs on this machine, before it begins.

The time of an epoch is that of its parts: the products of questions and candidates at the speed that was measured here, and what
a step needs besides. The constants were measured with one thread of a core that does 90 GFLOP/s (`measured_speed`). Runs of the
paper's own models took 0.7 to 1.6 times as long as that. Related systems may take ten times as long, and those with a network
even longer, since of what a model computes only the comparison with candidates is counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import NamedTuple

from dura.config import Experiment
from dura.data import catalog
from dura.objectives import Candidates, Negatives, Sample
from dura.runs.auto import FASTER, bf16_gain
from dura.runs.build import build_objective
from dura.runs.cost import ModelSize, cost, model_size, product_seconds
from dura.types import DuraError, Sizes

QUESTIONS = {
    "umls": 1_560,
    "kinships": 3_131,
    "nations": 909,
    "wn18rr": 103_509,
    "fb15k-237": 149_689,
    "icews14": 132_346,
    "icews05-15": 682_628,
    "yago15k": 83_578,
}
"""Distinct questions of the train facts in both directions, since an estimate must not read graphs; for others: twice the facts."""
PROCESS_BYTES = 550 << 20
"""What a worker needs besides its tables: torch, the facts, known answers (601 MB in all on FB15k-237 at rank 200)."""

STEP_SECONDS, START_SECONDS = 3e-3, 10.0
"""What even the smallest step takes, and what a worker takes before its first step; small graphs take hardly more."""
PRODUCT_SHARE = 0.8
"""Which share of the measured speed the products of a step reach. They have other shapes, and losses and updates between them."""
NUMBERS_A_SECOND, DRAWN_NUMBERS_A_SECOND = 1e9, 3e8
"""How many numbers are compared and differentiated if that is not a product: of shared candidates, and of those of each fact."""
ROW_BYTES_A_SECOND = 5e8
"""How fast the rows of a sample are read, differentiated and updated: 60 ms per step for 2,048 rows of 4,000 numbers."""
TIME_BYTES_A_SECOND, PAIR = 2e9, 7
"""How fast the table of the times is smoothed and updated as a whole, and how many rows' time each pair takes if only some are."""
MATRIX_SECONDS, MATRIX_BYTES_A_SECOND = 1e-4, 1e9
"""What each relation matrix of a step takes at any size (several small products), and how fast its bytes are processed."""


class Estimate(NamedTuple):
    """What a run costs: bytes of memory of its worker and seconds in all; None if its graph or its model is not known here."""

    bytes: int | None
    seconds: float | None


def estimate(experiment: Experiment, speed: float) -> Estimate:
    """About how much memory a worker needs and how long it takes, at `speed` operations per second in matrix products.

    All epochs are counted, with the ranking of valid and test. An epoch of RTFE that trains only one span of time counts as a
    whole one, so its time is an upper bound.
    """
    entry = catalog.entries().get(experiment.graph.source)
    if entry is None:
        return Estimate(None, None)
    try:
        candidates = build_objective(experiment).terms[0].candidates
        shape = model_size(experiment.model, Sizes(entry.entities, entry.relations, entry.timestamps))
    except DuraError:
        return Estimate(None, None)
    work, epochs = _Work(experiment, entry, shape, candidates, speed), range(experiment.training.epochs)
    took = cost(
        numbers=shape.numbers,
        width=shape.width,
        entities=max((work.scored(epoch) for epoch in epochs), default=0) or entry.entities,
        questions=work.questions,
        batch=experiment.training.questions_a_step,
        speed=speed,
    )
    seconds = START_SECONDS + sum(map(work.epoch_seconds, epochs)) + work.ranking_seconds()
    return Estimate(PROCESS_BYTES + took.bytes, seconds)


@dataclass(frozen=True)
class _Work:
    """What a run does, and how long each part of it takes."""

    experiment: Experiment
    entry: catalog.Entry
    shape: ModelSize
    candidates: Candidates
    speed: float

    @property
    def facts(self) -> int:
        """The facts of train in both directions."""
        return 2 * self.entry.files["train"].facts

    @property
    def questions(self) -> int:
        """The questions of an epoch."""
        if self.experiment.training.batching == "facts":
            return self.facts
        return QUESTIONS.get(self.experiment.graph.source, self.facts)

    def drawn(self, epoch: int) -> int:
        """How many entities each step of an epoch draws for all of its questions; 0 if it scores all or draws for each fact."""
        if not isinstance(self.candidates, Sample):
            return 0
        return self.candidates.size(epoch, self.experiment.training.epochs, self.entry.entities)

    def scored(self, epoch: int) -> int:
        """How many entities each question of an epoch is compared with, if they are not drawn for each fact."""
        return self.drawn(epoch) or self.entry.entities

    def epoch_seconds(self, epoch: int) -> float:
        """Its steps."""
        batch, smoothness = self.experiment.training.questions_a_step, self.experiment.smoothness
        smoothed = min(1.0, PAIR / smoothness.every) if smoothness.weight else 0.0
        each = (
            _step_seconds(self.shape, batch, smoothed) + 4 * self.shape.width * self.drawn(epoch) / ROW_BYTES_A_SECOND
        )
        if isinstance(self.candidates, Negatives):
            scoring = self.facts * self.candidates.count * self.shape.width / DRAWN_NUMBERS_A_SECOND
        else:
            scoring = self._scoring(self.questions * self.scored(epoch)) / self._gain()
        return math.ceil(self.questions / batch) * each + scoring

    def ranking_seconds(self) -> float:
        """The ranking of valid after every few epochs, and of test at the end: scores of all entities without gradients."""
        training = self.experiment.training
        often = {"valid": math.ceil(training.epochs / training.validate_every), "test": 1}
        ranked = sum(2 * file.facts * often.get(split, 0) for split, file in self.entry.files.items())
        return self._scoring(ranked * self.entry.entities) / 3

    def _gain(self) -> float:
        """How many times as fast products of this precision are as those of float32. Ranking is always done in float32."""
        precision = self.experiment.training.precision
        gain = 1.0 if precision in ("float32", "tf32") else bf16_gain()
        return gain if precision == "bf16" or (precision == "auto" and gain >= FASTER) else 1.0

    def _scoring(self, pairs: float) -> float:
        """The scores of `pairs` of question and entity, and their gradients."""
        if not self.shape.by_product:
            return pairs * self.shape.width / NUMBERS_A_SECOND
        return product_seconds(pairs, self.shape.width, PRODUCT_SHARE * self.speed)


def _step_seconds(shape: ModelSize, questions: int, smoothed: float) -> float:
    """What a step takes besides its candidates. `smoothed` is 1 if it smooths all times, and less if that takes less."""
    # The number of distinct matrices in a step if all were equally frequent; with two tables each pair is one matrix.
    kinds = math.prod(shape.matrices) if shape.matrices else 0
    distinct = kinds * -math.expm1(-questions / kinds) if kinds else 0.0
    matrix = MATRIX_SECONDS + 4 * shape.width**2 / MATRIX_BYTES_A_SECOND
    return STEP_SECONDS + distinct * matrix + smoothed * 4 * shape.times / TIME_BYTES_A_SECOND


def until_all_ended(seconds: Sequence[float], at_once: int) -> float:
    """How long it takes until all runs have ended, if they begin in this order and `at_once` of them run at a time.

    >>> until_all_ended([1.0, 1.0, 5.0], 2), until_all_ended([], 2)
    (6.0, 0.0)
    """
    ends = [0.0] * at_once
    for run in seconds:
        heapreplace(ends, ends[0] + run)
    return max(ends)
