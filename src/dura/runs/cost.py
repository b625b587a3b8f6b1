"""Cost: an estimate of the memory and time that training takes on this machine, before it begins.

`dura data check` and `dura reproduce` show it. `model_size` builds a model without memory, which takes an import of torch. The
sizes of the default models are also written here as numbers, so that `dura data check` need not wait for that.
"""

from __future__ import annotations

import inspect
import os
import time
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dura.config import Component, Experiment
from dura.data import doctor
from dura.data.assembly import Shares
from dura.data.graph import Graph
from dura.data.readers import ReadOptions
from dura.runs.defaults import Outline, fit_to
from dura.types import Sizes
from dura.words import duration

SCORE_BYTES, FEWEST = 96 << 20, 128
"""The questions of a batch are scored in blocks of at most SCORE_BYTES bytes, but of at least FEWEST questions."""
_GROUPS = (
    ("sys/fs/cgroup/memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The files of a container's memory limit and use, and the line that says how much of it the system can free (cgroup 2 and 1)."""

SAMPLED_SHARE = 0.5
"""A step over sampled entities reaches about this share of the speed of its products: the rest is memory traffic."""

_NUMBERS_PER_RANK = {"complex": 2, "tcomplex": 2}
"""How many numbers a row of each default model has per rank. The rows are those of entities, relations, reciprocals and times."""


@dataclass(frozen=True)
class Cost:
    """Bytes of memory in addition to torch and the graph, and seconds per epoch."""

    bytes: int
    seconds_an_epoch: float


def cost(*, numbers: int, width: int, entities: int, questions: int, batch: int, speed: float) -> Cost:
    """The cost of training tables of `numbers` numbers, `width` of them per tail, at `speed` operations per second.

    The memory is three times the tables (values, gradient, Adagrad) and one buffer of scores. The time of an epoch is three
    products of all questions with all `entities` that are scored.

    >>> cost(numbers=1000, width=10, entities=50, questions=20, batch=5, speed=1e6)
    Cost(bytes=13000, seconds_an_epoch=0.06)
    """
    scored = min(batch, max(FEWEST, SCORE_BYTES // (4 * entities)))
    return Cost(3 * 4 * numbers + 4 * entities * scored, product_seconds(questions * entities, width, speed))


def product_seconds(pairs: float, width: int, speed: float) -> float:
    """The time of the three products of a step: the scores of `pairs` of question and entity, and the gradients of both."""
    return 3 * 2 * pairs * width / speed


class ModelSize(NamedTuple):
    """How many numbers all tables hold, how many numbers a tail has, and the number of matrices in each table of matrices."""

    numbers: int
    width: int
    matrices: tuple[int, ...]
    by_product: bool = True
    """True if scores are matrix products, False if they are computed number by number."""
    times: int = 0
    """How many numbers the times have, which are smoothed at each step."""


def model_size(chosen: Component, sizes: Sizes) -> ModelSize:
    """The size of a model for a graph of these sizes. The model is built on torch's meta device, so it takes no memory."""
    import torch

    from dura.models import MODELS

    with torch.device("meta"):
        model = MODELS.build(chosen.name, chosen.options, sizes)
    matrices = tuple(len(table) for table in model.parameters() if table.dim() > 2)
    # A comparator that depends on the stage of training cannot be asked for without memory. None of these is a product.
    comparator = inspect.getattr_static(model, "comparator")
    by_product = not isinstance(comparator, property) and comparator.by_product
    times = 0 if model.timeline is None else model.timeline[0].numel()
    numbers = sum(table.numel() for table in model.parameters())
    return ModelSize(numbers, model.target_width, matrices, by_product, times)


def default_size(chosen: Component, sizes: Sizes) -> ModelSize:
    """`model_size` of the default models without torch. A test compares the two.

    >>> default_size(Component("complex", {"rank": 10}), Sizes(50, 3)).numbers
    1120
    """
    width = _NUMBERS_PER_RANK[chosen.name] * int(str(chosen.options["rank"]))
    numbers = width * (sizes.entities + 2 * sizes.relations + sizes.times)
    return ModelSize(numbers, width, (), times=width * sizes.times)


def check_graph(
    source: Graph | str | Path,
    options: ReadOptions | None = None,
    shares: Shares | None = None,
    *,
    speed: float | None = None,
) -> doctor.Report:
    """The doctor's report on a graph. The last finding is what training on it costs.

    `speed` is the number of floating point operations per second to estimate with (None: measured).
    """
    return doctor.check(source, options, shares, further=[partial(_finding, speed=speed or measured_speed())])


def _finding(graph: Graph, speed: float) -> doctor.Finding:
    """Memory and time of training with the settings that `dura train` would choose for this graph."""
    plain = Experiment() if graph.times is None else Experiment.of_dated_facts()
    chosen = fit_to(plain, Outline.of(graph), [])
    rank, questions, epochs = int(str(chosen.model.options["rank"])), len(graph.questions), chosen.training.epochs
    size, samples = default_size(chosen.model, graph.sizes), chosen.candidates.options.get("samples")
    took = cost(
        numbers=size.numbers,
        width=size.width,
        entities=len(graph.entities) if samples is None else int(str(samples)),
        questions=questions,
        batch=chosen.training.questions_a_step,
        speed=speed if samples is None else SAMPLED_SHARE * speed,
    )
    text = (
        f"training {chosen.model.name} with rank {rank} takes about {took.bytes / 1e6:,.0f} MB in addition to torch itself "
        f"and {duration(took.seconds_an_epoch)} per epoch on this machine's CPU; 'dura train' chooses {epochs} epochs"
    )
    details = {"rank": rank, "epochs": epochs, **asdict(took), "flops_a_second": speed, "questions": questions}
    return doctor.Finding("ok", "cost", text, details)


@cache
def measured_speed(seconds: float = 0.2) -> float:
    """Floating point operations per second of this machine's matrix products, measured for `seconds`.

    The fastest product counts: slower ones only show that the machine was doing something else.
    """
    left = np.ones((256, 400), dtype=np.float32)
    right = np.ones((400, 4096), dtype=np.float32)
    left @ right
    fastest, start = float("inf"), time.perf_counter()
    while (began := time.perf_counter()) - start < seconds:
        left @ right
        fastest = min(fastest, time.perf_counter() - began)
    return 2 * 256 * 400 * 4096 / fastest


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that are free for new processes on this machine and in this container. None if the system does not say."""
    kilobytes = _numbers(root / "proc/meminfo").get("MemAvailable:")
    left = [None if kilobytes is None else 1024 * kilobytes]
    for limit, used, cached in _GROUPS:
        folder = (root / limit).parent
        most, now = (_numbers(folder / name).get("") for name in (Path(limit).name, used))
        if most is not None and now is not None:  # a limit of "max" means no limit
            left.append(max(0, most - now + _numbers(folder / "memory.stat").get(cached, 0)))
    return min((bytes_ for bytes_ in left if bytes_ is not None), default=None)


def _numbers(path: Path) -> dict[str, int]:
    """The numbers in a file of the system, each by the word before it; empty if the file cannot be read."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    pairs = [("", line[0]) if len(line) == 1 else (line[0], line[1]) for line in lines if line]
    return {word: int(number) for word, number in pairs if number.isdecimal()}


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
