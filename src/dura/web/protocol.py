"""Protocol: uvicorn's HTTP connection with limits that it does not have itself.

A client must send the head of a request in time, end its body in time, and take its answer in time; and a head has at most so many
bytes. Otherwise a few clients could hold all connections open. What is not HTTP gets one sentence as JSON too.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dura.web.settings import Settings

MOST_HEAD = 1 << 16
"""At most this many bytes in the first line and the headers of a request."""
KEEP_ALIVE = 75
"""For how many seconds a connection without a request stays open: longer than a proxy in front keeps it."""


class LimitedProtocol(HttpToolsProtocol):
    """A connection with a clock. `settings` are set by `limited`."""

    settings: Settings
    _clock: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _head: int | None = 0
    """The bytes of the head so far; None while no head is being read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        if len(self.connections) > self.settings.connections:
            self._refuse(503, "too many connections are open; try again later", "Retry-After: 1\r\n")
        else:
            self._start_clock(self.settings.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._stop_clock()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head. The clock of a later head begins with its first byte."""
        if self.transport.is_closing():
            return
        if self._head is None and self._clock is None:
            self._head = 0
            self._start_clock(self.settings.header_seconds)
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        # A chunk may hold the end of a head and a large body: then no head is being read any more.
        if self._head is not None and self._head > MOST_HEAD and not self.transport.is_closing():
            self._refuse(431, f"the head of the request has more than {MOST_HEAD:,} bytes")

    def on_message_begin(self) -> None:
        """A head begins, perhaps in the same chunk as the end of another request."""
        if self._head is None:
            self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there; now the body must end in time. It is not read while an earlier request is being answered."""
        self._head = None
        self._start_clock(self.settings.body_seconds + self.settings.answer_seconds + 5)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._stop_clock()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not take its answer."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.settings.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client takes its answer again."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what is not HTTP."""
        self._refuse(400, "this is not a valid HTTP request")

    def _start_clock(self, seconds: float) -> None:
        self._stop_clock()
        self._clock = self.loop.call_later(seconds, self._too_late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        if self._head is None:
            self.transport.abort()  # a body without an end: the request was answered long ago
            return
        self._refuse(408, f"the head of the request did not arrive within {self.settings.header_seconds:g} seconds")

    def _refuse(self, status: int, sentence: str, more: str = "") -> None:
        self._stop_clock()
        if self.transport.is_closing():
            return
        body = json.dumps({"error": sentence})
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n{more}"
        if self.cycle is None or self.cycle.response_complete:  # else the answer to an earlier request is not out yet
            self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        self.transport.close()


def limited(settings: Settings) -> type[Any]:
    """The protocol with these limits."""
    return type("Limited", (LimitedProtocol,), {"settings": settings})
