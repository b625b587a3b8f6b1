"""OpenAPI: the description of all addresses, and the page at /docs that shows it. Nothing comes from another host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from dura.text import parse_json
from dura.types import __version__
from dura.web import documents as shown
from dura.web import requests as forms
from dura.web.pages import GUARD
from dura.web.replies import json_reply
from dura.web.sentences import EXAMPLE, FACT, FORMS
from dura.web.settings import Settings

FOLDER = Path(__file__).parent / "docs"
_FILES = {"docs.js": "text/javascript", "docs.css": "text/css"}
_QUESTION = {"head": "Berlin", "relation": "located_in"}
_FACT = {**_QUESTION, "tail": "Germany"}
_ANSWER = {"entity": "Germany", "score": 7.31, "rank": 1, "known": False, "label": "Germany", "probability": 0.93}
_ANSWERS = {"question": _QUESTION, "answers": [_ANSWER]}
_SCORED = {**_FACT, "score": 7.31, "known": True, "rejected": False, "probability": 0.98, "contradicts": False}
_MISS = {"error": "the entity 'Berln' is not in this graph; did you mean 'Berlin'?"}
_DECIDED = {**_FACT, "decision": "accept"}

DOCUMENTS: dict[tuple[str, str], tuple[type[BaseModel], Any]] = {
    ("/", "get"): (shown.RootDocument, None),
    ("/about", "get"): (shown.AboutDocument, None),
    ("/predict", "get"): (shown.AnswersDocument, _ANSWERS),
    ("/predict", "post"): (shown.ManyAnswersDocument, {"questions": [_ANSWERS, _MISS]}),
    ("/score", "get"): (shown.ScoredDocument, _SCORED),
    ("/score", "post"): (shown.ManyScoredDocument, {"facts": [_SCORED, _MISS]}),
    ("/neighbours", "get"): (
        shown.NeighboursDocument,
        {"entity": "Berlin", "label": "Berlin", "neighbours": [{"entity": "Bonn", "similarity": 0.81, "rank": 1, "label": "Bonn"}]},
    ),
    ("/explain", "get"): (shown.ExplanationDocument, None),
    ("/entities", "get"): (
        shown.EntitiesDocument,
        {"query": "berl", "entities": [{"entity": "Berlin", "label": "Berlin", "types": ["city"], "facts": 41, "match": "prefix"}]},
    ),
    ("/relations", "get"): (
        shown.RelationsDocument,
        {"relations": [{"relation": "located_in", "label": "located_in", "facts": 120}]},
    ),
    ("/facts", "get"): (shown.FactsDocument, None),
    ("/suggestions", "get"): (
        shown.SuggestionsDocument,
        {"entity": "Berlin", "label": "Berlin", "relations": [
            {"relation": "located_in", "label": "located_in", "side": "tail", "own": True, "share": 0.8, "answers": [_ANSWER]}
        ]},
    ),
    ("/times", "get"): (
        shown.StripDocument,
        {"question": {"head": "Ann", "relation": "visits", "tail": "Bob"},
         "times": [{"time": "2014-05-06", "score": 2.5, "share": 0.4, "known": True}]},
    ),
    ("/map", "get"): (
        shown.MapDocument,
        {"method": "tsne", "entities": ["Berlin"], "labels": None, "types": ["city"], "x": [0.1], "y": [-0.2], "facts": [41]},
    ),
    ("/reviews", "get"): (shown.ReviewsDocument, {"writable": True, "decisions": [_DECIDED]}),
    ("/reviews", "post"): (
        shown.ReviewedDocument,
        {"accepted": 1, "rejected": 0, "known": 0, "changed": 0, "total": {"accept": 1, "reject": 0}},
    ),
    ("/health", "get"): (shown.StatusDocument, {"status": "alive"}),
    ("/ready", "get"): (shown.StatusDocument, {"status": "ready", "run": "mine", "since": "2026-05-06T10:00:00+00:00"}),
}  # fmt: skip
"""What each address answers, with an example."""
BODIES: dict[str, tuple[type[BaseModel], Any]] = {
    "/predict": (forms.ManyQuestions, parse_json(EXAMPLE.encode())),
    "/score": (forms.ManyFacts, {"facts": [parse_json(FACT.encode())]}),
    "/reviews": (forms.Decisions, {"decisions": [_DECIDED]}),
}
STATUSES = {
    400: "The request is wrong: an unknown name, a missing or unknown key, too many answers.",
    401: "The service needs a token, and the request has none or another one.",
    403: "The service is read only.",
    405: "The address has no such method.",
    408: "The body did not arrive in time.",
    413: "The body is larger than one mebibyte.",
    429: "Too many questions are waiting. Try again after Retry-After seconds.",
    431: "The head of the request is larger than 64 KiB.",
    500: "The model cannot answer; the log says why.",
    503: "The service is ending, or another process is writing to the run folder.",
    504: "The answer took too long.",
}
_ABOUT = (
    "Answers of a trained knowledge graph model. Entities and relations are given by name or by label. Errors are one sentence: "
    '`{"error": "..."}`. Keys may be added to answers at any time.'
)


def describe_addresses(app: FastAPI, settings: Settings) -> None:
    """Give the application an OpenAPI document that tells every status and shows examples."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title="dura", version=__version__, description=_ABOUT, routes=app.routes)
            app.openapi_schema = _completed(found, settings)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _completed(document: dict[str, Any], settings: Settings) -> dict[str, Any]:
    models = {model for model, _ in [*DOCUMENTS.values(), *BODIES.values()]} | {shown.Error}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema(
        [(model, "validation") for model in ordered], ref_template="#/components/schemas/{model}"
    )
    bearer = {"type": "http", "scheme": "bearer", "description": "The token of --token-file, if the service has one."}
    document["components"] = {"schemas": schemas["$defs"], "securitySchemes": {"token": bearer}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete(operation, path, method)
            if settings.token is not None and path not in ("/health", "/ready"):
                operation["security"] = [{"token": []}]
    return document


def _complete(operation: dict[str, Any], path: str, method: str) -> None:
    """Add what an address answers, with each status, and what its body holds."""
    operation["summary"] = operation.pop("description", operation.get("summary", "")).split("\n")[0]
    statuses = [400, 401, 405, 429, 431, 500, 503, 504]
    operation["responses"] = {"200": _right(path, method)}
    if method == "get" and path in FORMS:
        operation["parameters"] = _parameters(FORMS[path][0])
    if method == "post":
        statuses += [408, 413] + [403] * (path == "/reviews")
        form, example = BODIES[path]
        content = {"schema": {"$ref": f"#/components/schemas/{form.__name__}"}, "example": example}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    for status in sorted(statuses):
        content = {"schema": {"$ref": "#/components/schemas/Error"}, "example": {"error": STATUSES[status]}}
        reply: dict[str, Any] = {"description": STATUSES[status], "content": {"application/json": content}}
        if status in (429, 503):
            reply["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
        operation["responses"][str(status)] = reply


def _parameters(form: type[BaseModel]) -> list[dict[str, Any]]:
    """The parameters of an address, from its form."""
    schema = form.model_json_schema()
    found: list[dict[str, Any]] = []
    for name, field in schema["properties"].items():
        given = {key: value for key, value in field.items() if key not in ("title", "description", "anyOf", "default")}
        given |= next((kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}), {})
        given |= {"default": field["default"]} if field.get("default") is not None else {}
        parameter = {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": given}
        found.append(parameter | {"description": field.get("description", "")})
    return found


def _right(path: str, method: str) -> dict[str, Any]:
    if path == "/metrics":
        return {"description": "Counters and measures.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    if (path, method) not in DOCUMENTS:
        return {"description": "The answer.", "content": {"application/json": {"schema": {"type": "object"}}}}
    model, example = DOCUMENTS[path, method]
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if example is not None:
        content["example"] = example
    every: dict[str, Any] = {"application/json": content}
    if path == "/":
        every["text/html"] = {"schema": {"type": "string"}}
    return {"description": (model.__doc__ or "").split("\n")[0], "content": every}


def documentation() -> APIRouter:
    """GET /openapi.json, and a page that shows it."""
    router = APIRouter()

    @router.get("/openapi.json", include_in_schema=False)
    async def described(request: Request) -> Response:
        """The OpenAPI document."""
        return json_reply(request.app.openapi())

    @router.get("/docs", include_in_schema=False)
    async def page() -> Response:
        """The page."""
        return Response((FOLDER / "index.html").read_bytes(), 200, GUARD, "text/html")

    @router.get("/docs/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        """A file of the page."""
        if name not in _FILES:
            raise HTTPException(404)
        return Response((FOLDER / name).read_bytes(), 200, GUARD, _FILES[name])

    return router
