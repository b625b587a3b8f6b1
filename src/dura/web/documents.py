"""Documents: the form of what the service answers, for the OpenAPI document. Answers may have more keys."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

SIDE = Literal["tail", "head"]


class Error(BaseModel):
    """What is wrong, where, and what would be right."""

    error: str


class AnswerDocument(BaseModel):
    """One answer to a question."""

    entity: str
    score: float
    rank: int
    known: bool
    label: str
    probability: float | None = Field(None, description="Only if the run is calibrated.")
    contradicts: bool | None = Field(None, description="Whether a known answer speaks against it.")
    explanation: dict[str, Any] | None = None


class TimeDocument(BaseModel):
    """One time at which a fact may hold."""

    time: str
    score: float
    rank: int
    known: bool


class AnswersDocument(BaseModel):
    """The answers to one question: entities, or times if the question asks when."""

    question: dict[str, str]
    answers: list[AnswerDocument] | None = None
    times: list[TimeDocument] | None = None
    set_size: int | None = None


class ManyAnswersDocument(BaseModel):
    """The answers to several questions; a bad one has an error in its place."""

    questions: list[AnswersDocument | Error]


class ScoredDocument(BaseModel):
    """A fact with its score."""

    head: str
    relation: str
    tail: str
    time: str | None = None
    score: float
    known: bool
    rejected: bool
    probability: float | None = Field(None, description="Only if the run is calibrated.")
    contradicts: bool | None = Field(None, description="Whether a known answer speaks against it.")


class ManyScoredDocument(BaseModel):
    """Several facts with their scores; a bad one has an error in its place."""

    facts: list[ScoredDocument | Error]


class NeighbourDocument(BaseModel):
    """A similar entity."""

    entity: str
    similarity: float
    rank: int
    label: str


class NeighboursDocument(BaseModel):
    """The entities that are most alike."""

    entity: str
    label: str
    neighbours: list[NeighbourDocument]


class ExplanationDocument(BaseModel):
    """Why the model gives an answer."""

    fact: dict[str, str]
    side: SIDE
    score: float
    rank: int
    known: bool
    facts: list[dict[str, Any]]
    against: list[dict[str, Any]]
    similar: list[dict[str, Any]]
    rules: list[dict[str, Any]]


class FoundDocument(BaseModel):
    """An entity that was found."""

    entity: str
    label: str
    types: list[str]
    facts: int
    match: Literal["exact", "prefix", "word", "fuzzy"]


class EntitiesDocument(BaseModel):
    """The entities that fit a query."""

    query: str
    entities: list[FoundDocument]


class RelationDocument(BaseModel):
    """A relation of the graph."""

    relation: str
    label: str
    facts: int


class RelationsDocument(BaseModel):
    """All relations of the graph."""

    relations: list[RelationDocument]


class FactDocument(BaseModel):
    """A fact of the graph."""

    head: str
    relation: str
    tail: str
    time: str | None = None
    split: Literal["train", "valid", "test"]
    head_label: str
    relation_label: str
    tail_label: str


class FactsDocument(BaseModel):
    """The facts of an entity, and what is known about it."""

    entity: str
    label: str
    types: list[str]
    description: str | None
    total: int
    facts: list[FactDocument]


class SuggestionDocument(BaseModel):
    """The best missing answers for a relation, on one side."""

    relation: str
    label: str
    side: SIDE
    own: bool
    share: float
    answers: list[AnswerDocument]


class SuggestionsDocument(BaseModel):
    """The best missing facts of an entity."""

    entity: str
    label: str
    time: str | None = None
    relations: list[SuggestionDocument]


class MomentDocument(BaseModel):
    """A fact at one time."""

    time: str
    score: float
    share: float
    known: bool


class StripDocument(BaseModel):
    """A fact at every time, in the order of time."""

    question: dict[str, str]
    times: list[MomentDocument]


class DecisionDocument(BaseModel):
    """What people decided about a fact."""

    head: str
    relation: str
    tail: str
    time: str | None = None
    decision: Literal["accept", "reject"]
    when: str | None = None


class ReviewsDocument(BaseModel):
    """All decisions, and whether new ones can be stored."""

    writable: bool
    decisions: list[DecisionDocument]


class ReviewedDocument(BaseModel):
    """How many decisions were new, and how many there are now."""

    accepted: int
    rejected: int
    known: int
    changed: int
    total: dict[str, int]


class MapDocument(BaseModel):
    """Where entities are in the plane, in columns."""

    method: Literal["tsne", "pca"]
    entities: list[str]
    labels: list[str] | None
    types: list[str | None] | None
    x: list[float]
    y: list[float]
    facts: list[int]
    left_out: int | None = None


class RootDocument(BaseModel):
    """The model, its graph, and its tables."""

    dura: str
    run: str | None
    model: str
    rank: int
    regularizer: str
    graph: dict[str, Any]
    tables: dict[str, Any]


class AboutDocument(RootDocument):
    """The root, and what a page about the model shows."""

    calibrated: bool
    entities: int
    relations: int
    facts: dict[str, int]
    metrics: dict[str, Any] | None
    settings: dict[str, Any]
    reviews: dict[str, Any]
    times: list[str] | None


class StatusDocument(BaseModel):
    """How the service is."""

    status: str
    run: str | None = None
    since: str | None = None
