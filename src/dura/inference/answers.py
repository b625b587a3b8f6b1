"""Questions and answers: facts with a hole, which answers are wanted, and what a model puts into the hole, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar

from dura.text import printable, shown, with_label
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from dura.inference.explanation import Explanation

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
        texts = [with_label(name, labels.get(part, name)) for part, name in parts.items()]
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


def _texts(name: str, given: object) -> tuple[str, ...]:
    """A list of texts that a caller gave."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadInput(f"{name} is {shown(given)}, but it must be a list of names")
    texts = tuple(given)
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise BadInput(f"{name} holds {shown(wrong[0])}, but it must be a list of names")
    return texts


@dataclass(frozen=True)
class Wanted:
    """Which answers are wanted: the `k` best ones, and restrictions on them. A restriction leaves answers out and changes no score.

    Restrictions combine: an answer must pass them all. They are about entities, so a question for a time cannot have one.

    >>> Wanted(k=3).restricted, Wanted(types=("city",)).restricted
    (False, True)
    """

    k: int = 10
    known: bool = False
    """Whether known answers are shown too, marked as known."""
    among: Sequence[str] | None = None
    """Only these entities, by name or label. None means all."""
    types: Sequence[str] = ()
    """Only entities of one of these types. () means all."""
    in_range: bool = False
    """Only entities that training facts have with this relation, on the side that is asked for."""
    min_probability: float | None = None
    """Only answers that are at least this probable."""
    coverage: float | None = None
    """Only the set of new answers that holds a missing answer with this probability."""

    approximate: bool = False
    """Whether the run's index finds the answers. It is faster for large graphs, but an answer may be missed."""

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int):
            raise BadInput(f"k is {self.k!r}, but it must be a whole number")
        if self.k < 1:
            raise BadInput(f"k is {self.k}, but it must be at least 1")
        if self.among is not None:
            object.__setattr__(self, "among", _texts("among", self.among))
        object.__setattr__(self, "types", _texts("type", (self.types,) if isinstance(self.types, str) else self.types))
        p = self.min_probability
        if p is not None and (isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1):
            raise BadInput(f"min_probability is {shown(p)}, but a probability is a number from 0 to 1")
        if self.coverage is not None:
            check_coverage(self.coverage)
        if self.approximate and self.restricted:
            raise BadInput(
                "an index does not look at all entities, so approximate answers cannot be restricted: leave approximate "
                "(--approximate) or the restrictions out"
            )

    @property
    def restricted(self) -> bool:
        """Whether only some entities are wanted."""
        listed = self.among is not None or bool(self.types) or self.in_range
        return listed or self.min_probability is not None or self.coverage is not None


def check_coverage(coverage: float) -> None:
    """Refuse a coverage that is not between 0 and 1."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
        raise BadInput(f"coverage is {shown(coverage)}, but it must be a number between 0 and 1, such as 0.9")


class Wish(TypedDict, total=False):
    """The keyword arguments of whoever takes a wish: the fields of `Wanted` but `k`, and `type` for its types."""

    known: bool
    among: Sequence[str] | None
    type: str | Sequence[str]
    in_range: bool
    min_probability: float | None
    coverage: float | None
    approximate: bool


def wanted_of(k: int, wish: Wish) -> Wanted:
    """The wish as one value.

    >>> wanted_of(3, {"type": "city"}).types
    ('city',)
    """
    fields: dict[str, Any] = {"types" if name == "type" else name: value for name, value in wish.items()}
    if unknown := fields.keys() - Wanted.__dataclass_fields__.keys():
        raise BadInput(f"{shown(min(unknown))} is not a wish for answers; known are {', '.join(Wish.__annotations__)}")
    return Wanted(k, **fields)


TEN = Wanted()
"""The ten best answers that are not known: what is wanted if nobody says otherwise."""


@dataclass(frozen=True)
class Answer:
    """One answer to a question. `label` is the human name of the entity, or the entity itself if the graph has no label for it.

    `probability` is None if the run is not calibrated. `contradicts` if a known answer speaks against this one.
    """

    entity: str
    score: float
    rank: int
    known: bool
    label: str
    probability: float | None = None
    contradicts: bool = False
    explanation: Explanation | None = None
    """Why the model gives this answer, if that was asked for."""

    @property
    def name(self) -> str:
        """What fills the hole."""
        return self.entity

    @property
    def shown(self) -> str:
        """The entity as it is printed."""
        return printable(with_label(self.entity, self.label))

    @property
    def notes(self) -> str:
        """What is printed after the score."""
        chance = "" if self.probability is None else f"  {self.probability:.3f}"
        return (
            f"{chance}{'  (known)' if self.known else ''}{'  (contradicts a known answer)' if self.contradicts else ''}"
        )

    @property
    def reasons(self) -> str:
        """What is printed below the answer."""
        return "".join(f"\n    {line}" for line in ([] if self.explanation is None else self.explanation.reasons))

    def to_dict(self) -> dict[str, Any]:
        """Plain values. The probability, whether the answer contradicts a known one, and the explanation only if they are there."""
        there = {"probability": self.probability is not None}
        there["contradicts"] = there["probability"] or self.contradicts
        own = {key: value for key, value in vars(self).items() if key != "explanation" and there.get(key, True)}
        return own if self.explanation is None else own | {"explanation": self.explanation.to_dict()}


@dataclass(frozen=True)
class TimeAnswer:
    """One answer to the question when a fact holds."""

    time: str
    score: float
    rank: int
    known: bool

    @property
    def name(self) -> str:
        """What fills the hole."""
        return self.time

    @property
    def shown(self) -> str:
        """The time as it is printed."""
        return printable(self.time)

    @property
    def notes(self) -> str:
        """What is printed after the score."""
        return "  (known)" if self.known else ""

    reasons: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


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
    set_size: int | None = None
    """How many answers the set of the wanted coverage has. None if no coverage is wanted."""

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: Any) -> Any:
        return self.answers[i]

    def __iter__(self) -> Iterator[A]:
        return iter(self.answers)

    def __repr__(self) -> str:
        width = max((len(a.shown) for a in self), default=0)
        rows = (f"{a.rank:>4}.  {a.shown:<{width}}  {a.score:.3f}{a.notes}{a.reasons}" for a in self)
        return "\n".join([self.asked, *rows, *self._cut()])

    def _cut(self) -> Iterator[str]:
        """What is printed after a set of answers of which some are not shown."""
        if self.set_size is not None and self.set_size > len(self):
            yield f"   these are the best {len(self):,} of the {self.set_size:,} answers in the set"

    @property
    def asked(self) -> str:
        """The question as it is printed."""
        return self.question.shown(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        question = self.question.to_dict() | {f"{part}_label": label for part, label in self.labels.items()}
        size = {} if self.set_size is None else {"set_size": self.set_size}
        return {"question": question, **size, self.key: [answer.to_dict() for answer in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars DataFrame with one row per answer."""
        import polars as pl

        return pl.DataFrame(self._rows())

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame with one row per answer. It needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise DuraError("pandas is not installed; pip install pandas, or use to_frame() for polars") from None
        return pd.DataFrame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        """The answers as rows of a table, which has no explanations."""
        return [{key: value for key, value in answer.to_dict().items() if key != "explanation"} for answer in self]


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
