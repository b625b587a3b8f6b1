"""Pages: the files of the web page, which the package holds, and what a browser may do with them."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parent / "page"
"""The built page: index.html and its assets, made by Vite with the base /page/."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page may load and call only what this service serves."""
GUARD = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_FOREVER = "public, max-age=31536000, immutable"


def prefers_page(request: Request) -> bool:
    """Whether a client would rather have a page than JSON: browsers name text/html, other programs usually do not."""
    weights = {"text/html": 0.0, "application/json": 0.0}
    for part in request.headers.get("accept", "").split(","):
        kind, *options = (piece.strip().lower() for piece in part.split(";"))
        weight = next((option[2:] for option in options if option.startswith("q=")), "1")
        if kind in weights:
            weights[kind] = max(weights[kind], _number(weight))
    return weights["text/html"] > weights["application/json"]


def _number(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0


def page() -> Response | None:
    """The page itself; None if this installation was built without it."""
    return _file(FOLDER / "index.html", "no-cache")


def pages() -> APIRouter:
    """The address of the page's files."""
    router = APIRouter()

    @router.get("/page/{path:path}", include_in_schema=False)
    async def asset(path: str) -> Response:
        """A file of the page."""
        file = (FOLDER / path).resolve() if "\0" not in path else FOLDER
        found = _file(file, _FOREVER if "assets/" in path else "no-cache") if FOLDER in file.parents else None
        if found is None:
            raise HTTPException(404)
        return found

    return router


def _file(path: Path, keep: str) -> Response | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    kind = _KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Response(content, 200, {"Cache-Control": keep, **GUARD}, kind)
