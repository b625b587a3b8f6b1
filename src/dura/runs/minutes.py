"""Minutes: choose rank, epochs and candidates so that training makes good use of the time that the user allows.

Steps are measured first. If a whole training of the default rank does not fit, the epochs shrink, down to a quarter, and then the
rank: in the same time a large rank learns more than a small one with more epochs. If there is more time, the rank grows, then the
epochs, and then the samples grow from epoch to epoch, until the last epochs score all entities.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from dura.config import Experiment
from dura.data.graph import Graph
from dura.objectives import Sample
from dura.runs.cost import free_memory, model_size
from dura.runs.defaults import BATCHES, applies
from dura.runs.timing import epoch_seconds, valid_seconds
from dura.types import BadInput
from dura.words import duration

RANKS = (16, 32, 64, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2000)
"""The ranks to choose from. Models whose relations are matrices go up to 400."""
LARGEST_MATRICES = 400
MEMORY = 0.5
"""The tables, their gradients and the sums of the optimizer may take this share of the free memory."""
SAFE = 0.93
"""A training is planned for this share of the time that is left, because epochs are not all equally fast."""
FEWEST, MORE = 0.25, 2.0
"""The epochs may shrink to this part of the default before the rank does, and grow to this multiple of it."""
FOR_SAMPLES = 0.5
"""If the samples may grow, this share of the time is for a larger rank and more epochs. The rest is for larger samples."""
FOR_RANK = 0.8
"""The rank grows until a training takes this part of the time that there is for it."""
LEAST_GROWTH = 1.02
"""Samples that would grow by a smaller factor per epoch stay as they are."""
WHOLE_FROM = 0.5
"""Samples may grow so fast that the epochs after this part of the training score all entities."""
VALIDATING = 0.15
"""Validation may take this share of the time of training."""
SMALLEST, LARGEST = 1 / 6, 24 * 60
"""The minutes that are allowed."""


def check_minutes(minutes: float) -> float:
    """Refuse a time that is too short or too long; returns seconds."""
    if not SMALLEST <= minutes <= LARGEST:
        raise BadInput(
            f"minutes is {minutes:g}, but it is between {SMALLEST:.2g} (ten seconds) and {LARGEST:,} (a day)"
        )
    return 60 * minutes


@dataclass(frozen=True)
class Pace:
    """How long an epoch and a validation take."""

    epoch: float
    validation: float

    def every(self, epochs: int) -> int:
        """Epochs between validations: they should not take much of the time, but there should be four."""
        rare = math.ceil(self.validation / max(1e-9, VALIDATING * self.epoch))
        return max(1, min(rare, epochs // 4))

    def seconds(self, epochs: int) -> float:
        """Seconds of this many epochs with their validations."""
        return epochs * self.epoch + math.ceil(epochs / self.every(epochs)) * self.validation

    def epochs(self, seconds: float) -> int:
        """As many epochs as take at most this long, at least one."""
        low, high = 1, max(1, int(seconds / max(1e-9, self.epoch)))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.seconds(middle) <= seconds else (low, middle - 1)
        return low


def pace_of(experiment: Experiment, graph: Graph) -> Pace:
    """Measure an experiment."""
    return Pace(epoch_seconds(experiment, graph), valid_seconds(experiment, graph) if len(graph.valid) else 0.0)


def within(
    seconds: float,
    experiment: Experiment,
    graph: Graph,
    chosen: Collection[str],
    pace: Callable[[Experiment, Graph], Pace] = pace_of,
) -> tuple[Experiment, str]:
    """The settings of a training that takes about `seconds`, and a sentence that says what was chosen and why."""
    if experiment.optimizer.name.lower() == "als":
        raise BadInput("--minutes chooses a number of epochs, which alternating least squares has not: give --epochs")
    wanted, began = max(1, experiment.training.epochs), time.monotonic()
    whole = wanted if applies(experiment) else 1
    share = FOR_SAMPLES if _may_grow(experiment, chosen) else 1.0
    experiment, each, why = _ranked(SAFE * seconds, share, experiment, graph, chosen, whole, pace)
    seconds -= time.monotonic() - began  # measuring took time too
    safe = SAFE * seconds
    most = math.ceil(MORE * wanted)
    epochs = max(min(wanted, each.epochs(safe)), min(most, each.epochs(share * safe)))
    epochs = wanted if "training.epochs" in chosen else epochs
    falling = max(1, round(epochs * experiment.training.anneal / wanted)) if experiment.training.anneal else 0
    length = {
        "training.epochs": epochs,
        "training.anneal": falling,
        "training.validate_every": each.every(epochs),
        "training.patience": 0 if falling else experiment.training.patience,
    }
    experiment = experiment.with_values({path: value for path, value in length.items() if path not in chosen})
    added, grows = 0.0, ""
    if share < 1 and safe > each.seconds(epochs):
        experiment, added, grows = _growing(safe - each.seconds(epochs), each.epoch, experiment, graph, pace)
    taken = each.seconds(epochs) + added
    said = f"{duration(seconds)} are left for training: {why}{epochs} epochs of {duration(each.epoch)}{grows}"
    said += f", about {duration(taken)} in all"
    if taken > seconds:
        said += " (longer than asked: an epoch takes that long)"
    elif taken < 0.6 * safe and "training.epochs" not in chosen:
        said += "; more would not help much on this graph"
    return experiment, said


def _ranked(
    safe: float,
    share: float,
    experiment: Experiment,
    graph: Graph,
    chosen: Collection[str],
    wanted: int,
    pace: Callable[[Experiment, Graph], Pace],
) -> tuple[Experiment, Pace, str]:
    """The largest rank that leaves time for the wanted epochs; a smaller one only if not even a part of them fits.

    A `share` of the time is for larger ranks.
    """
    each = pace(experiment, graph)
    if not applies(experiment) or "model.rank" in chosen:
        return experiment, each, ""
    own = int(str(experiment.model.options["rank"]))
    small = len(graph.questions) <= min(BATCHES)  # more rank brings nothing on graphs of this size
    ranks = [rank for rank in _fitting(experiment, graph) if rank < own or (not small and rank > own)]
    best, found = own, each
    room = FOR_RANK * share * safe
    if each.seconds(wanted) <= room:
        for rank in (rank for rank in ranks if rank > own):
            more = pace(experiment.with_value("model.rank", rank), graph)
            if more.seconds(wanted) > room:
                break
            best, found = rank, more
    else:
        for rank in (rank for rank in reversed(ranks) if rank < own):
            if found.seconds(math.ceil(FEWEST * wanted)) <= safe:
                break
            best, found = rank, pace(experiment.with_value("model.rank", rank), graph)
    return experiment.with_value("model.rank", best), found, f"rank {best} (default {own}), "


def _fitting(experiment: Experiment, graph: Graph) -> list[int]:
    """The ranks whose tables fit into memory."""
    matrices, free = "rescal" in experiment.model.name, free_memory()
    ranks = [rank for rank in RANKS if not matrices or rank <= LARGEST_MATRICES]
    if free is None:
        return ranks
    numbers = {rank: model_size(experiment.with_value("model.rank", rank).model, graph.sizes).numbers for rank in ranks}
    return [rank for rank in ranks if 12 * numbers[rank] <= MEMORY * free]


def _may_grow(experiment: Experiment, chosen: Collection[str]) -> bool:
    """Whether training samples entities, and nobody chose how."""
    free = not any(path.startswith("candidates.") for path in chosen)
    return experiment.candidates.name == "sample" and applies(experiment) and free


def _growing(
    left: float, epoch: float, experiment: Experiment, graph: Graph, pace: Callable[[Experiment, Graph], Pace]
) -> tuple[Experiment, float, str]:
    """Let samples grow from epoch to epoch as fast as fits into the time that is left.

    An epoch over a sample takes `epoch` seconds, and time grows with the size of the sample. Also returns the seconds that this
    adds, and words that say what was chosen.
    """
    count, entities = experiment.training.epochs, len(graph.entities)
    sample = Sample(int(str(experiment.candidates.options["samples"])))
    if count < 2 or entities <= sample.samples:
        return experiment, 0.0, ""
    each = (pace(experiment.with_value("candidates.name", "all"), graph).epoch - epoch) / (entities - sample.samples)

    def sizes(growth: float) -> list[int]:
        grown = Sample(sample.samples, growth=growth)
        return [grown.size(at, count, entities) or entities for at in range(count)]

    def added(growth: float) -> float:
        return max(0.0, each) * sum(size - sample.samples for size in sizes(growth))

    low, high = 1.0, min(10.0, (entities / sample.samples) ** (1 / max(1.0, WHOLE_FROM * count)))
    if added(high) <= left:
        low = high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if added(middle) <= left else (low, middle)
    growth = math.floor(low * 1000) / 1000
    if growth < LEAST_GROWTH:
        return experiment, 0.0, ""
    last = sizes(growth)
    words = f", with samples that grow to {last[-1]:,} entities"
    if whole := last.count(entities):
        words = f", with samples that grow until the last {whole} score all entities"
    return experiment.with_value("candidates.growth", growth), added(growth), words
