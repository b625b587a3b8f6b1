"""Gate: what every request passes: the token, the log, the counters, and headers that protect browsers."""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from datetime import UTC, datetime
from typing import Any

from dura.web.metrics import Metrics
from dura.web.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
OPEN = ("/health", "/ready", "/docs", "/openapi.json")
"""Addresses without data, which need no token."""
LOG = logging.getLogger("dura.requests")


class Gate:
    """An ASGI application around another one. `addresses` are those that the counters name."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, addresses: Collection[str]) -> None:
        self._app, self._settings, self._metrics, self._addresses = app, settings, metrics, frozenset(addresses)
        self._token = None if settings.token is None else settings.token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it; and note how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, size = time.perf_counter(), 500, 0

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            size += len(message.get("body", b""))
            await send(message)

        try:
            if self._may(scope):
                await self._app(scope, receive, sent)
            else:
                await _refuse(sent)
        finally:
            self._note(scope, status, size, time.perf_counter() - begun)

    def _may(self, scope: Message) -> bool:
        """Whether the client knows the token, or asks for something that needs none."""
        path, headers = scope["path"], dict(scope["headers"])
        if self._token is None or path in OPEN or path.startswith(("/page/", "/docs/")) or scope["method"] == "OPTIONS":
            return True
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if hmac.compare_digest(given.strip(), self._token) and kind.lower() == b"bearer":
            return True
        scope["page_only"] = path == "/" and b"text/html" in headers.get(b"accept", b"")
        return bool(scope["page_only"])

    def _note(self, scope: Message, status: int, size: int, seconds: float) -> None:
        path = scope["path"]
        address = path if path in self._addresses else "/page" if path.startswith("/page/") else "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "other"
        self._metrics.answered(method, address, status, seconds)
        if self._settings.quiet:
            return
        client = scope.get("client") or ("", 0)
        query = scope.get("query_string", b"").decode("ascii", "replace")
        whole = scope.get("raw_path", path.encode()).decode("ascii", "replace") + (f"?{query}" if query else "")
        if not self._settings.log_json:
            who = f"{client[0]}:{client[1]}"
            LOG.info('%s - "%s %s HTTP/%s" %s', who, scope["method"], whole[:2000], scope["http_version"], status)
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "client": client[0], "method": scope["method"], "address": whole[:2000], "status": status}
        line |= {"ms": round(1000 * seconds, 2), "bytes": size}
        worker = {} if self._settings.worker is None else {"worker": self._settings.worker}
        LOG.info(json.dumps(line | worker))


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": "this service needs a token: send the header Authorization: Bearer TOKEN"}).encode()
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
