"""Routes: the addresses of the service. Each parses, calls one function of `Trained`, and shows what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from dura.runs.trained import Trained
from dura.text import shown
from dura.types import BadInput
from dura.web import requests as forms
from dura.web.answering import Served
from dura.web.mapped import add_map
from dura.web.replies import body_of, json_reply
from dura.web.sentences import sentence

F = TypeVar("F", bound=BaseModel)
_LISTS = ("among", "type")


def asked_for(request: Request, form: type[F]) -> F:
    """What the address of a request asks for. FastAPI would read it too, but that takes longer than the answer."""
    given: dict[str, Any] = {}
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), True, max_num_fields=2 * forms.MOST_NAMES)
    except ValueError:  # not ASCII, or too many
        raise BadInput("the address of the request cannot be read") from None
    for name, value in pairs:
        if name in _LISTS:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise BadInput(f"{shown(name)} is given twice; to ask several questions send a POST request")
        else:
            given[name] = value
    try:
        return form.model_validate(given)
    except ValidationError as error:
        raise BadInput(sentence(error.errors(), request.url.path)) from None


def routes(served: Served) -> APIRouter:
    """All addresses for data."""
    router = APIRouter()
    for add in (_about, _questions, _facts, _entities, _reviews, add_map):
        add(router, served)
    return router


def _about(router: APIRouter, served: Served) -> None:
    @router.get("/about")
    async def about() -> Response:
        """The model, its graph, its settings, its results, and what people decided."""
        found = await served.look_up(Trained.about)
        if served.settings.read_only:
            found["reviews"]["writable"] = False
        return json_reply(found)

    @router.get("/relations")
    async def relations() -> Response:
        """All relations of the graph."""
        found = await served.look_up(lambda trained: [one.to_dict() for one in trained.relations()])
        return json_reply({"relations": found})


def _questions(router: APIRouter, served: Served) -> None:
    @router.get("/predict")
    async def predict_one(request: Request) -> Response:
        """The answers to one question."""
        asked = asked_for(request, forms.OneQuestion)
        question, wanted = asked.question(), asked.wanted(1)
        return json_reply(_only(await served.ask([question], wanted, explain=asked.explain)))

    @router.post("/predict")
    async def predict_many(request: Request) -> Response:
        """The answers to several questions, in the order of the questions."""
        asked = forms.ManyQuestions.model_validate_json(await body_of(request, served.settings))
        wanted = asked.wanted(len(asked.questions))
        right, wrong = _sorted(forms.QuestionFields, asked.questions, forms.QuestionFields.question)
        found = iter(await served.ask(list(right.values()), wanted, explain=asked.explain) if right else [])
        return json_reply(
            {"questions": [wrong[at] if at in wrong else next(found) for at in range(len(asked.questions))]}
        )

    @router.get("/explain")
    async def explain(request: Request) -> Response:
        """Why the model gives an answer."""
        asked = asked_for(request, forms.Explained)
        found = await served.compute(lambda trained: trained.explain(*asked.fact(), side=asked.side, k=asked.k))
        return json_reply(found.to_dict())

    @router.get("/neighbours")
    async def neighbours(request: Request) -> Response:
        """The entities that are most alike."""
        asked = asked_for(request, forms.Near)
        near = await served.compute(
            lambda trained: trained.neighbours(asked.entity, asked.k, relation=asked.relation, time=asked.time)
        )
        return json_reply(near.to_dict())


def _facts(router: APIRouter, served: Served) -> None:
    @router.get("/score")
    async def score_one(request: Request) -> Response:
        """The score of one fact."""
        asked = asked_for(request, forms.FactFields)
        return json_reply(_only(await served.score([asked.fact()])))

    @router.post("/score")
    async def score_many(request: Request) -> Response:
        """The scores of several facts, in the order of the facts."""
        asked = forms.ManyFacts.model_validate_json(await body_of(request, served.settings))
        right, wrong = _sorted(forms.FactFields, asked.facts, forms.FactFields.fact)
        found = iter(await served.score(list(right.values())) if right else [])
        return json_reply({"facts": [wrong[at] if at in wrong else next(found) for at in range(len(asked.facts))]})

    @router.get("/times")
    async def times(request: Request) -> Response:
        """A fact at every time."""
        asked = asked_for(request, forms.TimedFact)
        found = await served.compute(lambda trained: trained.times_of(asked.head, asked.relation, asked.tail))
        return json_reply(found.to_dict())


def _entities(router: APIRouter, served: Served) -> None:
    @router.get("/entities")
    async def entities(request: Request) -> Response:
        """Entities by a part of their name or label."""
        asked = asked_for(request, forms.Searched)
        found = await served.look_up(lambda trained: trained.find_entities(asked.query, asked.limit))
        return json_reply({"query": asked.query, "entities": [one.to_dict() for one in found]})

    @router.get("/facts")
    async def facts(request: Request) -> Response:
        """The facts of an entity, and what is known about it."""
        asked = asked_for(request, forms.FactsAbout)
        found = await served.look_up(
            lambda trained: trained.facts_of(asked.entity, asked.relation, offset=asked.offset, limit=asked.limit)
        )
        return json_reply(found.to_dict())

    @router.get("/suggestions")
    async def suggestions(request: Request) -> Response:
        """The best missing facts of an entity."""
        asked = asked_for(request, forms.SuggestedFor)
        found = await served.compute(
            lambda trained: trained.suggest(asked.entity, asked.k, time=asked.time, limit=asked.limit)
        )
        return json_reply(found.to_dict())


def _reviews(router: APIRouter, served: Served) -> None:
    @router.get("/reviews")
    async def reviews() -> Response:
        """What people decided about facts."""
        found = await served.look_up(lambda trained: [one.to_dict() for one in trained.decisions()])
        writable = not served.settings.read_only and await served.look_up(lambda trained: trained.writable)
        return json_reply({"writable": writable, "decisions": found})

    @router.post("/reviews")
    async def decide(request: Request) -> Response:
        """Store what people decided about facts."""
        if served.settings.read_only:
            raise HTTPException(403, "this service is read only (--read-only), so it stores no decisions")
        given = forms.Decisions.model_validate_json(await body_of(request, served.settings))
        values = [one.value() for one in given.decisions]
        done = await served.look_up(lambda trained: trained.decide(values, change=given.change))
        return json_reply(done.to_dict())


def _only(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer to the only question; what is wrong with it is an error of the request."""
    if "error" in found[0]:
        raise BadInput(found[0]["error"])
    return found[0]


def _sorted(
    form: type[F], given: list[Any], value: Callable[[F], Any]
) -> tuple[dict[int, Any], dict[int, dict[str, str]]]:
    """The right ones of given questions or facts, and what is wrong with the others, each by its place."""
    right: dict[int, Any] = {}
    wrong: dict[int, dict[str, str]] = {}
    for at, one in enumerate(given):
        try:
            right[at] = value(form.model_validate(one))
        except ValidationError as error:
            wrong[at] = {"error": sentence(error.errors(), form.__name__)}
        except BadInput as error:
            wrong[at] = {"error": str(error)}
    return right, wrong
