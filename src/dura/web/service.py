"""Service: one trained model behind HTTP.

The application asks the model in one thread at a time: a product uses all cores anyway, and memory stays that of one block of
questions however many clients there are. A model with packed tables is asked by them as they are.
"""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable
from threading import Lock
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from dura.experiments.trained import Trained
from dura.inference import Question, ask
from dura.models.packed import Csr, Packed
from dura.types import BadInput, DuraError, __version__

MOST = 1000
"""Answers to a question, and questions of a request: no client can make the others wait for long."""
Count = Annotated[int, Field(ge=1, le=MOST)]


class Asked(BaseModel):
    """A question: `head` or `tail` is left out, or `time` is "?"."""

    model_config = ConfigDict(extra="forbid")
    relation: str
    head: str | None = None
    tail: str | None = None
    time: str | None = None

    def question(self) -> Question:
        """As the model is asked."""
        return Question(self.head, self.relation, self.tail, self.time)


class Several(BaseModel):
    """Several questions at once."""

    model_config = ConfigDict(extra="forbid")
    questions: Annotated[list[Asked], Field(min_length=1, max_length=MOST)]
    k: Count = 10
    known: bool = False


class One(Asked):
    """One question, from the address."""

    k: Count = 10
    known: bool = False


def application(trained: Trained) -> FastAPI:
    """The addresses of the service for a trained model."""
    app = FastAPI(title="dura", version=__version__, docs_url=None, redoc_url=None)  # their pages load from elsewhere
    alone, about = Lock(), describe(trained)

    def answers(questions: list[Question], k: int, known: bool) -> list[dict[str, Any]]:
        with alone:
            return [found.to_dict() for found in ask(trained.model, trained.graph, questions, k, known=known)]

    @app.get("/")
    def root() -> dict[str, Any]:
        """What is served."""
        return about

    @app.get("/predict")
    def predict_one(asked: Annotated[One, Query()]) -> dict[str, Any]:
        """The answers to one question."""
        return answers([asked.question()], asked.k, asked.known)[0]

    @app.post("/predict")
    def predict_many(asked: Several) -> dict[str, Any]:
        """The answers to several questions, in their order."""
        return {"questions": answers([q.question() for q in asked.questions], asked.k, asked.known)}

    @app.exception_handler(DuraError)
    def failed(_: Request, error: DuraError) -> JSONResponse:
        return _error(str(error), 400 if isinstance(error, BadInput) else 500)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return _error("; ".join(map(_sentence, error.errors())), 400)

    @app.exception_handler(HTTPException)
    def unknown(request: Request, error: HTTPException) -> JSONResponse:
        known = "GET /, GET /predict, POST /predict, GET /openapi.json"
        return _error(f"{request.method} {request.url.path}: {error.detail}; known are {known}", error.status_code)

    return app


def describe(trained: Trained) -> dict[str, Any]:
    """What a client may want to know of the model."""
    model, graph, experiment = trained.model, trained.graph, trained.experiment
    packed = [table for table in vars(model).values() if isinstance(table, Packed)]
    size = sum(table.bytes for table in packed) + sum(p.numel() * p.element_size() for p in model.parameters())
    return {
        "dura": __version__,
        "run": trained.path.name if trained.path else None,
        "model": experiment.model.name,
        "rank": model.rank,
        "regularizer": experiment.regularizer.name,
        "graph": {
            "name": graph.name,
            "entities": graph.sizes.entities,
            "relations": graph.sizes.relations,
            "times": list(graph.times.span) if graph.times else None,
        },
        "tables": {
            "sparse": any(isinstance(table, Csr) for table in packed),
            "dtype": packed[0].number_type if packed else "float32",
            "bytes": size,
        },
    }


def serve(trained: Trained, host: str, port: int, *, quiet: bool, ready: Callable[[str], None]) -> None:
    """Answer until interrupted; `ready` is told the address as soon as it can be asked (port 0 is any free one)."""
    logs = copy.deepcopy(uvicorn.config.LOGGING_CONFIG)
    logs["handlers"]["access"]["stream"] = "ext://sys.stderr"  # nothing but results goes to standard output
    logs["loggers"]["uvicorn.error"]["level"] = "WARNING"
    config = uvicorn.Config(application(trained), log_config=logs, access_log=not quiet)
    with _listening(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise BadInput(f"{host} port {port} cannot be listened at: {why}; name another by --host or --port") from None


def _sentence(error: Any) -> str:
    """One complaint of pydantic, with its place: `questions.0.relation: Field required`."""
    if error["type"] == "json_invalid":
        return f"the body is no JSON: {error['ctx']['error']}"
    place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query"))
    return f"{place or 'the request'}: {error['msg']}"


def _error(sentence: str, status: int) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
