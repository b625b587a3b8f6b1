"""Operating: the addresses for those who run the service, and the root."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from dura.web.answering import Served
from dura.web.metrics import TEXT
from dura.web.pages import page, prefers_page
from dura.web.replies import json_reply


def operating(served: Served) -> APIRouter:
    """GET /, /health, /ready and /metrics."""
    router = APIRouter()

    @router.get("/")
    @router.head("/", include_in_schema=False)
    async def root(request: Request) -> Response:
        """What is served: the page for browsers, JSON for other programs."""
        closed = request.scope.get("page_only", False)  # the page itself needs no token, the rest does
        found = page() if prefers_page(request) or closed else None
        if found is None and closed:
            raise HTTPException(401, "this service needs a token", {"WWW-Authenticate": "Bearer"})
        reply = found or json_reply(served.described)
        reply.headers["Vary"] = "Accept"
        return reply

    @router.get("/health")
    async def health() -> Response:
        """Whether the process is alive."""
        return json_reply({"status": "alive"})

    @router.get("/ready")
    async def ready() -> Response:
        """Whether questions are answered: the model is loaded and the service is not ending."""
        if served.ending:
            raise HTTPException(503, "the service is ending", {"Retry-After": "1"})
        return json_reply({"status": "ready", "run": served.described["run"], "since": served.since})

    @router.get("/metrics")
    async def metrics() -> Response:
        """Counters and measures, as Prometheus reads them."""
        return Response(served.metrics.text(), media_type=TEXT)

    return router
