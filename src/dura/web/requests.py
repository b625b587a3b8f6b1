"""Requests: what a client may send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from dura.data.reviews import Decision
from dura.inference.answers import HOLE, Question, Wanted, wanted_of
from dura.types import BadInput, Side

MOST, LONGEST = 1_000, 1_000
"""At most this many answers per question and questions per request; and characters in a name."""
MOST_NAMES = 10_000
"""At most this many names that answers may be among."""
MOST_ANSWERS, MOST_REASONS = 10_000, 100
"""At most this many answers, and answers with reasons, per request, so that others need not wait long."""


def _no_truth(value: object) -> object:
    """Refuse true and false, which pydantic would read as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "true and false are not numbers")
    return value


Count = Annotated[int, BeforeValidator(_no_truth), Field(le=MOST, json_schema_extra={"minimum": 1})]
"""How many answers; the model refuses fewer than one with the sentence that `dura predict` gives."""
Limit = Annotated[int, BeforeValidator(_no_truth), Field(ge=1, le=MOST)]
Offset = Annotated[int, BeforeValidator(_no_truth), Field(ge=0, le=10**9)]
Name = Annotated[str, Field(max_length=LONGEST)]
Names = Annotated[
    list[Name],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    Field(max_length=MOST_NAMES),
]
"""One name or a list of them."""
Share = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})]
Entity = Annotated[Name, Field(description="An entity, by its name or its label.", examples=["Berlin"])]
Relation = Annotated[Name, Field(description="A relation, by its name or its label.", examples=["located_in"])]
Tail = Annotated[Name, Field(description="An entity, by its name or its label.", examples=["Germany"])]
Time = Annotated[
    Name | None, Field(description="A time, if the facts of the graph have times.", examples=["2014-05-06"])
]


class Form(BaseModel):
    """What a request may hold, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class QuestionFields(Form):
    """The fields of a question: `head` or `tail` is missing or "?", or `time` is "?"."""

    relation: Relation
    head: Annotated[Name | None, Field(description="Asks (head, relation, ?).", examples=["Berlin"])] = None
    tail: Annotated[Name | None, Field(description="Asks (?, relation, tail).")] = None
    time: Annotated[Name | None, Field(description="The time of the question; ? asks when the fact holds.")] = None

    def question(self) -> Question:
        """The question for the model."""
        head, tail = (None if name == HOLE else name for name in (self.head, self.tail))
        return Question(head, self.relation, tail, self.time)


class WantedFields(Form):
    """Which answers are wanted."""

    k: Annotated[Count, Field(description="How many answers.")] = 10
    known: Annotated[bool, Field(description="Also known facts, marked as known.")] = False
    among: Annotated[Names | None, Field(description="Only these entities.")] = None
    type: Annotated[Names, Field(description="Only entities of one of these types.")] = []
    in_range: Annotated[
        bool, Field(description="Only entities that training facts have with this relation on this side.")
    ] = False
    min_probability: Annotated[Share | None, Field(description="Only answers that are at least this probable.")] = None
    coverage: Annotated[
        Share | None, Field(description="Only the set that holds a missing answer with this probability.")
    ] = None
    approximate: Annotated[bool, Field(description="Find answers by the run's index.")] = False
    explain: Annotated[bool, Field(description="Say why the model gives each answer.")] = False

    def wanted(self, questions: int) -> Wanted:
        """The wish as one value, for this many questions."""
        if questions * self.k > MOST_ANSWERS:
            raise BadInput(
                f"{questions} questions with k {self.k} are more than {MOST_ANSWERS:,} answers; ask in several requests"
            )
        if self.explain and questions * self.k > MOST_REASONS:
            raise BadInput(
                f"{questions} questions with k {self.k} are more than {MOST_REASONS} answers, which is the most with reasons; "
                "ask for fewer, or leave explain out"
            )
        rest = {name: getattr(self, name) for name in WantedFields.model_fields if name not in ("k", "explain")}
        return wanted_of(self.k, rest)  # type: ignore[arg-type]


class OneQuestion(WantedFields, QuestionFields):
    """One question, from the address of a request."""


class FactFields(Form):
    """The fields of a fact."""

    head: Entity
    relation: Relation
    tail: Tail
    time: Time = None

    def fact(self) -> tuple[str, str, str, str | None]:
        """The fact for the model."""
        return self.head, self.relation, self.tail, self.time


def _listed(of: type[BaseModel]) -> Any:
    """A list of forms in a document. Each is read on its own, so that one bad form is one error in the list."""
    schema = {"type": "array", "minItems": 1, "maxItems": MOST, "items": of.model_json_schema()}
    return Annotated[list[Any], Field(min_length=1, max_length=MOST), WithJsonSchema(schema)]


class ManyQuestions(WantedFields):
    """Many questions, from the body of a request."""

    questions: _listed(QuestionFields)  # type: ignore[valid-type]


class ManyFacts(Form):
    """Many facts, from the body of a request."""

    facts: _listed(FactFields)  # type: ignore[valid-type]


class Explained(FactFields):
    """A fact that is to be explained."""

    side: Annotated[Side, Field(description="Which part of the fact is the answer.")] = "tail"
    k: Annotated[Limit, Field(le=100, description="How many facts, similar entities and rules.")] = 5


class Near(Form):
    """An entity whose neighbours are wanted."""

    entity: Entity
    k: Annotated[Limit, Field(description="How many neighbours.")] = 10
    relation: Annotated[Name | None, Field(description="Compare what entities ask with this relation.")] = None
    time: Time = None


class Searched(Form):
    """A search for entities."""

    query: Annotated[
        Name, Field(description="A part of a name or label; empty for entities with most facts.", examples=["berl"])
    ] = ""
    limit: Annotated[Limit, Field(description="How many entities.")] = 10


class FactsAbout(Form):
    """The entity whose facts are wanted, and which of them."""

    entity: Entity
    relation: Annotated[Name | None, Field(description="Only facts of this relation.")] = None
    offset: Annotated[Offset, Field(description="How many facts to leave out at the beginning.")] = 0
    limit: Annotated[Limit, Field(description="How many facts.")] = 100


class SuggestedFor(Form):
    """The entity for which missing facts are wanted."""

    entity: Entity
    k: Annotated[Limit, Field(le=100, description="How many answers for each relation.")] = 3
    time: Time = None
    limit: Annotated[Limit, Field(description="How many relations and sides.")] = 20


class TimedFact(Form):
    """A fact whose times are wanted."""

    head: Entity
    relation: Relation
    tail: Tail


class DecisionFields(Form):
    """What a person decided about a fact."""

    head: Entity
    relation: Relation
    tail: Tail
    time: Time = None
    decision: Literal["accept", "reject", "withdraw"]

    def value(self) -> Decision:
        """The decision, as it is stored."""
        return Decision(self.head, self.relation, self.tail, self.time or "", self.decision)


class Decisions(Form):
    """Decisions of people, from the body of a request."""

    decisions: Annotated[list[DecisionFields], Field(min_length=1, max_length=MOST)]
    change: Annotated[bool, Field(description="Whether a decision may be the opposite of an earlier one.")] = True
