"""Replies: documents as JSON, bodies with limits, and errors as one sentence."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dura.records import InUse
from dura.types import BadInput, DuraError
from dura.web.answering import unless_ending
from dura.web.sentences import sentence
from dura.web.settings import Settings

LARGEST = 1 << 20
"""At most this many bytes in a request's body."""
ADDRESSES = (
    "GET /, /about, /predict, /score, /neighbours, /explain, /entities, /relations, /facts, /suggestions, /times, /map, /reviews, "
    "/health, /ready, /metrics, /docs, /openapi.json and POST /predict, /score, /reviews"
)


def json_reply(document: Any, status: int = 200, headers: Any = None) -> Response:
    """A document. Half of a surrogate pair, which is no text, becomes a question mark."""
    text = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    return Response(text, status, headers, "application/json")


async def body_of(request: Request, settings: Settings) -> bytes:
    """The body of a request, which must be small and arrive in time."""
    body = bytearray()
    try:
        with unless_ending():
            async with asyncio.timeout(settings.body_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > LARGEST:
                        raise HTTPException(413, f"the body is larger than {LARGEST:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {settings.body_seconds:g} seconds") from None
    except ClientDisconnect:  # nobody gets this answer, but there is no traceback in the log
        raise HTTPException(400, "the client left before its body ended") from None
    return bytes(body)


def handle_errors(app: FastAPI) -> None:
    """Every error is one sentence in JSON."""

    @app.exception_handler(DuraError)
    async def failed(_: Request, error: DuraError) -> Response:
        if isinstance(error, InUse):  # another process writes to the run folder
            return json_reply({"error": str(error)}, 503, {"Retry-After": "1"})
        return json_reply({"error": str(error)}, 400 if isinstance(error, BadInput) else 500)

    @app.exception_handler(ValidationError)
    async def invalid(_: Request, error: ValidationError) -> Response:
        return json_reply({"error": sentence(error.errors(), error.title)}, 400)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        known = f"{request.method} {request.url.path[:200]} is not known here; known are {ADDRESSES}"
        said = known if error.status_code in (404, 405) else error.detail
        return json_reply({"error": said}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        short = isinstance(error, MemoryError) or "memory" in str(error)
        said = "there is not enough memory for this request" if short else "the service failed; its log says why"
        return json_reply({"error": said}, 500)
