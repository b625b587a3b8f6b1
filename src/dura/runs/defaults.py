"""Defaults: settings for a graph that nobody has tuned for.

They follow from a few numbers of the graph, so the same file gives the same settings on every machine. Only what the user did not
choose is set, and only for the models that DURA is made for: other models bring their own settings (`Model.defaults`). The weight
of the regularizer is then found by short trainings (`dura.runs.weight`). docs/decisions/defaults.md has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from dura.config import Experiment
from dura.data.graph import Graph
from dura.registry import Value

MODELS = ("complex", "cp", "distmult", "rescal", "tcomplex", "tntcomplex", "trescal")
"""The models that these settings are for."""
WEIGHED = ("dura", "dura-i", "dura-ii", "n3")
"""The regularizers that want about the same weight."""
SMALL, DENSE, LIGHT = 1000, 10.0, 0.01
"""With fewer entities than this, the search for a weight starts from a light one, but from a heavy one if there are fewer facts per
entity than `DENSE`. If there are few valid facts, there is no search, and this is the weight."""
SPARSE, CLASS_WEIGHT, HEAVY = 3.0, 0.9, 0.06
"""With fewer facts per entity than this, a fact counts more if its answer is frequent, and the search starts from a heavy one."""
MANY, SAMPLES = 4000, 1024
"""With more entities than this, a step scores a sample of them."""
RANKS = {10_000: 200, 200_000: 400, 1_000_000: 200, math.inf: 100}
"""The rank, for graphs of up to this many questions."""
DATED_RANKS = {10_000: 200, 200_000: 1000, 1_000_000: 400, math.inf: 200}
"""The same if facts have times. These models gain more from rank, and need fewer epochs for it."""
MATRICES = 4
"""Models whose relations are matrices have this part of the rank."""
BATCHES = {10_000: 100, 400_000: 250, 2_000_000: 500, math.inf: 1000}
"""Questions per step, for graphs of up to this many questions: small batches learn more per epoch, large ones are faster."""
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 10_000, 16, 100
"""A training has this many steps, in 16 to 100 epochs."""
DATED = 0.5
"""Of these, the part that models of dated facts have, if their rank is that of `DATED_RANKS`."""
VALIDATING = 0.15
"""Validation may take about this share of the operations of training."""


@dataclass(frozen=True)
class Outline:
    """The numbers of a graph that its settings follow from."""

    entities: int
    facts: int
    questions: int
    valid: int
    times: int = 0

    @classmethod
    def of(cls, graph: Graph) -> Outline:
        """The numbers of a graph: `facts` and `questions` are those of training."""
        sizes = graph.sizes
        return cls(sizes.entities, len(graph.train), len(graph.questions), len(graph.valid), sizes.times)


def applies(experiment: Experiment) -> bool:
    """Whether these settings are for the model and the optimizer of an experiment."""
    return experiment.model.name in MODELS and experiment.optimizer.name.lower() != "als"


def fit_to(experiment: Experiment, outline: Outline, chosen: Collection[str]) -> Experiment:
    """The settings with those that suit a graph of this outline. What was `chosen` stays.

    >>> fit_to(Experiment(), Outline(14_541, 272_115, 149_689, 17_535), chosen=["training.batch"]).model.options["rank"]
    400
    """
    if not applies(experiment):
        return experiment
    values = suited(outline, experiment, chosen)
    tables = {path.partition(".")[0] for path in chosen}
    if "candidates" in tables:  # samples would not suit other candidates
        values = {path: value for path, value in values.items() if not path.startswith("candidates.")}
    if experiment.loss.name != "softmax":
        values.pop("loss.w0", None)
    if "training.epochs" in chosen:
        epochs = experiment.training.epochs
        every = int(str(values["training.validate_every"]))
        values |= {"training.anneal": epochs // 2, "training.validate_every": max(1, min(every, epochs // 4))}
    return experiment.with_values({path: value for path, value in values.items() if path not in chosen})


def suited(outline: Outline, experiment: Experiment, chosen: Collection[str] = ()) -> dict[str, Value]:
    """The settings that suit a graph of this outline, by path. A small rank that was chosen has all epochs."""
    o, batch = outline, _step(BATCHES, outline.questions)
    matrices, dated = "rescal" in experiment.model.name, bool(experiment.smoothness.weight)
    rank, large = _step(RANKS, o.questions), _step(DATED_RANKS, o.questions)
    smaller = "model.rank" in chosen and int(str(experiment.model.options["rank"])) < large
    part = 1.0
    if dated and not matrices and large > rank:
        rank, part = large, 1.0 if smaller else DATED
    wanted = round(part * STEPS * batch / max(1, o.questions))
    epochs = min(MOST_EPOCHS, max(round(part * FEWEST_EPOCHS), wanted))
    values: dict[str, Value] = {
        "model.rank": rank // MATRICES if matrices else rank,
        "training.batch": batch,
        "training.epochs": epochs,
        "training.anneal": epochs // 2,
        "training.patience": 0,
    }
    if matrices and dated:  # the matrices of all times would take most of a step
        values["smoothness.every"] = max(1, o.times // batch)
    sampled = o.entities > MANY and experiment.loss.name == "softmax"
    if sampled:
        values |= {"candidates.name": "sample", "candidates.samples": SAMPLES, "candidates.draw": "frequency"}
    small, softmax = o.entities < SMALL, experiment.loss.name == "softmax"
    if o.facts < SPARSE * o.entities and sampled:
        values["loss.w0"] = CLASS_WEIGHT
    if experiment.regularizer.name in WEIGHED:
        if softmax and o.facts < (DENSE if small else SPARSE) * o.entities:
            values["regularizer.weight"] = HEAVY
        elif small:
            values["regularizer.weight"] = LIGHT
    ranking, training = 2 * o.valid * o.entities, 3 * o.questions * (SAMPLES if sampled else o.entities)
    every = math.ceil(ranking / max(1.0, VALIDATING * training))
    return values | {"training.validate_every": max(1, min(every, epochs // 4))}


def summary(experiment: Experiment, outline: Outline) -> str:
    """One sentence that says what was chosen for a graph."""
    e, t = experiment, experiment.training
    drawn = e.candidates.options.get("samples")
    scored = f"{drawn:,} sampled" if e.candidates.name == "sample" else "all"
    return (
        f"settings for {outline.entities:,} entities and {outline.questions:,} questions: {e.model.name} of rank "
        f"{e.model.options.get('rank')}, {t.epochs} epochs in batches of {t.batch}, the rate falls over the last {t.anneal}, "
        f"{scored} entities per step"
    )


def _step(sizes: dict[float, int], count: int) -> int:
    return next(value for most, value in sizes.items() if count <= most)
