"""Processes: what a run does before the first step if torchrun has started several processes for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.types import BadInput, __version__


def join_for(experiment: Experiment) -> None:
    """Join the other processes of the job, if torchrun started several."""
    w = experiment.world
    world.join(w.shards, w.replicas, experiment.training.device, w.timeout)


def fitting(experiment: Experiment) -> Experiment:
    """The settings with a grid that fits the processes there are: a run may be continued by another number of processes."""
    w = experiment.world
    if (w.shards or world.size() // w.replicas) * w.replicas == world.size():
        return experiment
    return experiment.with_values({"world.shards": 0, "world.replicas": 1})


def folder_of(out: Path | Callable[[str], Path] | None, name: str) -> Path | None:
    """The run folder to make."""
    if not callable(out):
        return out
    if world.size() > 1:
        raise BadInput("several processes train one run, so they need the name of its folder: give --out RUN")
    return out(name)


def interrupted(out: Path | Callable[[str], Path] | None) -> Path | None:
    """The run folder to continue with, if torchrun has started this job again and the run had begun."""
    return out if world.restarts() and isinstance(out, Path) and (out / "run.json").exists() else None


def agree_on(experiment: Experiment, graph: Graph) -> None:
    """Refuse to begin if the processes have different programs, settings or data."""
    if world.size() == 1:
        return
    import torch

    facts = {"the version of dura": __version__, "the version of torch": torch.__version__}
    facts["the data"] = f"{len(graph.train):,} training facts with the digest {graph.digest[:12]}"
    settings = experiment.by_path()
    del settings["graph.source"]  # the same data may have another path on another host
    facts |= {f"the setting {path}": repr(value) for path, value in settings.items()}
    world.agree(facts)
