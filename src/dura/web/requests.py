"""Requests: what a client may send, and a sentence for what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from dura.inference.answers import HOLE, Question
from dura.text import shown

MOST, LONGEST = 1_000, 1_000
"""At most this many answers per question and questions per request; and characters in a name."""
MOST_NAMES = 10_000
"""At most this many names that answers may be among."""
EXAMPLE = '{"questions": [{"head": "Berlin", "relation": "located_in"}]}'
"""A body that could be right, for sentences."""


def _no_truth(value: object) -> object:
    """Refuse true and false, which pydantic would read as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "true and false are not numbers")
    return value


Count = Annotated[int, BeforeValidator(_no_truth), Field(le=MOST)]
"""How many answers; the model refuses fewer than one with the sentence that `dura predict` gives."""
Name = Annotated[str, Field(max_length=LONGEST)]
Names = Annotated[
    list[Name],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    Field(max_length=MOST_NAMES),
]
"""One name or a list of them."""


class QuestionFields(BaseModel):
    """The fields of a question: `head` or `tail` is missing or "?", or `time` is "?"."""

    model_config = ConfigDict(extra="forbid")
    relation: Name
    head: Name | None = None
    tail: Name | None = None
    time: Name | None = None

    def question(self) -> Question:
        """The question for the model."""
        head, tail = (None if name == HOLE else name for name in (self.head, self.tail))
        return Question(head, self.relation, tail, self.time)


class WantedFields(BaseModel):
    """Which answers are wanted."""

    k: Count = 10
    known: bool = False
    among: Names | None = None
    type: Names = []
    in_range: bool = False
    min_probability: float | None = None
    coverage: float | None = None

    def wanted(self) -> dict[str, Any]:
        """The wish, by the names that `Trained.ask` has for its parts."""
        return {name: getattr(self, name) for name in WantedFields.model_fields}


class OneQuestion(WantedFields, QuestionFields):
    """One question, from the address of a request."""


class ManyQuestions(WantedFields):
    """Many questions, from the body of a request."""

    model_config = ConfigDict(extra="forbid")
    questions: Annotated[list[QuestionFields], Field(min_length=1, max_length=MOST)]


_WANTED = {
    "string": "must be text",
    "int": f"must be a whole number from 1 to {MOST:,}",
    "less_than_equal": f"must be a whole number from 1 to {MOST:,}",
    "bool": "must be true or false",
    "list": "must be a list of names",
    "float": "must be a number from 0 to 1",
    "model": f"must be an object such as {EXAMPLE}",
}
"""What would be right, by the beginning of pydantic's name for the error."""


def sentence(errors: Sequence[Mapping[str, Any]], *, body: bool) -> str:
    """A sentence for the first of pydantic's errors: what is wrong, where, and what would be right."""
    error = errors[0]
    place = tuple(error["loc"]) if body else tuple(error["loc"][1:])  # FastAPI's place begins with "query"
    kind, given, where = str(error["type"]), error["input"], _where(place)
    if kind == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}"
    if kind == "missing":
        example = f", such as {EXAMPLE}" if body else ", such as /predict?head=Berlin&relation=located_in"
        return f"{where} is missing; it is needed{example}"
    if kind == "extra_forbidden":
        fields = ManyQuestions if body and len(place) == 1 else QuestionFields if body else OneQuestion
        return f"{where} is not known; known are {', '.join(fields.model_fields)}"
    if kind == "string_too_long":
        return f"{where} has {len(given):,} characters; at most {LONGEST:,} are allowed"
    if kind == "too_long" and place[0] != "questions":
        return f"{where} has {len(given):,} names; at most {MOST_NAMES:,} are allowed"
    if kind in ("too_short", "too_long"):
        return f"{where} has {len(given):,} questions; 1 to {MOST:,} are allowed in one request"
    if kind.startswith("list") and place == ("questions",):
        return f"{where} must be a list of questions, not {_given(given)}"
    wanted = next((words for begin, words in _WANTED.items() if kind.startswith(begin)), "is not valid")
    if len(place) == 2 and kind.startswith("model"):
        wanted = 'must be an object such as {"head": "Berlin", "relation": "located_in"}'
    return f"{where} {wanted}, not {_given(given)}"


def _where(place: tuple[int | str, ...]) -> str:
    """A place in a request: `relation of question 1` for ("questions", 0, "relation")."""
    names = [shown(name)[1:-1] for name in place if isinstance(name, str)]
    numbers = [name + 1 for name in place if isinstance(name, int)]
    if not place:
        return "the body"
    if not numbers:
        return names[-1]
    return f"{names[-1]} of question {numbers[0]}" if len(names) > 1 else f"question {numbers[0]}"


def _given(value: object) -> str:
    """A value as JSON writes it."""
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    return (
        {True: "true", False: "false", None: "null"}[value]
        if value is None or isinstance(value, bool)
        else shown(value)
    )
