"""Build: make live objects from settings. Every setting is checked here, before any work begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dura import world
from dura.config import Component, Experiment
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.models import MODELS, Dot, Model, SemanticMatching, adopt
from dura.objectives import CANDIDATES, LOSSES, Hole, Objective, objective_of
from dura.objectives.rejected import Rejected
from dura.registry import Registry
from dura.regularizers import REGULARIZERS, Regularizer, Smoothness
from dura.tables import Sharded
from dura.tables.mapped import taken
from dura.training.optimizers import optimizer
from dura.types import BadInput, Sizes

SMALL_STEP = 2e8
"""Steps with fewer floating point operations use one thread. This many take a few milliseconds on one core."""


@dataclass(frozen=True)
class Parts:
    """The live objects of one experiment."""

    model: Model
    objective: Objective
    regularizer: Regularizer
    optimizer: torch.optim.Optimizer
    smoothness: Smoothness


_REGISTRIES: dict[str, Registry[Any]] = {
    "model": MODELS,
    "regularizer": REGULARIZERS,
    "loss": LOSSES,
    "candidates": CANDIDATES,
}


def complete(experiment: Experiment) -> Experiment:
    """The experiment with all defaults of its components written out, so that changed defaults never change an old run."""
    for table, registry in _REGISTRIES.items():
        component: Component = getattr(experiment, table)
        options = registry.options(component.name).items()
        defaults = {key: o.default for key, o in options if not o.required and o.default is not None}
        for key, value in {**defaults, **component.options}.items():
            experiment = experiment.with_value(f"{table}.{key}", value)
    return experiment


def build(experiment: Experiment, sizes: Sizes) -> Parts:
    """Model, objective, regularizer and optimizer of an experiment. An error says which setting is wrong."""
    most = 8 * (os.cpu_count() or 1)
    if experiment.training.threads > most:
        raise BadInput(
            f"training.threads is {experiment.training.threads}, but at most {most} are allowed on this machine"
        )
    regularizer = REGULARIZERS.build(experiment.regularizer.name, experiment.regularizer.options)
    kind = MODELS.get(experiment.model.name)
    _check_times(experiment, kind, sizes)
    _check_alternating(experiment, kind)
    regularizer.check(experiment.regularizer.name, experiment.model.name, kind.traits())
    objective = build_objective(experiment)
    samples = experiment.candidates.options.get("samples")
    if isinstance(samples, int) and samples > 10 * max(sizes.entities, 1000):
        raise BadInput(
            f"candidates.samples is {samples:,}, but the graph has {sizes.entities:,} entities: draw fewer, or use "
            "candidates.name = 'all'"
        )
    _check_world(experiment, objective, sizes)
    model = build_model(experiment, sizes, experiment.training.device)
    _check_terms(experiment, model)
    _check_team(experiment, model)
    if experiment.training.precision == "bf16" and not isinstance(model.comparator, Dot):
        raise BadInput(
            f"training.precision is 'bf16', but {experiment.model.name!r} does not score by inner products: use 'float32'"
        )
    settings = experiment.optimizer
    return Parts(
        model,
        objective,
        regularizer,
        optimizer(settings.name, settings.options, model.parameters()),
        _smoothness(experiment, _dense(kind)),
    )


def build_objective(experiment: Experiment) -> Objective:
    """The terms of an experiment, with their loss and candidates."""
    loss = LOSSES.build(experiment.loss.name, experiment.loss.options)
    candidates = CANDIDATES.build(experiment.candidates.name, experiment.candidates.options)
    candidates.product_type = product_type(experiment.training.precision, experiment.training.device)
    if loss.whole_questions and candidates.kind == "all" and experiment.training.batching == "facts":
        raise BadInput(
            f"the loss {experiment.loss.name!r} needs all answers of a question at once: set training.batching = 'questions'"
        )
    terms = experiment.terms
    weights: dict[Hole, float] = {"tails": terms.tails, "relations": terms.relations, "times": terms.times}
    return objective_of(weights, loss, candidates, terms.share)


ELEMENTWISE = ("adagrad", "adam", "adamw", "adamax", "nadam", "radam", "sgd", "rmsprop", "adadelta", "rprop", "asgd")
"""Optimizers that treat each number by itself, so that a part of a table is updated like the whole."""


def _check_team(experiment: Experiment, model: Model) -> None:
    """Refuse a model that several processes cannot train together."""
    name, spread = experiment.model.name, isinstance(model.target_table, Sharded)
    if world.shards() > 1 and (not spread or model.grouped_by or type(model).targets is not Model.targets):
        raise BadInput(
            f"the entities of the model {name!r} cannot be spread over processes: set world.shards = 1 and "
            f"world.replicas = {world.size()}"
        )
    if world.count("all") > 1 and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        raise BadInput(
            f"the model {name!r} has batch norm, whose statistics need the whole batch in one process: start one process"
        )


def _check_alternating(experiment: Experiment, kind: type[Model]) -> None:
    """Refuse alternating least squares where it is not defined, and settings that it would not look at."""
    if experiment.optimizer.name.lower() != "als":
        return
    if kind.alternate is Model.alternate:
        raise BadInput(
            f"the model {experiment.model.name!r} cannot be trained by alternating least squares; "
            "use --set optimizer.name=adagrad"
        )
    if world.size() > 1:
        raise BadInput("optimizer.name = 'als' needs all facts and tables in one process: start one process")
    if experiment.regularizer.name != "none" or experiment.smoothness.weight:
        raise BadInput(
            "alternating least squares has no other penalty than optimizer.ridge: set regularizer.name = 'none' and "
            "smoothness.weight = 0"
        )


def _check_world(experiment: Experiment, objective: Objective, sizes: Sizes) -> None:
    """Refuse what is not defined if the rows of the entities are spread over processes."""
    if world.shards() == 1:
        return
    if sizes.entities < world.shards():
        raise BadInput(
            f"the graph has {sizes.entities:,} entities, which cannot be spread over {world.shards()} processes: start fewer"
        )
    instead = f"set world.shards = 1 and world.replicas = {world.size()}, or start one process"
    term = objective.terms[0]
    if not term.candidates.spreads:
        raise BadInput(
            f"candidates.name = {experiment.candidates.name!r} needs all entities in each process: {instead}"
        )
    if not term.loss.spreads:
        raise BadInput(
            f"loss.name = {experiment.loss.name!r} needs the scores of all entities in each process: {instead}"
        )
    if experiment.optimizer.name.lower() not in ELEMENTWISE:
        raise BadInput(f"optimizer.name = {experiment.optimizer.name!r} needs whole tables in each process: {instead}")


def _check_times(experiment: Experiment, kind: type[Model], sizes: Sizes) -> None:
    """Refuse a temporal model without times, times without a temporal model, and smoothness that is not defined."""
    name, smooth = experiment.model.name, experiment.smoothness
    if kind.temporal and not sizes.times:
        raise BadInput(
            f"{name!r} is a model for facts with times, but this graph has none: name the column of times, or use 'complex'"
        )
    if sizes.times and not kind.temporal:
        raise BadInput(
            f"the facts of this graph have times, but {name!r} is a static model: use 'tcomplex', or read the graph without "
            "its times (--columns 0,1,2)"
        )
    if smooth.weight and kind.timeline is Model.timeline:
        raise BadInput(f"smoothness.weight is {smooth.weight}, but {name!r} has no times that could be smooth")
    if smooth.weight and _dense(kind) and smooth.p not in ("auto", 2):
        raise BadInput(
            f"smoothness.p is {smooth.p}, but the times of {name!r} are matrices: only p = 2 is defined for them"
        )


def _check_terms(experiment: Experiment, model: Model) -> None:
    """Refuse to ask a model for relations or times if it cannot be asked for them."""
    for hole, weight in (("relations", experiment.terms.relations), ("times", experiment.terms.times)):
        if weight and hole not in model.holes:
            # The class could be asked, so a setting forbids it: distances are not linear in relations and times.
            kind = " with model.comparator = 'distance'" if hole in type(model).holes else ""
            can = " and ".join(model.holes) or "entities only"
            raise BadInput(
                f"terms.{hole} is {weight:g}, but the model {experiment.model.name!r}{kind} cannot be asked for {hole}: it can be "
                f"asked for {can}; set terms.{hole} = 0"
            )


def _dense(kind: type[Model]) -> bool:
    """True if relations and times are matrices."""
    return issubclass(kind, SemanticMatching) and not kind.diagonal


def _smoothness(experiment: Experiment, dense: bool) -> Smoothness:
    """Λ_p. If no p is chosen, it is 2 for matrices and 3 for rows."""
    p = experiment.smoothness.p
    return Smoothness(
        experiment.smoothness.weight, p if p != "auto" else 2 if dense else 3, experiment.smoothness.every
    )


def open_model(
    experiment: Experiment, sizes: Sizes, state: Mapping[str, Tensor], device: str, *, shared: bool = False
) -> Model:
    """The model of an experiment with a saved state. If the model allows it, no random tables are made.

    If it is `shared`, the tables on the CPU stay in the mapped file, so that the processes of a machine share their memory.
    """
    place = checked_device(device)
    model = blank_model(experiment, sizes)
    if shared and place.type == "cpu":
        adopt(model, state)
        return model
    own = model.state_dict(keep_vars=True)
    spans = {name: table.span for name, table in own.items() if isinstance(table, Sharded)}
    adopt(model, {name: taken(tensor, spans.get(model.renamed.get(name, name))) for name, tensor in state.items()})
    return model.to(place)


def blank_model(experiment: Experiment, sizes: Sizes) -> Model:
    """A model that will be given its state. If the model allows it, its tensors have shapes but no memory yet."""
    if not MODELS.get(experiment.model.name).state_is_all:
        return build_model(experiment, sizes, "cpu")
    with torch.device("meta"):
        return MODELS.build(experiment.model.name, experiment.model.options, sizes)


def build_model(experiment: Experiment, sizes: Sizes, device: str) -> Model:
    """The model with tables drawn from the seed. They are drawn on the CPU, so that they are the same for every device."""
    place = checked_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.training.seed)
        model = MODELS.build(experiment.model.name, experiment.model.options, sizes)
    return model.to(place)


@contextmanager
def torch_settings(experiment: Experiment, model: Model) -> Iterator[None]:
    """Set torch's threads and precision for the experiment, and set them back afterwards."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(experiment.training.threads or chosen_threads(experiment, model))
    if experiment.training.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


