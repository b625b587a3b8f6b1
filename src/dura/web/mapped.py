"""Mapped: the address of the map. Its answer has megabytes, so it is made once and sent compressed."""

from __future__ import annotations

import gzip
import json

from fastapi import APIRouter, Request, Response

from dura.runs.mapping import FILE, find_map
from dura.runs.trained import Trained
from dura.web.answering import Served


class MapReply:
    """The newest map as bytes. It is made again if the run, its tables or its map file changed."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] | None = None
        self._plain, self._small = b"", b""

    def of(self, trained: Trained) -> tuple[bytes, bytes]:
        """The answer as it is, and compressed."""
        if (state := _state(trained)) != self._state:
            document = find_map(trained).to_dict(trained.graph)
            self._plain = json.dumps(document, ensure_ascii=False).encode(errors="replace")
            self._small = gzip.compress(self._plain, 6)
            self._state = state
        return self._plain, self._small


def _state(trained: Trained) -> tuple[object, ...]:
    try:
        file = None if trained.path is None else (trained.path / FILE).stat()
    except OSError:
        file = None
    return trained.path, trained.checkpoint, None if file is None else (file.st_mtime_ns, file.st_size)


def add_map(router: APIRouter, served: Served) -> None:
    """GET /map."""
    kept = MapReply()

    @router.get("/map")
    async def places(request: Request) -> Response:
        """Where the entities are in the plane: near to similar ones."""
        plain, small = await served.compute(kept.of)
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(plain, 200, headers, "application/json")
        return Response(small, 200, {**headers, "Content-Encoding": "gzip"}, "application/json")
