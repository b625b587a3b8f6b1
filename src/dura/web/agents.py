"""Agents: the tools as an MCP server, over standard input and output or at an address of the service. It needs the extra `mcp`."""

from __future__ import annotations

import json
import logging
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dura.runs.trained import Trained
from dura.types import DuraError, __version__
from dura.web.answering import Served
from dura.web.gate import Message, Receive, Send
from dura.web.metrics import Metrics
from dura.web.reloading import warm
from dura.web.replies import LARGEST, body_of, json_reply
from dura.web.settings import Settings
from dura.web.tools import INSTRUCTIONS, TOOLS

LOG = logging.getLogger("dura.service")


def server(served: Served) -> Server[Any]:
    """The MCP server around what is served."""
    known = {tool.name: tool for tool in TOOLS}
    harmless = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    listed = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.form.model_json_schema(),
            output_schema=tool.document.model_json_schema(),
            annotations=harmless,
        )
        for tool in TOOLS
    ]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = known.get(asked.name)
        if tool is None:
            return _said(f"there is no tool {asked.name[:100]!r}; there are {', '.join(known)}", error=True)
        try:
            found = await tool.run(served, asked.arguments or {})
        except (DuraError, HTTPException) as error:
            return _said(error.detail if isinstance(error, HTTPException) else str(error), error=True)
        except Exception:
            LOG.exception("the tool %s failed", tool.name)
            return _said("the service failed; its log says why", error=True)
        return _said(json.dumps(found, ensure_ascii=False), found)

    return Server(
        "dura", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _said(text: str, document: dict[str, Any] | None = None, *, error: bool = False) -> types.CallToolResult:
    # Half of a surrogate pair, which is no text, cannot be sent.
    clean = text.encode(errors="replace").decode()
    if document is not None and clean != text:
        document = json.loads(clean)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=clean)], structured_content=document, is_error=error
    )


async def over_stdio(trained: Trained, settings: Settings) -> None:
    """Answer on standard input and output until the input ends. Nothing else is written to standard output."""
    served = Served(warm(trained), settings, Metrics())
    mine = server(served)
    async with stdio_server() as (read, write):
        await mine.run(read, write, mine.create_initialization_options())


class OverHttp:
    """MCP at an address of the service (streamable HTTP, without sessions): an ASGI application for POST requests.

    Each request stands for itself, so any worker can answer it, and a reload loses nothing.
    """

    def __init__(self, served: Served) -> None:
        self._settings, self._server = served.settings, server(served)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
        if origin and not {origin, "*"} & set(
            self._settings.origins
        ):  # a page in a browser that asks behind its user's back
            said = f"pages at {origin[:200]} may not ask here; dura serve --cors allows it"
            await json_reply({"error": said}, 403)(scope, receive, send)
            return
        body = await body_of(Request(scope, receive), self._settings)
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=LARGEST
        )
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(given, None) or await receive()

        async with manager.run():
            await manager.handle_request(scope, again, send)
