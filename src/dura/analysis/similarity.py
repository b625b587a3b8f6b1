"""Similarity: how similar are the embeddings of two answers to the same question, compared with any two answers?

All pairs are counted, none is drawn. The mean over the pairs of n rows follows from their sum and their squares: the cosines of
their unit vectors u from (‖Σu‖² − n) / (n(n − 1)), the squared distances from 2·(n·Σ‖x‖² − ‖Σx‖²) / (n(n − 1)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.types import BadInput, FloatArray, IntArray

Floats = NDArray[np.floating[Any]]
BLOCK = 2**22
"""How many numbers the rows of some answers may have at a time."""


@dataclass(frozen=True)
class Similarity:
    """Means over pairs of different answers: to the same question (every question counts the same), and of any two."""

    cosine: float
    """The mean cosine of two answers to the same question."""
    cosine_any: float
    """The mean cosine of any two of the entities that are answers."""
    distance: float
    """The distance of two answers to the same question, divided by that of any two: below 1, they are nearer."""


def many_answers(graph: Graph, at_least: int) -> Questions:
    """The questions of either side with this many known answers or more (at any time, if facts have times)."""
    if at_least < 2:
        raise BadInput(f"--at-least is {at_least}, but two answers are needed to say how similar they are")
    known = graph.known_ever
    found = np.flatnonzero(known.counts >= at_least)
    if not len(found):
        raise BadInput(
            f"the graph {graph.name!r} has no question with {at_least} known answers or more, the largest has "
            f"{int(known.counts.max(initial=0))}; lower --at-least"
        )
    return known.take(found)


def similarity(rows: Floats, questions: Questions) -> Similarity:
    """The similarity of the answers to these questions. Row i of `rows` [|E|, w] is the embedding of entity i as an answer.

    >>> asked = Questions(np.zeros(2, int), np.arange(2), np.array([0, 2, 4]), np.array([0, 1, 2, 3]))
    >>> similarity(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), asked)
    Similarity(cosine=1.0, cosine_any=0.3333333333333333, distance=0.0)
    """
    cosines, squares = [], []
    for counts, answers in _blocks(questions, rows.shape[1]):
        cosine, square = pair_means(rows[answers], counts)
        cosines.append(cosine)
        squares.append(square)
    distinct = np.unique(questions.answers)
    cosine_any, square_any = _of_all(rows, distinct)
    if not square_any > 0:
        raise BadInput("all answers have the same embedding, so none are nearer than others: the model has collapsed")
    distances = np.sqrt(np.concatenate(squares) / square_any)
    return Similarity(float(np.concatenate(cosines).mean()), cosine_any, float(distances.mean()))


def pair_means(rows: Floats, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The mean cosine and the mean squared distance of two different rows, for each group of so many rows in turn."""
    starts = np.cumsum(counts) - counts
    sums, squares = _sums(rows, starts)
    units, lengths = _sums(_units(rows), starts)
    pairs = counts * (counts - 1.0)
    return _cosine(units, lengths, pairs), _square(sums, squares, counts, pairs)


def _of_all(rows: Floats, entities: IntArray) -> tuple[float, float]:
    """The mean cosine and the mean squared distance of any two of these entities."""
    sums, squares = np.zeros(rows.shape[1]), 0.0
    units, lengths = np.zeros(rows.shape[1]), 0.0
    size = max(1, BLOCK // rows.shape[1])
    for at in range(0, len(entities), size):
        part = rows[entities[at : at + size]].astype(np.float64)
        sums, squares = sums + part.sum(0), squares + float(np.square(part).sum())
        part = _units(part)
        units, lengths = units + part.sum(0), lengths + float(np.square(part).sum())
    count = np.array([len(entities)])
    pairs = count * (count - 1.0)
    cosine = _cosine(units[None], np.array([lengths]), pairs)
    return float(cosine[0]), float(_square(sums[None], np.array([squares]), count, pairs)[0])


def _units(rows: Floats) -> FloatArray:
    """The rows scaled to length 1; a row of zeros stays as it is, and has the cosine 0 with all others."""
    rows = rows.astype(np.float64)
    scaled: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return scaled


def _sums(rows: Floats, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The sum of the rows of each group, and the sum of all their squares."""
    rows = rows.astype(np.float64)
    return np.add.reduceat(rows, starts, axis=0), np.add.reduceat(np.square(rows).sum(1), starts)


def _cosine(sums: FloatArray, squares: FloatArray, pairs: FloatArray) -> FloatArray:
    means: FloatArray = (np.square(sums).sum(1) - squares) / pairs
    return means


def _square(sums: FloatArray, squares: FloatArray, counts: IntArray, pairs: FloatArray) -> FloatArray:
    """Rounding may bring equal rows below zero."""
    means: FloatArray = np.maximum(2 * (counts * squares - np.square(sums).sum(1)) / pairs, 0)
    return means


def _blocks(questions: Questions, width: int) -> Iterator[tuple[IntArray, IntArray]]:
    """The numbers of answers and the answers of some questions at a time: about BLOCK numbers, or one large question."""
    edges, first = questions.offsets, 0
    while first < len(questions):
        last = int(np.searchsorted(edges, edges[first] + BLOCK // width, side="right")) - 1
        last = max(first + 1, min(last, len(questions)))
        yield questions.counts[first:last], questions.answers[edges[first] : edges[last]]
        first = last
