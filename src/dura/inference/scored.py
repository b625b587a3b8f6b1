"""Scored: given facts with their scores, and whether the graph holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from dura.data.graph import Graph
from dura.data.questions import Questions
from dura.data.streams import Row
from dura.inference.asking import SUGGESTED, Reply, check_names
from dura.inference.calibration import Calibration
from dura.inference.predict import check_finite, time_id
from dura.inference.score import score_facts
from dura.models import Model
from dura.text import printable, shown
from dura.types import BadInput, IntArray

Fact = tuple[str, str, str] | tuple[str, str, str, str | None]
"""A fact as (head, relation, tail), or (head, relation, tail, time) if facts have times."""
BLOCK = 1 << 10
"""How many facts of a stream are scored at a time."""


@dataclass(frozen=True)
class ScoredFact:
    """A fact by names, with its score. `known` if the graph holds it in any split or a person accepted it, at its time.

    `rejected` if a person rejected it. `probability` is None if the run is not calibrated. `contradicts` if a known answer to one
    of its two questions speaks against it; a known fact is never marked.
    """

    head: str
    relation: str
    tail: str
    time: str | None
    score: float
    known: bool
    probability: float | None = None
    rejected: bool = False
    contradicts: bool = False

    def __str__(self) -> str:
        parts = [self.head, self.relation, self.tail, *([self.time] if self.time else [])]
        chance = "" if self.probability is None else f"  {self.probability:.3f}"
        notes = {"known": self.known, "rejected": self.rejected, "contradicts a known answer": self.contradicts}
        marks = "".join(f"  ({note})" for note, there in notes.items() if there)
        return printable(f"{self.score:8.3f}{chance}  ({', '.join(parts)}){marks}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values. The time only if there is one; the probability and `contradicts` only if the run is calibrated."""
        left_out = {"contradicts"} if self.probability is None else set()
        return {key: value for key, value in vars(self).items() if value is not None and key not in left_out}


def as_fact(fact: object) -> Fact:
    """A fact that a caller gave, or an error if it has another form."""
    if (
        not isinstance(fact, tuple | list)
        or len(fact) not in (3, 4)
        or not all(isinstance(part, str) for part in fact[:3])
        or not isinstance(fact[-1], str | None)
    ):
        raise BadInput(f"a fact is (head, relation, tail) or (head, relation, tail, time) as text, not {shown(fact)}")
    return cast(Fact, tuple(fact))


def fact_ids(graph: Graph, facts: Iterable[object]) -> IntArray:
    """The ids of facts by names or labels [n, 4]; the id of the time is 0 if the graph has no times."""
    return np.array([_ids(graph, *as_fact(fact)) for fact in facts], dtype=np.int64).reshape(-1, 4)


def _ids(graph: Graph, head: str, relation: str, tail: str, time: str | None = None) -> tuple[int, int, int, int]:
    return graph.entity(head), graph.relation(relation), graph.entity(tail), time_id(graph, time)


def scores_of(model: Model, graph: Graph, ids: IntArray) -> list[float]:
    """The score of each fact [n, 4]."""
    columns = torch.from_numpy(ids[:, : 3 if graph.times is None else 4]).unbind(1)
    scores = score_facts(model, *columns)
    check_finite(scores)
    found: list[float] = scores.tolist()
    return found


def scored(model: Model, graph: Graph, ids: IntArray, calibration: Calibration | None = None) -> list[ScoredFact]:
    """Facts [n, 4] with their scores, and with probabilities if there is a calibration."""
    head, relation, tail, time = ids.T
    known, rejected = _among(graph, ids, graph.known), np.zeros(len(ids), dtype=bool)
    if graph.reviews is not None:
        rejected = _among(graph, ids, graph.reviews.refused)
        known |= _among(graph, ids, graph.reviews.agreed)
    times: Sequence[str | None] = [None] * len(ids) if graph.times is None else graph.times.names(time.tolist())
    columns = (graph.entities.names(head), graph.relations.names(relation), graph.entities.names(tail), times)
    scores = scores_of(model, graph, ids)
    chances: list[float | None] = [None] * len(ids)
    marks = np.zeros(len(ids), dtype=bool)
    if calibration is not None:
        plain = calibration.fact_probabilities(relation, np.array(scores))
        p, marks = calibration.facts_told(relation, np.array(scores), *held_by_both(graph, ids))
        chances, marks = [*np.where(known, plain, p).tolist()], marks & ~known
    rows = zip(*columns, scores, known.tolist(), chances, rejected.tolist(), marks.tolist(), strict=True)
    return [ScoredFact(h, r, t, moment or None, *rest) for h, r, t, moment, *rest in rows]


def held_by_both(graph: Graph, ids: IntArray) -> tuple[IntArray, IntArray]:
    """How many answers are known to the two questions of each fact [n, 4]: the one for its tail and the one for its head."""
    head, relation, tail, time = ids.T
    times = None if graph.times is None else time
    return graph.holding(head, relation, times), graph.holding(tail, relation + len(graph.relations), times)


def _among(graph: Graph, ids: IntArray, questions: Questions) -> NDArray[np.bool_]:
    """Which facts [n, 4] are among the answers of questions."""
    head, relation, tail, time = ids.T
    facts = questions.known(head, relation, None if graph.times is None else time)
    found = np.zeros(len(ids), dtype=bool)
    found[facts.question[facts.answers == tail[facts.question]]] = True
    return found


def scored_each(
    model: Model, graph: Graph, facts: Iterable[object], calibration: Calibration | None = None, suggest: int = 10
) -> list[ScoredFact | BadInput]:
    """Each fact with its score, or what is wrong with it. Only the first few unknown names get suggestions, which take time."""
    ids: dict[int, tuple[int, int, int, int]] = {}
    found: dict[int, ScoredFact | BadInput] = {}
    for at, fact in enumerate(facts):
        try:
            head, relation, tail, *time = as_fact(fact)
            if len(found) >= suggest:
                check_names(graph, [head, tail], str(relation))
            ids[at] = _ids(graph, str(head), str(relation), str(tail), *time)
        except BadInput as error:
            found[at] = error
    right = scored(model, graph, np.array(list(ids.values()), dtype=np.int64).reshape(-1, 4), calibration)
    found.update(zip(ids, right, strict=True))
    return [found[at] for at in sorted(found)]


def score_rows(
    model: Model, graph: Graph, rows: Iterable[Row], calibration: Calibration | None = None
) -> Iterator[Reply]:
    """The scores of the facts of rows, in order, a block at a time. A bad row does not stop the others."""
    bad, waiting = 0, iter(rows)
    while block := list(islice(waiting, BLOCK)):
        ids: dict[int, tuple[int, int, int, int]] = {}
        wrong: dict[int, str] = {}
        for at, row in enumerate(block):
            try:
                ids[at] = _row_ids(graph, row, suggest=bad < SUGGESTED)
            except BadInput as error:
                wrong[at], bad = str(error), bad + 1
        found = scored(model, graph, np.array(list(ids.values()), dtype=np.int64).reshape(-1, 4), calibration)
        facts = dict(zip(ids, found, strict=True))
        yield from (Reply(row.line, facts.get(at), wrong.get(at, "")) for at, row in enumerate(block))


def _row_ids(graph: Graph, row: Row, suggest: bool) -> tuple[int, int, int, int]:
    if row.wrong:
        raise BadInput(row.wrong)
    head, relation, tail, time = row.parts
    if not suggest:
        check_names(graph, [head, tail], relation)
    return _ids(graph, head, relation, tail, time or None)
