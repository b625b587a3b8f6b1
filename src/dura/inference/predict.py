"""Predict: the best answers to questions with a hole, known answers left out unless asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dura.data.graph import Graph
from dura.models import Model
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

BLOCK = 64
"""Questions scored at a time."""


@dataclass(frozen=True)
class Question:
    """A fact with one hole: `head` or `tail` is None."""

    head: str | None
    relation: str
    tail: str | None = None

    def __post_init__(self) -> None:
        if (self.head is None) == (self.tail is None):
            raise BadInput("a question has exactly one hole: give the relation and either the head or the tail")

    def __str__(self) -> str:
        return f"({self.head or '?'}, {self.relation}, {self.tail or '?'})"


@dataclass(frozen=True)
class Answer:
    """One answer to a question; `label` is the entity's human name where the graph has one."""

    entity: str
    score: float
    rank: int
    known: bool
    label: str


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The answers to one question, best first.

    >>> Answers(Question("a", "likes"), (Answer("b", 1.5, 1, False, "b"),))
    (a, likes, ?)
       1.  b  1.500
    """

    question: Question
    answers: tuple[Answer, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: Any) -> Any:
        return self.answers[i]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __repr__(self) -> str:
        names = [a.entity if a.label == a.entity else f"{a.entity} ({a.label})" for a in self]
        width = max(map(len, names), default=0)
        rows = (
            f"{a.rank:>4}.  {name:<{width}}  {a.score:.3f}{'  (known)' if a.known else ''}"
            for a, name in zip(self, names, strict=True)
        )
        return "\n".join([str(self.question), *rows])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        asked = {key: value for key, value in asdict(self.question).items() if value is not None}
        return {"question": asked, "answers": [asdict(answer) for answer in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame, one answer a row."""
        import polars as pl

        return pl.DataFrame([asdict(answer) for answer in self])

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame, one answer a row; needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise DuraError("pandas is not installed; pip install pandas, or use to_frame() for polars") from None
        return pd.DataFrame([asdict(answer) for answer in self])


def predict(
    model: Model, graph: Graph, questions: Sequence[Question], k: int = 10, *, known: bool = False
) -> list[Answers]:
    """The `k` best answers to each question; known facts of any split are left out unless `known` is true."""
    if k < 1:
        raise BadInput(f"k is {k}, but at least one answer must be asked for")
    entities, relations = graph.entities, graph.relations
    asked = [
        (entities.id(q.head, "entity"), relations.id(q.relation, "relation"))
        if q.head is not None
        else (entities.id(str(q.tail), "entity"), relations.id(q.relation, "relation") + len(relations))
        for q in questions
    ]
    ids = np.array(asked, dtype=np.int64).reshape(-1, 2)
    answers: list[Answers] = []
    with torch.no_grad():
        for at in range(0, len(ids), BLOCK):
            answers += _block(model, graph, questions[at : at + BLOCK], ids[at : at + BLOCK], k, known)
    return answers


def _block(
    model: Model, graph: Graph, questions: Sequence[Question], ids: np.ndarray[Any, Any], k: int, known: bool
) -> list[Answers]:
    device = model.tail_table.device
    head, relation = (torch.from_numpy(ids[:, i].copy()).to(device) for i in (0, 1))
    scores = model.compare(model.query(head, relation), model.tails())
    if not bool(torch.isfinite(scores).all()):
        raise DuraError("the model's scores are not finite numbers, so it cannot answer; train it anew")
    facts = graph.known.known(ids[:, 0], ids[:, 1])
    is_known = torch.zeros_like(scores, dtype=torch.bool)
    is_known[torch.from_numpy(facts.question), torch.from_numpy(facts.answers).long()] = True
    if not known:
        scores.masked_fill_(is_known, -math.inf)
    best, entity = scores.topk(min(k, scores.shape[1]), dim=1)
    flags = is_known.gather(1, entity)
    return [
        Answers(question, tuple(_answers(graph, entity[i].tolist(), best[i].tolist(), flags[i].tolist())))
        for i, question in enumerate(questions)
    ]


def _answers(graph: Graph, entities: list[int], scores: list[float], known: list[bool]) -> Iterator[Answer]:
    names = graph.entities.names(entities)
    for rank, (name, score, flag) in enumerate(zip(names, scores, known, strict=True), 1):
        if score > -math.inf:
            yield Answer(name, score, rank, flag, graph.label(name))
