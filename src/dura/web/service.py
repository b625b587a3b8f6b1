"""Service: one trained model behind HTTP.

One thread of its own asks the model, a request after the other: a product takes all cores anyway, torch keeps threads for every
thread that calls it, and memory stays that of one request. A model with packed tables is asked by them as they are.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dura.inference import Question, ask
from dura.inference.answers import HOLE
from dura.runs.trained import Trained
from dura.tables.packed import Csr, Packed
from dura.types import BadInput, DuraError, __version__

MOST, MOST_ANSWERS = 1_000, 10_000
"""Answers to a question and questions of a request, and answers of a request: nobody makes the others wait for long."""
LARGEST, LONGEST = 1 << 20, 1_000
"""Bytes of a request's body, and letters of a name."""
PATIENCE, GRACE = 30.0, 5
"""Seconds that a body may take to arrive, and those that are left to requests under way when the service is told to end."""
ADDRESSES = "GET /, GET /predict, POST /predict"
Count = Annotated[int, Field(ge=1, le=MOST)]
Name = Annotated[str, Field(max_length=LONGEST)]


class Asked(BaseModel):
    """A question: `head` or `tail` is left out or "?", or `time` is "?"."""

    model_config = ConfigDict(extra="forbid")
    relation: Name
    head: Name | None = None
    tail: Name | None = None
    time: Name | None = None

    def question(self) -> Question:
        """As the model is asked."""
        head, tail = (None if name == HOLE else name for name in (self.head, self.tail))
        return Question(head, self.relation, tail, self.time)


class One(Asked):
    """One question, from the address."""

    k: Count = 10
    known: bool = False


class Several(BaseModel):
    """Several questions at once, from the body."""

    model_config = ConfigDict(extra="forbid")
    questions: Annotated[list[Asked], Field(min_length=1, max_length=MOST)]
    k: Count = 10
    known: bool = False


def application(trained: Trained) -> FastAPI:
    """The addresses of the service for a trained model; what they answer is in docs/reference/service.md."""
    app = FastAPI(title="dura", version=__version__, openapi_url=None)
    about, thread = describe(trained), ThreadPoolExecutor(1, "model")

    async def answers(asked: One | Several, questions: list[Asked]) -> list[dict[str, Any]]:
        if len(questions) * asked.k > MOST_ANSWERS:
            raise BadInput(
                f"{len(questions)} questions with k {asked.k} are more than {MOST_ANSWERS:,} answers; ask in several requests"
            )
        wanted = [question.question() for question in questions]

        def work() -> list[dict[str, Any]]:
            return [found.to_dict() for found in ask(trained.model, trained.graph, wanted, asked.k, known=asked.known)]

        with _unless_ending():
            return await asyncio.get_running_loop().run_in_executor(thread, work)

    @app.api_route("/", methods=["GET", "HEAD"])
    async def root() -> Response:
        """What is served."""
        return _json(about)

    @app.get("/predict")
    async def predict_one(request: Request, asked: Annotated[One, Query()]) -> Response:
        """The answers to one question."""
        names = [name for name, _ in request.query_params.multi_items()]
        if len(set(names)) < len(names):
            raise BadInput("a parameter is given twice; several questions are a POST")
        return _json((await answers(asked, [asked]))[0])

    @app.post("/predict")
    async def predict_many(request: Request) -> Response:
        """The answers to several questions, in their order."""
        asked = Several.model_validate_json(await _body(request))
        return _json({"questions": await answers(asked, asked.questions)})

    _handle_errors(app)
    return app


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        with _unless_ending():
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    body += part
                    if len(body) > LARGEST:
                        raise HTTPException(413, f"the body is larger than {LARGEST:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {PATIENCE:g} seconds") from None
    except ClientDisconnect:  # nobody hears it, but the log stays free of a traceback
        raise HTTPException(400, "the client left before its body ended") from None
    return bytes(body)


@contextmanager
def _unless_ending() -> Iterator[None]:
    """What is cut off because the service ends is told so."""
    try:
        yield
    except asyncio.CancelledError:
        raise HTTPException(503, "the service is ending") from None


def _handle_errors(app: FastAPI) -> None:
    """Each error is a sentence in JSON."""

    @app.exception_handler(DuraError)
    async def failed(_: Request, error: DuraError) -> Response:
        return _json({"error": str(error)}, 400 if isinstance(error, BadInput) else 500)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(_: Request, error: RequestValidationError | ValidationError) -> Response:
        skip = isinstance(error, RequestValidationError)  # FastAPI says first that it was in the query
        return _json({"error": "; ".join(_sentence(e, e["loc"][skip:]) for e in error.errors())}, 400)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        known = f"{request.method} {request.url.path} is not known here; known are {ADDRESSES}"
        sentence = known if error.status_code in (404, 405) else error.detail
        return _json({"error": sentence}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        short = isinstance(error, MemoryError) or "memory" in str(error)
        sentence = "there is not enough memory for this request" if short else "the service failed; its log says why"
        return _json({"error": sentence}, 500)


def describe(trained: Trained) -> dict[str, Any]:
    """What a client may want to know of the model."""
    model, graph, experiment = trained.model, trained.graph, trained.experiment
    packed = [table for table in vars(model).values() if isinstance(table, Packed)]
    size = sum(table.bytes for table in packed) + sum(p.numel() * p.element_size() for p in model.parameters())
    return {
        "dura": __version__,
        "run": trained.path.resolve().name if trained.path else None,
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
    config = uvicorn.Config(
        application(trained), log_config=_logs(), access_log=not quiet, timeout_graceful_shutdown=GRACE
    )
    with _listening(host, port) as listening:
        _warm(trained)
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _warm(trained: Trained) -> None:
    """Make what the first question needs: the known answers, the names' index."""
    graph = trained.graph
    time = graph.times.span[0] if graph.times else None
    ask(trained.model, graph, [Question(next(iter(graph.entities)), next(iter(graph.relations)), None, time)], 1)


def _logs() -> dict[str, Any]:
    """uvicorn's lines, on standard error, with their time, coloured only on a terminal."""
    logs: dict[str, Any] = copy.deepcopy(uvicorn.config.LOGGING_CONFIG)
    logs["handlers"]["access"]["stream"] = "ext://sys.stderr"
    logs["loggers"]["uvicorn.error"]["level"] = "WARNING"
    for form in logs["formatters"].values():
        form["fmt"] = f"%(asctime)s {form['fmt']}"
        form["use_colors"] = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return logs


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{host} port {port} cannot be listened at: {why}; name another by --host or --port") from None


def _sentence(error: Any, place: tuple[int | str, ...]) -> str:
    """One complaint of pydantic, with its place: `questions.0.relation: Field required`."""
    if error["type"] == "json_invalid":
        return f"the body is no JSON: {error['ctx']['error']}"
    return f"{'.'.join(map(str, place)) or 'the body'}: {error['msg']}"


def _json(document: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(json.dumps(document, ensure_ascii=False), status, headers, "application/json")
