"""Questions and answers: facts with a hole, and what a model puts into the hole, best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dura.text import printable
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

HOLE = "?"
"""How a hole is written. As the time of a question it asks when the fact holds."""


@dataclass(frozen=True)
class Question:
    """A fact with one hole: `head` or `tail` is None; or both are given and `time` is "?", which asks when the fact holds.

    If facts have times, a question for an entity has a time. None is the time of facts without a time.

    >>> print(Question("a", "likes"), Question(None, "likes", "b", "2014-05-06"), Question("a", "likes", "b", "?"))
    (a, likes, ?) (?, likes, b, 2014-05-06) (a, likes, b, ?)
    """

    head: str | None
    relation: str
    tail: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if (self.head is None) + (self.tail is None) + self.when != 1:
            raise BadInput(
                "a question has exactly one hole: give the relation and either the head or the tail, or both to ask when "
                "(--when, elsewhere the time ?)"
            )

    @property
    def when(self) -> bool:
        """Whether the hole is the time."""
        return self.time == HOLE

    def __str__(self) -> str:
        return self.shown({})

    def shown(self, labels: Mapping[str, str]) -> str:
        """The question with labels in parentheses; `labels` are those of its head, relation and tail, by these words.

        >>> Question("Q64", "P17").shown({"head": "Berlin"})
        '(Q64 (Berlin), P17, ?)'
        """
        parts = {"head": self.head or HOLE, "relation": self.relation, "tail": self.tail or HOLE}
        texts = [f"{name} ({labels[part]})" if part in labels else name for part, name in parts.items()]
        return printable(f"({', '.join([*texts, *([self.time] if self.time else [])])})")

    def to_dict(self) -> dict[str, str]:
        """The given parts, without the hole."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "", HOLE)}


def as_question(question: Question | Sequence[str | None]) -> Question:
    """A `Question` from a `Question`, or from a tuple (head, relation, tail) or (head, relation, tail, time).

    >>> print(as_question((None, "likes", "b")))
    (?, likes, b)
    """
    if isinstance(question, Question):
        return question
    if isinstance(question, str) or len(question) not in (3, 4) or question[1] is None:
        raise BadInput(f"a question is (head, relation, tail) or (head, relation, tail, time), not {question!r}")
    head, relation, tail, *time = question
    return Question(head, str(relation), tail, *time)


@dataclass(frozen=True)
class Answer:
    """One answer to a question. `label` is the human name of the entity, or the entity itself if the graph has no label for it."""

    entity: str
    score: float
    rank: int
    known: bool
    label: str

    @property
    def shown(self) -> str:
        """The entity as it is printed."""
        return printable(self.entity if self.label == self.entity else f"{self.entity} ({self.label})")


@dataclass(frozen=True)
class TimeAnswer:
    """One answer to the question when a fact holds."""

    time: str
    score: float
    rank: int
    known: bool

    @property
    def shown(self) -> str:
        """The time as it is printed."""
        return printable(self.time)


A = TypeVar("A", bound=Answer | TimeAnswer)


@dataclass(frozen=True)
class _Ranked(Sequence[A]):
    """The answers to one question, best first."""

    key: ClassVar[str]
    """The key of the answers in JSON."""
    question: Question
    """The question by names, even if it was asked by labels."""
    answers: tuple[A, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the question's head, relation and tail, by these words, where they are not the names."""

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: Any) -> Any:
        return self.answers[i]

    def __iter__(self) -> Iterator[A]:
        return iter(self.answers)

    def __repr__(self) -> str:
        width = max((len(a.shown) for a in self), default=0)
        rows = (f"{a.rank:>4}.  {a.shown:<{width}}  {a.score:.3f}{'  (known)' if a.known else ''}" for a in self)
        return "\n".join([self.asked, *rows])

    @property
    def asked(self) -> str:
        """The question as it is printed."""
        return self.question.shown(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        question = self.question.to_dict() | {f"{part}_label": label for part, label in self.labels.items()}
        return {"question": question, self.key: [dict(vars(answer)) for answer in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame with one row per answer."""
        import polars as pl

        return pl.DataFrame([asdict(answer) for answer in self])

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame with one row per answer. It needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise DuraError("pandas is not installed; pip install pandas, or use to_frame() for polars") from None
        return pd.DataFrame([asdict(answer) for answer in self])


class Answers(_Ranked[Answer]):
    """The entities that answer one question, best first.

    >>> Answers(Question("a", "likes"), (Answer("b", 1.5, 1, False, "b"),))
    (a, likes, ?)
       1.  b  1.500
    """

    key = "answers"


class TimeAnswers(_Ranked[TimeAnswer]):
    """The times at which a fact holds, best first.

    >>> TimeAnswers(Question("a", "likes", "b", "?"), (TimeAnswer("2014-05-06", 1.5, 1, True),))
    (a, likes, b, ?)
       1.  2014-05-06  1.500  (known)
    """

    key = "times"
