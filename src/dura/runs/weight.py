"""Weight: find the weight of the regularizer by short trainings at a small rank.

No number of a graph says how much regularization it wants: graphs of the same size and density want weights that differ by a factor
of ten. So a few weights are tried, each three times the one before, in the direction that improves valid MRR. A small graph is
trained whole each time. For others the best weight of a short training at a small rank is lighter than that of the long one:
`heavier` makes up for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from dura.config import Experiment
from dura.data.graph import Graph
from dura.registry import Value
from dura.runs.build import complete
from dura.runs.defaults import applies
from dura.runs.timing import epoch_seconds, valid_seconds
from dura.words import duration

Attempt = Callable[[Experiment, Graph], float]
"""Trains an experiment that is not kept, and returns its best valid MRR."""
Tell = Callable[[str], None]

FACTOR, USUAL, MOST_TRIALS = 3.0, 3, 5
"""How far neighbouring weights are apart, how many are usually tried, and how many at most."""
RANK, MATRICES, SAMPLES = 128, 50, 512
"""The rank of short trainings, that of models whose relations are matrices, and how many entities they draw."""
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 4000, 4, 60
"""A short training has this many steps, in 4 to 60 epochs."""
WHOLE = 10_000
"""Graphs with up to this many questions take seconds to train, so their trainings are not shortened."""
COLLAPSED = 0.5
"""A trial with less than this part of the best valid MRR has collapsed: its embeddings were pulled to zero."""
LEAST_EPOCHS, LEAST_PART = 2, 0.4
"""With less time than for this many epochs per training, or this part of its epochs, there is no search. Hasty trainings prefer
light weights."""
LONGER = 1.6
"""The long training must be this many times as long as a short one, in epochs times rank, or the search is not worth its time."""
MOST_QUESTIONS = 1_000_000
"""Graphs with more questions than this keep the weight that they have: a short training would take too long."""
FEWEST_VALID, MOST_VALID = 100, 5000
"""How many valid facts judge a weight."""


def part_of_valid(graph: Graph, facts: int, seed: int) -> Graph:
    """The graph with only some of its valid facts, drawn once. The search ranks these, so that it can try more."""
    if facts >= len(graph.valid):
        return graph
    kept = np.sort(np.random.default_rng(seed).choice(len(graph.valid), facts, replace=False))
    return replace(graph, valid=graph.valid[kept], home=None)  # what is kept in a home belongs to the whole graph


def searched(experiment: Experiment, graph: Graph, chosen: Collection[str]) -> bool:
    """Whether the weight of this training is worth a search, and not chosen already."""
    worth = (
        applies(experiment)
        and "regularizer.weight" not in chosen
        and len(graph.valid) >= FEWEST_VALID
        and len(graph.questions) <= MOST_QUESTIONS
        and _long_enough(experiment, graph)
    )
    return worth and bool(complete(experiment).regularizer.options.get("weight"))


def _long_enough(experiment: Experiment, graph: Graph) -> bool:
    """Whether the training is long, compared with those of the search. That of a small graph is as long as they are."""
    if len(graph.questions) <= WHOLE:
        return experiment.training.epochs >= _epochs(experiment, graph)
    return _work(experiment) >= LONGER * _work(shortened(experiment, graph))


def heavier(long: Experiment, short: Experiment) -> float:
    """The weight of the long training, as a multiple of the best weight of the short ones: the root of the ratio of their ranks."""
    return math.sqrt(_rank(long) / _rank(short))


def _rank(experiment: Experiment) -> int:
    return int(str(complete(experiment).model.options["rank"]))


def _work(experiment: Experiment) -> int:
    """Epochs times rank."""
    return experiment.training.epochs * _rank(experiment)


def find_weight(
    experiment: Experiment, graph: Graph, attempt: Attempt, tell: Tell = lambda _: None, seconds: float = math.inf
) -> tuple[Experiment, str]:
    """The experiment with a better weight, and a sentence about it. If `seconds` are few, trainings are shorter still."""
    short, began = shortened(experiment, graph), time.monotonic()
    more = heavier(experiment, short)
    some = part_of_valid(graph, MOST_VALID, experiment.training.seed)
    if seconds < math.inf:
        epoch = epoch_seconds(short, graph)
        affordable = int((seconds / USUAL - valid_seconds(short, some)) / max(1e-9, epoch))
        if affordable < max(LEAST_EPOCHS, math.ceil(LEAST_PART * short.training.epochs)):
            return _unsearched(experiment, more)
        short = _long(short, min(affordable, short.training.epochs))

    kind = "short training" if _work(short) < _work(experiment) else "training"

    def judged(weight: float) -> float | None:
        spent = time.monotonic() - began
        if tried and spent * (1 + 1 / len(tried)) > seconds:
            return None
        start = time.monotonic()
        mrr = attempt(short.with_value("regularizer.weight", weight), some)
        took = duration(time.monotonic() - start)
        long = f"{more * weight:.2g}"  # the weight that would be chosen
        tell(f"looking for regularizer.weight: {long} has valid MRR {mrr:.4f} in a {kind} ({took})")
        return mrr

    tried: dict[float, float] = {}
    start = float(str(complete(experiment).regularizer.options["weight"])) / more
    climb(start, judged, tried)
    weight = long_weight(tried, more)
    shown = ", ".join(f"{more * weight:.2g}: {mrr:.4f}" for weight, mrr in sorted(tried.items()))
    sentence = (
        f"regularizer.weight is {weight:g}, from {len(tried)} {kind}s at rank {short.model.options['rank']} (valid MRR by "
        f"weight: {shown})"
    )
    if more > 1 and collapsed_above(tried):
        sentence += "; it is a little lighter than the best one, because the next heavier one collapsed"
    return experiment.with_value("regularizer.weight", weight), sentence


def _unsearched(experiment: Experiment, more: float) -> tuple[Experiment, str]:
    """The experiment with the weight that suits most graphs, and a sentence about it. That weight is one of a small rank."""
    kept = float(str(complete(experiment).regularizer.options["weight"]))
    why = "there is no time to search for a better one"
    if more == 1:
        return experiment, f"regularizer.weight stays at {kept:g}: {why}"
    weight = float(f"{kept * more:.2g}")
    return (
        experiment.with_value("regularizer.weight", weight),
        f"regularizer.weight is {weight:g}, the default for rank {_rank(experiment)}: {why}",
    )


def shortened(experiment: Experiment, graph: Graph) -> Experiment:
    """The experiment as a short training at a small rank, or as it is if the graph is small."""
    if len(graph.questions) <= WHOLE:
        return _long(experiment.with_value("training.patience", 0), experiment.training.epochs)
    epochs = _epochs(experiment, graph)
    small = MATRICES if "rescal" in experiment.model.name else RANK
    values: dict[str, Value] = {
        "model.rank": min(small, _rank(experiment)),
        "training.patience": 0,
    }
    if experiment.candidates.name == "sample":
        values |= {"candidates.samples": SAMPLES, "candidates.exact": 0, "candidates.growth": 1.0}
    return _long(experiment.with_values(values), epochs)


def _long(experiment: Experiment, epochs: int) -> Experiment:
    """The experiment with this many epochs, validated at its end."""
    return experiment.with_values(
        {"training.epochs": epochs, "training.anneal": epochs // 2, "training.validate_every": epochs}
    )


def climb(start: float, judged: Callable[[float], float | None], tried: dict[float, float]) -> None:
    """Try weights from `start` in steps of `FACTOR`, in the direction that improves, until the best one has neighbours.

    `judged` returns None if there is no time for another trial. `tried` collects what was found.
    """
    wanted = [start, start * FACTOR]
    while wanted and len(tried) < MOST_TRIALS:
        weight = wanted.pop(0)
        if (mrr := judged(weight)) is None:
            return
        tried[weight] = mrr
        if not wanted and len(tried) > 1:
            best = max(tried, key=lambda weight: (tried[weight], -weight))
            sides = [best / FACTOR, best * FACTOR]
            wanted = [side for side in sides if not any(math.isclose(side, done) for done in tried)]


def peak(tried: Mapping[float, float]) -> float:
    """The best weight: where a parabola through the best trial and its neighbours has its peak, over log weight.

    A neighbour with less than half of the best MRR has collapsed. No parabola fits a cliff, so the best trial stays.

    >>> round(peak({0.01: 0.30, 0.03: 0.32, 0.09: 0.30}), 3), peak({0.01: 0.3, 0.03: 0.2})
    (0.03, 0.01)
    >>> peak({0.02: 0.41, 0.06: 0.42, 0.18: 0.17})
    0.06
    """
    weights = sorted(tried)
    place = max(range(len(weights)), key=lambda i: (tried[weights[i]], -i))
    if not 0 < place < len(weights) - 1:
        return weights[place]
    below, best, above = (tried[weight] for weight in weights[place - 1 : place + 2])
    if min(below, above) < COLLAPSED * best:
        return weights[place]
    bend = below - 2 * best + above
    shift = 0.0 if bend >= 0 else 0.5 * (below - above) / bend
    return float(weights[place] * FACTOR ** max(-0.5, min(0.5, shift)))


def long_weight(tried: Mapping[float, float], more: float) -> float:
    """The weight of the long training: `more` times the best one, but not if it is near a cliff."""
    return float(f"{peak(tried) * (1.0 if collapsed_above(tried) else more):.2g}")


def collapsed_above(tried: Mapping[float, float]) -> bool:
    """Whether the next heavier weight than the best one has collapsed, so that the best one is near a cliff.

    >>> collapsed_above({0.01: 0.75, 0.03: 0.77, 0.09: 0.26}), collapsed_above({0.01: 0.75, 0.03: 0.77, 0.09: 0.6})
    (True, False)
    """
    best = max(tried, key=lambda weight: (tried[weight], -weight))
    above = [weight for weight in tried if weight > best]
    return bool(above) and tried[min(above)] < COLLAPSED * tried[best]


def _epochs(experiment: Experiment, graph: Graph) -> int:
    """The epochs of a short training."""
    batch = experiment.training.batch
    steps = math.ceil(len(graph.questions) / (500 if batch == "auto" else batch))
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(STEPS / max(1, steps))))
