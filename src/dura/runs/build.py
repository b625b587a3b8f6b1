"""Parts: settings into live objects. Everything is checked here before any work begins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from dura.config import Component, Experiment
from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.models import MODELS, Model, SemanticMatching
from dura.objectives import OBJECTIVES, Objective
from dura.regularizers import REGULARIZERS, Regularizer, Smoothness
from dura.training.optimizers import optimizer
from dura.types import BadInput, Sizes

SMALL_STEP = 2e8
"""Floating point operations of a step's products; below this a step takes a few milliseconds on one core."""


@dataclass(frozen=True)
class Parts:
    """The live objects of one experiment."""

    model: Model
    objective: Objective
    regularizer: Regularizer
    optimizer: torch.optim.Optimizer
    smoothness: Smoothness


def complete(experiment: Experiment) -> Experiment:
    """The experiment with every default of its components written out: what a run meant stays what it means."""
    for table, registry in (("model", MODELS), ("regularizer", REGULARIZERS), ("objective", OBJECTIVES)):
        component: Component = getattr(experiment, table)
        options = registry.options(component.name).items()
        defaults = {key: o.default for key, o in options if not o.required and o.default is not None}
        for key, value in {**defaults, **component.options}.items():
            experiment = experiment.with_value(f"{table}.{key}", value)
    return experiment


def build(experiment: Experiment, sizes: Sizes) -> Parts:
    """Model, objective, regularizer and optimizer of an experiment, or an error that says which setting is wrong."""
    most = 8 * (os.cpu_count() or 1)
    if experiment.training.threads > most:
        raise BadInput(
            f"training.threads is {experiment.training.threads}, but on this machine at most {most} make sense"
        )
    regularizer = REGULARIZERS.build(experiment.regularizer.name, experiment.regularizer.options)
    kind = MODELS.get(experiment.model.name)
    diagonal = kind.family.diagonal if issubclass(kind, SemanticMatching) else False
    _check_times(experiment, kind, diagonal, sizes)
    regularizer.check(experiment.regularizer.name, experiment.model.name, diagonal, kind.temporal)
    objective = OBJECTIVES.build(experiment.objective.name, experiment.objective.options)
    objective.product_type = product_type(experiment.training.precision, experiment.training.device)
    model = build_model(experiment, sizes, experiment.training.device)
    settings = experiment.optimizer
    return Parts(
        model,
        objective,
        regularizer,
        optimizer(settings.name, settings.options, model.parameters()),
        _smoothness(experiment, diagonal),
    )


def _check_times(experiment: Experiment, kind: type[Model], diagonal: bool, sizes: Sizes) -> None:
    """Refuse a temporal model without times, times without a temporal model, and smoothness that is not defined."""
    name, smooth = experiment.model.name, experiment.smoothness
    if kind.temporal and not sizes.times:
        raise BadInput(
            f"{name!r} is a model of dated facts, and this graph has no times: name their column, or take 'complex'"
        )
    if sizes.times and not kind.temporal:
        raise BadInput(
            f"the facts of this graph have times, and {name!r} is a static model: take 'tcomplex', or read the graph without "
            "its times (--columns 0,1,2)"
        )
    if smooth.weight and not kind.temporal:
        raise BadInput(f"smoothness.weight is {smooth.weight}, but {name!r} has no times that could be smooth")
    if smooth.weight and not diagonal and smooth.p not in ("auto", 2):
        raise BadInput(
            f"smoothness.p is {smooth.p}, but the times of {name!r} are matrices: only p = 2 is defined for them"
        )


def _smoothness(experiment: Experiment, diagonal: bool) -> Smoothness:
    """Λ_p with the norm that fits the model where none is chosen."""
    p = experiment.smoothness.p
    return Smoothness(experiment.smoothness.weight, p if p != "auto" else 3 if diagonal else 2)


def build_model(experiment: Experiment, sizes: Sizes, device: str) -> Model:
    """The model with its tables drawn from the seed, on the CPU whatever the device: the same start everywhere."""
    place = checked_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.training.seed)
        model = MODELS.build(experiment.model.name, experiment.model.options, sizes)
    return model.to(place)


@contextmanager
def torch_settings(experiment: Experiment, model: Model) -> Iterator[None]:
    """torch's threads and precision as the experiment wants them; afterwards they are what they were."""
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
    """One thread where a step is so small that threads would mostly wait for each other, else as many as torch has."""
    operations = 6 * experiment.training.questions_a_step * model.tail_table.numel()
    return 1 if operations < SMALL_STEP else torch.get_num_threads()


def questions_of(experiment: Experiment, graph: Graph, epoch: int | None = None) -> Questions:
    """The questions to train on: distinct ones with all their answers, or every fact as one of its own.

    Where facts hold for an interval, each `epoch` asks them at times drawn anew; without one they are asked at their begin.
    """
    questions = graph.questions
    if graph.intervals and epoch is not None:
        rng = np.random.default_rng([experiment.training.seed, epoch, 1])
        questions = Questions.of(graph.at_times(graph.train, rng), relations=len(graph.relations))
    return questions.one_by_one() if experiment.training.batching == "facts" else questions


def checked_device(name: str) -> torch.device:
    """The torch device of this name, or an error that says which devices there are."""
    there = ["cpu"]
    there += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    there += ["mps"] if torch.backends.mps.is_available() else []
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInput(f"the device {name!r} is not known; this machine has {', '.join(there)}") from None
    if device.type == "cuda" and device.index is None and len(there) > 1:
        device = torch.device("cuda:0")
    if str(device) not in there:
        raise BadInput(f"the device {name!r} is not available; this machine has {', '.join(there)}")
    return device


def product_type(precision: str, device: str) -> torch.dtype | None:
    """The type of the products where it is lower than that of the tables; TF32 is a switch of torch's own instead."""
    if precision == "tf32" and not device.startswith("cuda"):
        raise BadInput(f"training.precision is 'tf32', but only CUDA devices have it and the device is {device!r}")
    return torch.bfloat16 if precision == "bf16" else None
