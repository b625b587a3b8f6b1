"""Shape: how large a model, which batches and how many epochs fit into the minutes of a sweep. A few steps are measured first."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dura.config import Experiment
from dura.data.graph import Graph
from dura.models import MODELS
from dura.registry import Scalar
from dura.runs.build import complete, questions_of
from dura.runs.cost import free_memory, model_size
from dura.runs.timing import epoch_seconds, valid_seconds
from dura.words import duration

RANKS = (32, 64, 128, 200, 400, 800)
"""The ranks that are tried, up to twice that of the settings."""
BATCHES = (50, 100, 250, 500, 1000, 2000, 4000)
FEWEST_STEPS, MOST_STEPS = 8, 4000
"""An epoch should have this many steps."""
MANY = 4000
"""Graphs with more entities may be trained on a sample of them."""
SAMPLES = {20_000: 1024, math.inf: 2048}
"""How many entities are drawn per step, for graphs of up to this many entities."""
LAST_STEPS, LEAST_LAST, MOST_LAST = 2500, 8, 25
"""The last training should have this many steps, in 8 to 25 epochs, or the rank is made smaller."""
SEARCH = 0.5
"""The share of the time for the search."""
TRIALS, TOO_FEW = 8, 4
"""The first round should have this many trials, or the rank is made smaller. If it cannot have 4, there is no search."""
FIRST_STEPS, MOST_FIRST = 500, 10
"""A trial of the first round has at least this many steps, but not more than this many epochs."""
LEAST_VALID = 500
"""The search ranks at least this many valid facts."""
GROWTH = 2
"""The last training may have a rank that is this many times larger than that of the search."""
MEMORY = 0.5
"""The tables, their gradients and the sums of the optimizer may take this share of the free memory."""
MEASURING = 0.08
"""No more is measured after this share of the time."""


@dataclass(frozen=True)
class Shape:
    """What was chosen before the search, and why."""

    settings: dict[str, Scalar]
    """What all trials have."""
    search_rank: int | None
    final_rank: int | None
    batches: dict[str, float]
    """The batches that are tried, with the seconds per epoch at the rank of the search."""
    epochs: int
    """The epochs of the first round, at the batch of the settings; 0 = there is no time for a search."""
    valid: int
    """How many valid facts the search ranks."""
    why: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def epochs_of(self, batch: int, base: int) -> int:
        """The epochs of the first round with this batch: as many as take about the same time."""
        seconds = self.batches.get(str(batch)), self.batches.get(str(base))
        if seconds[0] is None or seconds[1] is None:
            return self.epochs
        return max(1, round(self.epochs * seconds[1] / seconds[0]))


def choose_shape(
    base: Experiment, graph: Graph, *, search: float, final: float, fixed: Collection[str], left: float
) -> Shape:
    """Measure, and choose sampling, ranks, batches and epochs for `search` and `final` seconds. No more than `left` to measure."""
    began = time.monotonic()
    why: list[str] = []
    steps = max(1, len(graph.questions) // int(str(base.training.batch)))
    long = min(MOST_LAST, max(LEAST_LAST, math.ceil(LAST_STEPS / steps)))
    has_rank = "rank" in MODELS.options(base.model.name) and "model.rank" not in fixed
    own = complete(base).by_path().get("model.rank")
    ranks = _ranks(base, graph, int(str(own)), why) if has_rank else []
    small = base.with_value("model.rank", ranks[0]) if ranks else base
    small, sampling = _sampling(small, graph, final / long, fixed, ranks, why)
    seconds = {ranks[0] if ranks else 0: epoch_seconds(small, graph)}
    for rank in ranks[1:]:
        if time.monotonic() - began > MEASURING * left:
            break
        took = epoch_seconds(small.with_value("model.rank", rank), graph)
        seconds[rank] = max(took, max(seconds.values()))
        if long * took > final:
            break
    epochs = min(MOST_FIRST, max(2, math.ceil(FIRST_STEPS / steps)))
    search_rank, final_rank = _two_ranks(seconds, int(str(own or 0)), epochs, search, final / long)
    if (few := TOO_FEW * epochs * seconds[search_rank]) > search:
        # Short trials prefer weak regularization. A few of them say less than the defaults.
        why.append(
            f"{TOO_FEW} short trials would take {duration(few)}, so there is no time for a search: all of it goes into the default "
            "settings"
        )
        epochs, most = 0, final / long / (1 - SEARCH)
        slow = [rank for rank, took in seconds.items() if took > most or rank > int(str(own or 0))]
        search_rank = final_rank = max([rank for rank in seconds if rank not in slow] or [min(seconds)])
    chosen = small.with_value("model.rank", search_rank) if ranks else small
    ranked = valid_seconds(chosen, graph)
    share = min(1.0, 0.3 * epochs * seconds[search_rank] / max(ranked, 1e-9))
    valid = (
        len(graph.valid)
        if share == 1.0 or not epochs
        else max(min(LEAST_VALID, len(graph.valid)), int(share * len(graph.valid)))
    )
    until = began + 2 * MEASURING * left if epochs else began
    batches = _batches(chosen, graph, seconds[search_rank], fixed, until)
    if ranks and not epochs:
        why.append(f"the training is at rank {final_rank} ({duration(seconds[final_rank])} per epoch)")
    elif ranks:
        why.append(
            f"the search trains at rank {search_rank} ({duration(seconds[search_rank])} per epoch), the last training at rank "
            f"{final_rank} ({duration(seconds[final_rank])} per epoch)"
        )
    if valid < len(graph.valid):
        why.append(
            f"the search ranks {valid:,} of {len(graph.valid):,} valid facts, because ranking all takes {duration(ranked)}"
        )
    by_batch = {str(batch): each for batch, each in batches.items()}
    if not ranks:
        return Shape(sampling, None, None, by_batch, epochs, valid, why)
    return Shape(sampling, search_rank, final_rank, by_batch, epochs, valid, why)


def _ranks(base: Experiment, graph: Graph, own: int, why: list[str]) -> list[int]:
    """The ranks that fit into memory, the smallest first."""
    ranks = sorted({*(rank for rank in RANKS if rank <= 2 * own), own})
    free = free_memory()
    if free is None:
        return ranks
    fit = []
    for rank in ranks:
        numbers = model_size(base.with_value("model.rank", rank).model, graph.sizes).numbers
        if 12 * numbers <= MEMORY * free:
            fit.append(rank)
    if len(fit) < len(ranks):
        why.append(f"ranks above {max(fit, default=ranks[0])} do not fit into the free memory")
    return fit or ranks[:1]


def _two_ranks(seconds: dict[int, float], own: int, epochs: int, search: float, most: float) -> tuple[int, int]:
    """The ranks of the search and of the last training, from the seconds per epoch of each rank; the last may take `most`.

    What suits a small rank does not suit a large one, which needs more regularization. So the two are near each other.

    >>> _two_ranks({32: 1.0, 64: 1.5, 128: 2.5, 200: 4.0, 400: 8.0}, 200, 2, search=60, most=6)
    (128, 200)
    """
    fits = [rank for rank, took in seconds.items() if took <= most] or [min(seconds)]
    quick = [rank for rank in seconds if TRIALS * epochs * seconds[rank] <= search]
    final_rank = max(rank for rank in fits if rank <= max(own, GROWTH * max(quick, default=0)) or rank == min(fits))
    near = [rank for rank in seconds if final_rank / GROWTH <= rank <= final_rank]
    return max([rank for rank in near if rank in quick] or [min(near)]), final_rank


def _sampling(
    small: Experiment, graph: Graph, most: float, fixed: Collection[str], ranks: Sequence[int], why: list[str]
) -> tuple[Experiment, dict[str, Scalar]]:
    """Whether to score a sample of the entities: on large graphs, if an epoch over all takes more than `most` seconds."""
    entities = graph.sizes.entities
    free = not any(path.startswith("candidates.") for path in fixed)
    if entities <= MANY or small.candidates.name != "all" or small.loss.name != "softmax" or not free:
        return small, {}
    all_of_them = epoch_seconds(small, graph)
    wider = min(3.0, max(ranks, default=1) / max(1, min(ranks, default=1)))
    if all_of_them * wider <= most:
        return small, {}
    samples = next(count for most, count in SAMPLES.items() if entities <= most)
    sampling: dict[str, Scalar] = {"candidates.name": "sample", "candidates.samples": samples}
    sampled = small.with_values(sampling)
    if (some := epoch_seconds(sampled, graph)) >= all_of_them:
        return small, {}
    at = f" at rank {ranks[0]}" if ranks else ""
    why.append(
        f"each step scores {samples:,} of {entities:,} entities, because an epoch over all takes {duration(all_of_them)}{at} "
        f"and this one {duration(some)}"
    )
    return sampled, sampling


def _batches(
    chosen: Experiment, graph: Graph, seconds: float, fixed: Collection[str], until: float
) -> dict[int, float]:
    """The batches to try with their seconds per epoch: that of the settings and the nearest others with enough steps."""
    own = int(str(chosen.training.batch))
    found = {own: seconds}
    if "training.batch" in fixed:
        return found
    questions = len(questions_of(chosen, graph))
    good = [size for size in BATCHES if size != own and FEWEST_STEPS <= questions / size <= MOST_STEPS]
    for size in sorted(good, key=lambda size: abs(math.log(size / own)))[:3]:
        if time.monotonic() > until:
            break
        found[size] = epoch_seconds(chosen.with_value("training.batch", size), graph)
    return dict(sorted(found.items()))
