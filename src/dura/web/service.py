"""Service: one trained model behind HTTP.

One thread asks the model, one request at a time: a matrix product uses all cores anyway, torch keeps threads for every thread
that calls it, and only one request takes memory. Packed tables are used as they are.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dura.runs.trained import Trained
from dura.text import shown
from dura.types import BadInput, DuraError, __version__
from dura.web.requests import ManyQuestions, OneQuestion, QuestionFields, WantedFields, sentence

MOST_ANSWERS = 10_000
"""At most this many answers per request, so that others need not wait long."""
LARGEST = 1 << 20
"""At most this many bytes in a request's body."""
PATIENCE, GRACE = 30.0, 5
"""Seconds that a body may take to arrive; and seconds that running requests have left when the service ends."""
ADDRESSES = "GET /, GET /predict, POST /predict"


def application(trained: Trained) -> FastAPI:
    """The addresses of the service for a trained model; docs/reference/service.md says what they answer."""
    app = FastAPI(title="dura", version=__version__, openapi_url=None)
    about, thread = trained.describe(), ThreadPoolExecutor(1, "model")

    async def answers(given: Sequence[QuestionFields], wanted: WantedFields) -> list[dict[str, Any]]:
        if len(given) * wanted.k > MOST_ANSWERS:
            raise BadInput(
                f"{len(given)} questions with k {wanted.k} are more than {MOST_ANSWERS:,} answers; ask in several requests"
            )
        questions = [fields.question() for fields in given]

        def work() -> list[dict[str, Any]]:
            return [found.to_dict() for found in trained.ask(questions, **wanted.wanted())]

        with _unless_ending():
            return await asyncio.get_running_loop().run_in_executor(thread, work)

    @app.api_route("/", methods=["GET", "HEAD"])
    async def root() -> Response:
        """What is served."""
        return _json(about)

    @app.get("/predict")
    async def predict_one(request: Request, asked: Annotated[OneQuestion, Query()]) -> Response:
        """The answers to one question."""
        names = [name for name, _ in request.query_params.multi_items() if name not in ("among", "type")]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadInput(f"{shown(twice)} is given twice; to ask several questions send a POST request")
        return _json((await answers([asked], asked))[0])

    @app.post("/predict")
    async def predict_many(request: Request) -> Response:
        """The answers to several questions, in the order of the questions."""
        asked = ManyQuestions.model_validate_json(await _body(request))
        return _json({"questions": await answers(asked.questions, asked)})

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
    except ClientDisconnect:  # nobody gets this answer, but there is no traceback in the log
        raise HTTPException(400, "the client left before its body ended") from None
    return bytes(body)


@contextmanager
def _unless_ending() -> Iterator[None]:
    """A request that is cut off because the service ends gets a sentence that says so."""
    try:
        yield
    except asyncio.CancelledError:
        raise HTTPException(503, "the service is ending") from None


def _handle_errors(app: FastAPI) -> None:
    """Every error is one sentence in JSON."""

    @app.exception_handler(DuraError)
    async def failed(_: Request, error: DuraError) -> Response:
        return _json({"error": str(error)}, 400 if isinstance(error, BadInput) else 500)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(_: Request, error: RequestValidationError | ValidationError) -> Response:
        return _json({"error": sentence(error.errors(), body=isinstance(error, ValidationError))}, 400)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        known = f"{request.method} {request.url.path} is not known here; known are {ADDRESSES}"
        said = known if error.status_code in (404, 405) else error.detail
        return _json({"error": said}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        short = isinstance(error, MemoryError) or "memory" in str(error)
        said = "there is not enough memory for this request" if short else "the service failed; its log says why"
        return _json({"error": said}, 500)


def serve(trained: Trained, host: str, port: int, *, quiet: bool, ready: Callable[[str], None]) -> None:
    """Answer until interrupted; `ready` is called with the address when the service can be asked. Port 0 is any free one."""
    config = uvicorn.Config(
        application(trained), log_config=_logs(), access_log=not quiet, timeout_graceful_shutdown=GRACE
    )
    with _listening(host, port) as listening:
        _warm(trained)
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _warm(trained: Trained) -> None:
    """Ask once, so that the first request need not wait for the known answers and the index of names."""
    graph = trained.graph
    time = graph.times.span[0] if graph.times else None
    trained.ask([(next(iter(graph.entities)), next(iter(graph.relations)), None, time)], 1)


def _logs() -> dict[str, Any]:
    """uvicorn's log lines: on standard error, with the time, in colour only on a terminal."""
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
        raise BadInput(
            f"the service cannot listen at {host} port {port}: {why}; choose another with --host or --port"
        ) from None


def _json(document: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(json.dumps(document, ensure_ascii=False), status, headers, "application/json")
