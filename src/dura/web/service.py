"""Service: one trained model behind HTTP."""

from __future__ import annotations

import copy
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response

from dura.runs.trained import Trained
from dura.types import BadInput, __version__
from dura.web.answering import Served
from dura.web.pages import page, pages, prefers_page
from dura.web.replies import handle_errors, json_reply
from dura.web.routes import routes
from dura.web.settings import Settings


def application(trained: Trained, settings: Settings | None = None) -> FastAPI:
    """The addresses of the service for a trained model; docs/reference/service.md says what they answer."""
    app = FastAPI(title="dura", version=__version__, openapi_url=None)
    served = Served(trained, settings or Settings())
    described = trained.describe()

    @app.api_route("/", methods=["GET", "HEAD"])
    async def root(request: Request) -> Response:
        """What is served: the page for browsers, JSON for other programs."""
        found = page() if prefers_page(request) else None
        reply = found or json_reply(described)
        reply.headers["Vary"] = "Accept"
        return reply

    app.include_router(routes(served))
    app.include_router(pages())
    handle_errors(app)
    return app


def serve(
    trained: Trained, host: str, port: int, *, settings: Settings | None = None, ready: Callable[[str], None]
) -> None:
    """Answer until interrupted; `ready` is called with the address when the service can be asked. Port 0 is any free one."""
    settings = settings or Settings()
    config = uvicorn.Config(
        application(trained, settings),
        log_config=_logs(),
        access_log=not settings.quiet,
        timeout_graceful_shutdown=settings.grace_seconds,
    )
    with _listening(host, port) as listening:
        _warm(trained)
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _warm(trained: Trained) -> None:
    """Ask once, so that the first request need not wait for the known answers and the index of names."""
    trained.prepare()
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
