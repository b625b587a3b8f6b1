"""Parts: settings into live objects. Everything is checked here before any work begins."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dura.config import Component, Experiment
from dura.models import MODELS, Model, SemanticMatching
from dura.objectives import OBJECTIVES, Objective
from dura.regularizers import REGULARIZERS, Regularizer
from dura.training.optimizers import optimizer
from dura.types import BadInput, Sizes


@dataclass(frozen=True)
class Parts:
    """The live objects of one experiment."""

    model: Model
    objective: Objective
    regularizer: Regularizer
    optimizer: torch.optim.Optimizer


def complete(experiment: Experiment) -> Experiment:
    """The experiment with every default of its components written out: what a run meant stays what it means."""
    for table, registry in (("model", MODELS), ("regularizer", REGULARIZERS), ("objective", OBJECTIVES)):
        component: Component = getattr(experiment, table)
        defaults = {
            key: option.default for key, option in registry.options(component.name).items() if not option.required
        }
        for key, value in {**defaults, **component.options}.items():
            experiment = experiment.with_value(f"{table}.{key}", value)
    return experiment


def build(experiment: Experiment, sizes: Sizes) -> Parts:
    """Model, objective, regularizer and optimizer of an experiment, or an error that says which setting is wrong."""
    regularizer = REGULARIZERS.build(experiment.regularizer.name, experiment.regularizer.options)
    kind = MODELS.get(experiment.model.name)
    diagonal = kind.family.diagonal if issubclass(kind, SemanticMatching) else False
    regularizer.check(experiment.regularizer.name, experiment.model.name, diagonal)
    objective = OBJECTIVES.build(experiment.objective.name, experiment.objective.options)
    objective.product_type = product_type(experiment.training.precision, experiment.training.device)
    if experiment.training.threads:
        torch.set_num_threads(experiment.training.threads)
    model = build_model(experiment, sizes, experiment.training.device)
    settings = experiment.optimizer
    return Parts(model, objective, regularizer, optimizer(settings.name, settings.options, model.parameters()))


def build_model(experiment: Experiment, sizes: Sizes, device: str) -> Model:
    """The model with its tables drawn from the seed, on the CPU whatever the device: the same start everywhere."""
    place = checked_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.training.seed)
        model = MODELS.build(experiment.model.name, experiment.model.options, sizes)
    return model.to(place)


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
    """What the precision setting means for the products: a lower type, or torch's switch for TF32."""
    if precision == "tf32":
        if not device.startswith("cuda"):
            raise BadInput(f"training.precision is 'tf32', but only CUDA devices have it and the device is {device!r}")
        torch.set_float32_matmul_precision("high")
    return torch.bfloat16 if precision == "bf16" else None