def chosen_threads(experiment: Experiment, model: Model) -> int:
    """One thread if a step is small: several would mostly wait for each other. Otherwise as many threads as torch has."""
    operations = 6 * experiment.training.questions_a_step * model.sizes.entities * model.target_width
    return 1 if operations < SMALL_STEP else torch.get_num_threads()


def questions_of(experiment: Experiment, graph: Graph, epoch: int | None = None) -> Questions:
    """The questions to train on: distinct questions with all their answers, or each fact as one question.

    If facts hold for an interval, each `epoch` asks them at newly drawn times. Without an epoch they are asked at their begin.
    """
    questions = graph.questions
    if graph.intervals and epoch is not None:
        rng = np.random.default_rng([experiment.training.seed, epoch, 1])
        questions = Questions.of(graph.at_times(graph.train, rng), relations=len(graph.relations))
    return questions.one_by_one() if experiment.training.batching == "facts" else questions


def rejected_of(experiment: Experiment, graph: Graph) -> Callable[[Model, int, int], Tensor | float]:
    """The loss of facts that should score low: those that people rejected."""
    if graph.reviews is None or not len(graph.reviews.rejected) or not experiment.terms.rejected:
        return lambda *_: 0.0
    instead = "set terms.rejected = 0 to train without holding them down"
    if experiment.optimizer.name.lower() == "als":
        raise BadInput(
            f"rejected facts are held down by gradients, which optimizer.name = 'als' does not use; {instead}"
        )
    if world.size() > 1:
        raise BadInput(f"rejected facts can be held down by one process only, but there are {world.size()}; {instead}")
    return Rejected(graph.reviews.rejected, len(graph.relations), experiment.terms.rejected)


def checked_device(name: str) -> torch.device:
    """The torch device of this name. An error says which devices there are."""
    there = ["cpu"]
    there += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    there += ["mps"] if torch.backends.mps.is_available() else []
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInput(f"the device {name!r} is not known; this machine has {', '.join(there)}") from None
    if device.type == "cuda" and device.index is None and len(there) > 1:
        device = torch.device(f"cuda:{world.local_rank()}")
    if str(device) not in there:
        raise BadInput(f"the device {name!r} is not available; this machine has {', '.join(there)}")
    return device


def product_type(precision: str, device: str) -> torch.dtype | None:
    """The type of matrix products, or None if it is that of the tables. TF32 is not a type but a switch of torch."""
    if precision == "tf32" and not device.startswith("cuda"):
        raise BadInput(f"training.precision is 'tf32', but only CUDA devices have it and the device is {device!r}")
    return torch.bfloat16 if precision == "bf16" else None
