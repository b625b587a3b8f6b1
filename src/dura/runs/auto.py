"""Auto: choose batch size, precision of products and threads for this machine, model and graph by short measurements."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache

import torch

from dura.config import Experiment
from dura.data.graph import Graph
from dura.objectives import All
from dura.runs.build import build, build_objective, checked_device, questions_of, torch_settings
from dura.runs.cost import model_size
from dura.runs.texts import show_graph
from dura.training.progress import Plan
from dura.training.trainer import Trainer
from dura.types import BadInput, Sizes

SIZES = (64, 128, 256, 512, 1024, 2048)
ENOUGH = 0.85
"""The smallest batch with at least this share of the best speed is chosen: small batches learn more per epoch."""
LEAST_STEPS = 50
"""An epoch should have at least this many steps; larger batches are not tried."""
SECONDS = 10.0
"""After this many seconds no larger batch is tried."""
FASTER = 1.3
"""Products are computed in bfloat16 if they are at least this many times as fast."""
MOST_STEPS, ENOUGH_SECONDS = 48, 0.6
"""Steps are timed at most this many times, and no more after this many seconds."""
WARM = 3
"""The first third of the timed steps is to warm up: bfloat16 compiles a kernel for each new shape."""
ALONE = 0.95
"""One thread is enough if it has this part of the speed of all."""
QUESTIONS, WIDTH, CANDIDATES, PRODUCTS = 256, 800, 4096, 8
"""The shape of the products that are compared, and how many of them."""


def settle(experiment: Experiment, graph: Graph) -> tuple[Experiment, str]:
    """Replace `training.batch = "auto"` by a number. Also returns a sentence that says what was measured."""
    if experiment.optimizer.name.lower() == "als":
        raise BadInput("training.batch is 'auto', but alternating least squares has no batches: leave it out")
    began, speeds = time.monotonic(), dict[int, float]()
    questions = questions_of(experiment, graph)
    for size in SIZES:
        late = time.monotonic() - began > SECONDS or size * LEAST_STEPS > len(questions)
        if speeds and late:
            break
        speeds[size] = facts_a_second(experiment.with_value("training.batch", size), graph)
    chosen = pick(speeds)
    experiment = experiment.with_value("training.batch", chosen)
    candidates = build_objective(experiment).terms[0].candidates
    block = candidates.size(chosen, graph.sizes.entities) if isinstance(candidates, All) else chosen
    measured = ", ".join(f"{size}: {speed:,.0f}" for size, speed in speeds.items())
    return experiment, f"auto chose batches of {chosen} questions in blocks of {block} (facts/s by batch: {measured})"


def settle_precision(
    experiment: Experiment, sizes: Sizes, gain: Callable[[str], float] | None = None
) -> tuple[Experiment, str]:
    """Replace `training.precision = "auto"` by a precision. Also returns a sentence that says why."""
    if not model_size(experiment.model, sizes).by_product:
        chosen, why = "float32", f"{experiment.model.name} does not score by matrix products"
    else:
        times = (gain or bf16_gain)(experiment.training.device)
        chosen, why = "bf16" if times >= FASTER else "float32", f"products in bf16 are {times:.1f} times as fast here"
    return experiment.with_value("training.precision", chosen), f"auto chose the precision {chosen}: {why}"


def settle_threads(experiment: Experiment, graph: Graph) -> tuple[Experiment, str]:
    """Set `training.threads` to 1 if more are no faster: for small steps, or on a busy machine, where each waits for the slowest.

    Also returns a sentence that says what was measured, or nothing if the threads stay as they are.
    """
    if experiment.training.threads or experiment.training.device != "cpu" or torch.get_num_threads() == 1:
        return experiment, ""
    one, every = (experiment.with_value("training.threads", threads) for threads in (1, torch.get_num_threads()))
    speeds = [1 / seconds_a_fact(each, graph) for each in (one, every)]
    if speeds[0] < ALONE * speeds[1]:
        return experiment, ""
    return (
        one,
        f"one thread is as fast as {torch.get_num_threads()} here: {speeds[0]:,.0f} and {speeds[1]:,.0f} facts/s",
    )


@cache
def bf16_gain(device: str = "cpu") -> float:
    """How many times as fast matrix products are in bfloat16 as in float32. The fastest of a few counts."""
    there = checked_device(device)
    took = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = (torch.ones(n, WIDTH, dtype=dtype, device=there) for n in (QUESTIONS, CANDIDATES))
        seconds = []
        for _ in range(PRODUCTS):
            began = time.perf_counter()
            torch.mm(left, right.mT)[0, 0].item()  # waits for the device
            seconds.append(time.perf_counter() - began)
        took[dtype] = min(seconds)
    return took[torch.float32] / took[torch.bfloat16]


def pick(speeds: dict[int, float]) -> int:
    """The smallest batch that is nearly as fast as the best.

    >>> pick({64: 700.0, 128: 880.0, 256: 990.0, 512: 1000.0})
    128
    """
    return min(size for size, speed in speeds.items() if speed >= ENOUGH * max(speeds.values()))


def facts_a_second(experiment: Experiment, graph: Graph) -> float:
    """Facts per second of the faster of two steps, after one to warm up, on tables that are not kept."""
    steps = measured_steps(experiment, graph, 3)
    return max(facts / seconds for facts, seconds in steps[1:] or steps)


def seconds_a_fact(experiment: Experiment, graph: Graph) -> float:
    """Seconds per fact of steps in the middle of a training, from a few at its start."""
    steps = measured_steps(experiment, graph, MOST_STEPS, ENOUGH_SECONDS)
    return steady(steps)


def steady(steps: list[tuple[int, float]]) -> float:
    """Seconds per fact, without the first third of the steps.

    >>> steady([(10, 9.0), (10, 1.0), (10, 1.0)])
    0.1
    """
    warm = steps[math.ceil(len(steps) / WARM) :] or steps
    return sum(seconds for _, seconds in warm) / sum(facts for facts, _ in warm)


def measured_steps(
    experiment: Experiment, graph: Graph, most: int, enough: float = math.inf
) -> list[tuple[int, float]]:
    """Take at most `most` steps, or fewer if they take `enough` seconds: the facts and seconds of each. No tables are kept."""
    parts, size = build(experiment, graph.sizes), experiment.training.questions_a_step
    show_graph(parts.model, graph)
    questions = questions_of(experiment, graph)
    plan = Plan(batch=size)
    trainer = Trainer(parts.model, parts.objective, parts.regularizer, parts.optimizer, questions, plan)
    steps: list[tuple[int, float]] = []
    with torch_settings(experiment, parts.model):
        for _, batch in zip(range(most), questions.batches(size, seed=0, epoch=0), strict=False):
            began = time.perf_counter()
            trainer.step(batch)
            steps.append((batch.facts, time.perf_counter() - began))
            if sum(seconds for _, seconds in steps) > enough:
                break
    return steps
