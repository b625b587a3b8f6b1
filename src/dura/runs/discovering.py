"""Discovering: the most probable missing facts of a run's graph, by names. `dura discover` and `Trained.discover` call this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dura.data.graph import Graph
from dura.inference.discover import Probable, Search, Share
from dura.inference.discover import discover as search_all
from dura.inference.found import Found
from dura.inference.predict import time_id
from dura.inference.restriction import of_types
from dura.inference.scored import held_by_both
from dura.types import BadInput, IntArray

if TYPE_CHECKING:
    from dura.runs.exploring import Exploring


def discover(
    trained: Exploring,
    relations: str | Sequence[str] = (),
    *,
    top: int = 1000,
    time: str | None = None,
    in_range: bool = True,
    loops: bool = False,
    type: str | Sequence[str] = (),  # noqa: A002
    min_probability: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """The `top` most probable missing facts, best first.

    `relations` are names or labels; none means all. If facts have times, the facts hold at `time`, by default the last one. With
    `in_range` questions are about heads and tails that training facts have with the relation, and answers are such entities or
    others that are used as these are. `loops` allows facts whose head is their tail. `type` allows only facts with a head or tail
    of one of these types.

    Facts are ranked by their probability if the run is calibrated, else by the share of the answer in the softmax of its question.
    `about` of the result says how many questions were asked and how many were not.
    """
    graph, calibration = trained.graph, trained.calibration
    if min_probability is not None and calibration is None:
        run = trained.path or "RUN"
        raise BadInput(f"facts of this run have no probabilities yet; run dura calibrate {run} first")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise BadInput(f"min_probability is {min_probability}, but a probability is a number from 0 to 1")
    when = _time(graph, time)
    search = Search(
        _relations(graph, (relations,) if isinstance(relations, str) else relations),
        top=top,
        time=when,
        in_range=in_range,
        loops=loops,
        typed=_typed(graph, (type,) if isinstance(type, str) else type),
        least=min_probability or 0.0,
    )
    value = Share() if calibration is None else Probable(calibration)
    best = search_all(trained.model, graph, search, value, progress=progress or (lambda *_: None))
    at_time = np.column_stack([best.facts, np.full(len(best.facts), when or 0)])
    numbers: dict[str, Any] = {"share": best.value}
    if calibration is not None:
        marks = calibration.either_contradicts(at_time[:, 1], *held_by_both(graph, at_time))
        numbers = {"probability": best.value, "contradicts": marks}
    possible = 2 * len(search.relations) * len(graph.entities)
    about = {
        "value": next(iter(numbers)),
        "in_range": in_range,
        "loops": loops,
        "relations": len(search.relations),
        "questions": best.asked,
        "not_asked": possible - best.asked,
    }
    return Found.of(graph, best.facts if when is None else at_time, numbers, about)


def _relations(graph: Graph, names: Sequence[str]) -> IntArray:
    if not names:
        return np.arange(len(graph.relations))
    return np.unique(np.array([graph.relation(name) for name in names], dtype=np.int64))


def _time(graph: Graph, time: str | None) -> int | None:
    """The id of the time at which facts are looked for: the given one or the last one."""
    if graph.times is None:
        return None if time is None else time_id(graph, time)  # which refuses it
    return len(graph.times.positions) - 1 if time is None else time_id(graph, time)


def _typed(graph: Graph, types: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if not types:
        return None
    typed = np.zeros(len(graph.entities), dtype=bool)
    typed[of_types(graph, types)] = True
    return typed
