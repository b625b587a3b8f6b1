"""Timing: how long epochs and validations take on this machine, from a few of their steps."""

from __future__ import annotations

import time

from dura.config import Experiment
from dura.data.graph import Graph
from dura.evaluation import rank as rank_facts
from dura.runs.auto import seconds_a_fact
from dura.runs.build import build_model, questions_of, torch_settings
from dura.runs.texts import show_graph


def epoch_seconds(experiment: Experiment, graph: Graph) -> float:
    """Seconds per epoch, from a few steps."""
    return float(questions_of(experiment, graph).facts * seconds_a_fact(experiment, graph))


def valid_seconds(experiment: Experiment, graph: Graph, facts: int = 100) -> float:
    """Seconds to rank all valid facts, from some of them."""
    model = build_model(experiment, graph.sizes, experiment.training.device).eval()
    show_graph(model, graph)
    asked, known = graph.asked("valid"), graph.known
    with torch_settings(experiment, model):
        rank_facts(model, asked[:2], known, len(graph.relations))
        began = time.perf_counter()
        rank_facts(model, asked[:facts], known, len(graph.relations))
    return (time.perf_counter() - began) * len(asked) / max(1, min(facts, len(asked)))
