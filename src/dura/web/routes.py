"""Routes: the addresses of the service. Each parses, calls one function of `Trained`, and shows what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from dura.runs.trained import Trained
from dura.text import shown
from dura.types import BadInput
from dura.web import requests as forms
from dura.web.answering import Served
from dura.web.replies import body_of, json_reply
from dura.web.sentences import sentence

F = TypeVar("F", bound=BaseModel)
_LISTS = ("among", "type")


async def once(request: Request) -> None:
    """Refuse a parameter that is given twice."""
    names = [name for name, _ in request.query_params.multi_items() if name not in _LISTS]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"{shown(twice)} is given twice; to ask several questions send a POST request")


def routes(served: Served) -> APIRouter:
    """All addresses for data."""
    router = APIRouter(dependencies=[Depends(once)])
    # The place for GET /map: a function like these, which calls `trained.map()` by `served.compute`.
    for add in (_about, _questions, _facts, _entities, _reviews):
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
    async def predict_one(asked: Annotated[forms.OneQuestion, Query()]) -> Response:
        """The answers to one question."""
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
    async def explain(asked: Annotated[forms.Explained, Query()]) -> Response:
        """Why the model gives an answer."""
        found = await served.compute(lambda trained: trained.explain(*asked.fact(), side=asked.side, k=asked.k))
        return json_reply(found.to_dict())

    @router.get("/neighbours")
    async def neighbours(asked: Annotated[forms.Near, Query()]) -> Response:
        """The entities that are most alike."""
        near = await served.compute(
            lambda trained: trained.neighbours(asked.entity, asked.k, relation=asked.relation, time=asked.time)
        )
        return json_reply(near.to_dict())


def _facts(router: APIRouter, served: Served) -> None:
    @router.get("/score")
    async def score_one(asked: Annotated[forms.FactFields, Query()]) -> Response:
        """The score of one fact."""
        return json_reply(_only(await served.score([asked.fact()])))

    @router.post("/score")
    async def score_many(request: Request) -> Response:
        """The scores of several facts, in the order of the facts."""
        asked = forms.ManyFacts.model_validate_json(await body_of(request, served.settings))
        right, wrong = _sorted(forms.FactFields, asked.facts, forms.FactFields.fact)
        found = iter(await served.score(list(right.values())) if right else [])
        return json_reply({"facts": [wrong[at] if at in wrong else next(found) for at in range(len(asked.facts))]})

    @router.get("/times")
    async def times(asked: Annotated[forms.TimedFact, Query()]) -> Response:
        """A fact at every time."""
        found = await served.compute(lambda trained: trained.times_of(asked.head, asked.relation, asked.tail))
        return json_reply(found.to_dict())


def _entities(router: APIRouter, served: Served) -> None:
    @router.get("/entities")
    async def entities(asked: Annotated[forms.Searched, Query()]) -> Response:
        """Entities by a part of their name or label."""
        found = await served.look_up(lambda trained: trained.find_entities(asked.query, asked.limit))
        return json_reply({"query": asked.query, "entities": [one.to_dict() for one in found]})

    @router.get("/facts")
    async def facts(asked: Annotated[forms.FactsAbout, Query()]) -> Response:
        """The facts of an entity, and what is known about it."""
        found = await served.look_up(
            lambda trained: trained.facts_of(asked.entity, asked.relation, offset=asked.offset, limit=asked.limit)
        )
        return json_reply(found.to_dict())

    @router.get("/suggestions")
    async def suggestions(asked: Annotated[forms.SuggestedFor, Query()]) -> Response:
        """The best missing facts of an entity."""
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
