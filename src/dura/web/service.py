"""Service: one trained model behind HTTP, in this process."""

from __future__ import annotations

import copy
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from dura.runs.trained import Trained
from dura.types import BadInput, __version__
from dura.web.answering import Served
from dura.web.gate import Gate
from dura.web.metrics import Metrics
from dura.web.openapi import describe_addresses, documentation
from dura.web.operating import operating
from dura.web.pages import pages
from dura.web.protocol import KEEP_ALIVE, limited
from dura.web.reloading import Opener, Reloader, warm
from dura.web.replies import handle_errors
from dura.web.routes import routes
from dura.web.settings import Settings
from dura.web.sockets import BACKLOG, address_of, listening

ACCEPTED = 1
"""A process accepts this many new connections in a row, so that one worker does not take all of a burst."""

COMPRESSED = 1 << 14
"""Answers with at least this many bytes are compressed, if the client takes that."""


def application(trained: Trained, settings: Settings | None = None) -> FastAPI:
    """The addresses of the service for a trained model; docs/reference/service.md says what they answer."""
    settings = settings or Settings()
    return build(Served(trained, settings, Metrics()))


def build(served: Served) -> FastAPI:
    """The ASGI application around a model."""
    settings = served.settings
    app = FastAPI(title="dura", version=__version__, openapi_url=None, redirect_slashes=False)
    for router in (operating(served), routes(served), documentation(), pages()):
        app.include_router(router)
    describe_addresses(app, settings)
    handle_errors(app)
    named = [route.path for route in app.routes if isinstance(route, Route)] + ["/", "/predict"]
    addresses = {path for path in [*app.openapi()["paths"], *named] if "{" not in path}
    app.add_middleware(Gate, settings=settings, metrics=served.metrics, addresses=addresses)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED, compresslevel=5)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
    return app


def serve(
    trained: Trained,
    host: str,
    port: int,
    *,
    settings: Settings | None = None,
    opener: Opener | None = None,
    ready: Callable[[str], None],
) -> None:
    """Answer until interrupted; `ready` is called with the address when the service can be asked. Port 0 is any free one.

    `opener` opens the run again on SIGHUP.
    """
    settings = settings or Settings()
    with listening(host, port) as sock:
        run(
            trained, sock, settings, opener, lambda: ready(address_of(sock, host, tls=settings.certificate is not None))
        )


def run(
    trained: Trained,
    sock: socket.socket,
    settings: Settings,
    opener: Opener | None = None,
    ready: Callable[[], None] = lambda: None,
    notify: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer at a listening socket until interrupted. `notify` is called after each reload with how it ended."""
    served = Served(warm(trained), settings, Metrics())
    server = Server(_config(served, settings), served, ready)
    if opener is not None:
        Reloader(served, opener, notify, server.renew_certificate).listen()
    server.run(sockets=[sock])


class Server(uvicorn.Server):
    """uvicorn's server, which says when it can be asked and when it is ending."""

    def __init__(self, config: uvicorn.Config, served: Served, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._served, self._ready = served, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. asyncio accepts as many connections in a row as its backlog has; the system may keep more."""
        await super().startup(sockets)
        for sock in sockets or []:
            sock.listen(BACKLOG)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is running, and answer nothing new."""
        self._served.ending = True
        await super().shutdown(sockets)

    def renew_certificate(self) -> None:
        """Read the files of the certificate again, for new connections."""
        certificate, key = self._served.settings.certificate, self._served.settings.key
        if self.config.ssl is not None and certificate is not None:
            self.config.ssl.load_cert_chain(certificate, key)


def _config(served: Served, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        build(served),
        http=limited(settings),
        loop="asyncio",
        ws="none",
        lifespan="off",
        backlog=ACCEPTED,
        log_config=logs(settings),
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.grace_seconds,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        if settings.certificate is None:
            raise
        files = f"{settings.certificate} and {settings.key}" if settings.key else str(settings.certificate)
        raise BadInput(
            f"the certificate and key in {files} cannot be used: {error.strerror or error}; give two PEM files that belong together"
        ) from None
    return config


def logs(settings: Settings) -> dict[str, Any]:
    """Log lines: on standard error, with the time, in colour only on a terminal; requests as JSON if wanted."""
    logs: dict[str, Any] = copy.deepcopy(uvicorn.config.LOGGING_CONFIG)
    logs["handlers"]["access"]["stream"] = "ext://sys.stderr"
    logs["loggers"]["uvicorn.error"]["level"] = "WARNING"
    form = logs["formatters"]["default"]
    form["fmt"] = f"%(asctime)s {form['fmt']}"
    form["use_colors"] = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    logs["formatters"]["access"] = {"format": "%(message)s"} if settings.log_json else dict(form)
    logs["loggers"]["dura.requests"] = {"handlers": ["access"], "level": "INFO", "propagate": False}
    logs["loggers"]["dura.service"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return logs
