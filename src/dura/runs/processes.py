"""Processes: what a run does before the first step if torchrun has started several processes for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import torch

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.records import RunFolder
from dura.runs.choices import Choices
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
    if isinstance(out, Path):
        return out
    if world.size() > 1:
        raise BadInput(
            "several processes train one run, so they need a folder for it: give --out RUN (in Python out=…)"
        )
    return out(name) if out is not None else None


def refuse_auto(path: str, instead: str) -> None:
    """Refuse to measure with several processes: each would choose another value."""
    if world.size() > 1:
        raise BadInput(f"{path} is 'auto', which measures one process: give several processes {instead}")


def job_of(choices: Choices) -> str:
    """What a run remembers of the job that begins it: the name of the job and its settings; empty for one process."""
    if world.size() == 1:
        return ""
    return f"{world.job()} {hashlib.sha256(choices.text().encode()).hexdigest()[:16]}"


def interrupted(out: Path | Callable[[str], Path] | None, job: str) -> Path | None:
    """The run folder to continue with, if this job has begun the run in it and torchrun has started the job again."""
    if world.size() == 1 or not isinstance(out, Path):
        return None
    begun = world.by_leader(lambda: _begun_by(out) == job)
    return out if world.texts("yes" if begun else "")[0] else None


def _begun_by(run: Path) -> str | None:
    """The job that has begun a run; None if there is no run, or one process has begun it."""
    if not (run / "run.json").exists():
        return None
    starts = [record for record in RunFolder.open(run).records() if record["kind"] == "start"]
    return starts[0].get("job") if starts else None


def agree_on(experiment: Experiment, graph: Graph) -> None:
    """Refuse to begin if the processes have different programs, settings or data."""
    if world.size() == 1:
        return
    facts = {"the version of dura": __version__, "the version of torch": torch.__version__}
    facts["the data"] = f"{len(graph.train):,} training facts with the digest {graph.digest[:12]}"
    settings = experiment.by_path()
    del settings["graph.source"]  # the same data may have another path on another host
    facts |= {f"the setting {path}": repr(value) for path, value in settings.items()}
    world.agree(facts)
