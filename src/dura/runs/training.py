"""Training: the trainer of a run, made of its settings, its graph and its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dura import world
from dura.config import Experiment
from dura.data.graph import Graph
from dura.evaluation import metrics, rank
from dura.records import RunFolder
from dura.runs.build import Parts, build, complete, questions_of, rejected_of, torch_settings
from dura.runs.recorder import Recorder
from dura.runs.texts import show_graph
from dura.training.checkpoint import Checkpoints
from dura.training.progress import Listener, Plan
from dura.training.trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Start:
    """What a trainer is made of, besides the parts."""

    experiment: Experiment
    graph: Graph
    listeners: tuple[Listener, ...]
    stopped: Callable[[], bool]


def built(start: Start) -> Parts:
    """The parts of an experiment, in every process."""
    return world.together(lambda: build(start.experiment, start.graph.sizes))


def tell(listeners: tuple[Listener, ...], *sentences: str) -> None:
    """Give sentences to all listeners."""
    for sentence in sentences:
        for listener in listeners:
            listener.notice(sentence)


def best_mrr(experiment: Experiment, graph: Graph, stopped: Callable[[], bool]) -> float:
    """The best valid MRR of a training that is not kept."""
    start = Start(complete(experiment), graph, (), stopped)
    parts = built(start)
    trainer = trainer_of(start, parts, None)
    with torch_settings(start.experiment, parts.model):
        return trainer.run().best


def trainer_of(start: Start, parts: Parts, folder: RunFolder | None) -> Trainer:
    """The trainer of a run. Without a folder nothing is kept."""
    experiment, graph, listeners = start.experiment, start.graph, start.listeners
    t = experiment.training
    show_graph(parts.model, graph, partial(tell, listeners))

    def validate() -> dict[str, float]:
        found = metrics(rank(parts.model, graph.asked("valid"), graph.known, len(graph.relations)))
        return {"mrr": found.mrr, **{f"hits@{k}": share for k, share in found.hits.items()}}

    return Trainer(
        parts.model,
        parts.objective,
        parts.regularizer,
        parts.optimizer,
        questions_of(experiment, graph),
        Plan(t.epochs, t.questions_a_step, t.seed, t.validate_every, t.patience, t.checkpoint_every, t.anneal),
        validate=validate if len(graph.valid) else None,
        checkpoints=None if folder is None else Checkpoints(folder.path / "checkpoints"),
        listeners=listeners if folder is None or not world.leads() else (Recorder(folder), *listeners),
        stopped=start.stopped,
        smooth=_smoothness(parts, graph),
        redraw=partial(questions_of, experiment, graph) if graph.intervals else None,
        facts=graph.training_facts if graph.intervals else None,
        rejected=rejected_of(experiment, graph),
    )


def _smoothness(parts: Parts, graph: Graph) -> Callable[[int], Tensor | float]:
    """The penalty on neighbouring times; nothing if the model has no times."""
    if parts.model.timeline is None or graph.times is None:
        return lambda _: 0.0
    table, reals = parts.model.timeline
    return partial(parts.smoothness, table, len(graph.times.positions), reals)
