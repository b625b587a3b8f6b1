"""The MCP server, asked with the SDK's own client over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fastapi")

from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client

import dura
from dura.runs.trained import Trained
from dura.web.agents import server
from dura.web.answering import Served
from dura.web.metrics import Metrics
from dura.web.settings import Settings
from dura.web.tools import TOOLS

HOSTILE = ["<script>alert(1)</script>", "\"quotes\" 'and' `ticks`", "\u202eright to left", "new\\nline", "a" * 900]
TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated run with hostile names among those of nations."""
    graph = dura.load("nations")
    names = [tuple(row) for row in _facts(graph)] + [(name, "embassy", "usa") for name in HOSTILE]
    path = tmp_path_factory.mktemp("agents") / "run"
    model = dura.fit(dura.from_facts(names), rank=8, epochs=3, seed=0, out=path, progress=False)
    model.calibrate()
    return path


@pytest.fixture(scope="module")
def trained(run: Path) -> Trained:
    return dura.open(run)


def _facts(graph: dura.Graph) -> Iterator[tuple[str, str, str]]:
    for head, relation, tail in graph.train.tolist():
        yield graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)


def asked(trained: Trained, work: Callable[[Client], Awaitable[Any]], settings: Settings | None = None) -> Any:
    """What the client gets from a server in this process."""

    async def main() -> Any:
        async with Client(server(Served(trained, settings or Settings(), Metrics()))) as client:
            return await work(client)

    return asyncio.run(main())


def called(trained: Trained, tool: str, settings: Settings | None = None, **arguments: Any) -> types.CallToolResult:
    found = asked(trained, lambda client: client.call_tool(tool, arguments), settings)
    assert isinstance(found, types.CallToolResult)
    return found


def said(found: types.CallToolResult) -> str:
    (content,) = found.content
    assert isinstance(content, types.TextContent)
    return content.text


CALLS: dict[str, dict[str, Any]] = {
    "about": {},
    "search_entities": {"query": "us", "limit": 3},
    "relations": {"query": "emb"},
    "facts": {"entity": "usa", "limit": 2},
    "predict": {"head": "usa", "relation": "embassy", "k": 3},
    "score": {"head": "usa", "relation": "embassy", "tail": "uk"},
    "explain": {"head": "usa", "relation": "embassy", "tail": "uk", "k": 2},
    "neighbours": {"entity": "usa", "k": 2},
    "suggestions": {"entity": "usa", "k": 1, "limit": 3},
    "discover": {"relation": "embassy", "top": 3},
}


def expected(trained: Trained) -> dict[str, Any]:
    """What Python answers to these calls."""
    about, embassies = trained.about(), [one for one in trained.relations() if "emb" in one.relation]
    return {
        "about": {name: about[name] for name in ("dura", "run", "model", "rank", "graph", "calibrated", "facts")},
        "search_entities": {"entities": [one.to_dict() for one in trained.find_entities("us", 3)]},
        "relations": {"relations": [one.to_dict() for one in sorted(embassies, key=lambda one: -one.facts)]},
        "facts": trained.facts_of("usa", limit=2).to_dict(),
        "predict": trained.predict(head="usa", relation="embassy", k=3).to_dict(),
        "score": trained.scored([("usa", "embassy", "uk")])[0].to_dict(),
        "explain": trained.explain("usa", "embassy", "uk", k=2).to_dict(),
        "neighbours": trained.neighbours("usa", 2).to_dict(),
        "suggestions": trained.suggest("usa", 1, limit=3).to_dict(),
        "discover": trained.discover("embassy", top=3).to_dict(),
    }


@pytest.mark.parametrize("tool", CALLS)
def test_tools_answer_as_python_does(trained: Trained, tool: str) -> None:
    found = called(trained, tool, **CALLS[tool])
    assert not found.is_error, said(found)
    assert found.structured_content == json.loads(said(found))
    wanted = json.loads(json.dumps(expected(trained)[tool]))
    assert {name: found.structured_content[name] for name in wanted} == wanted
    assert found.structured_content.get("facts") != []


def test_every_tool_is_described(trained: Trained) -> None:
    listed = asked(trained, lambda client: client.list_tools()).tools
    assert [tool.name for tool in listed] == [tool.name for tool in TOOLS] == [*CALLS, "times"]
    for tool in listed:
        assert len(tool.description) > 50
        assert tool.annotations.read_only_hint
        assert tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for name, field in tool.input_schema.get("properties", {}).items():
            assert field.get("description"), (tool.name, name)


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("predict", {"head": "usaa", "relation": "embassy"}, "usa"),
        ("predict", {"head": "usa"}, 'relation is missing; it is needed, such as {"head": "Berlin"'),
        ("predict", {"relation": "embassy"}, "head"),
        ("predict", {"head": "usa", "relation": "embassy", "hed": "x"}, "hed is not known; known are"),
        ("predict", {"head": "usa", "relation": "embassy", "k": 0}, "k"),
        ("predict", {"head": "usa", "relation": "embassy", "k": 10**9}, "k must be"),
        ("predict", {"head": "a" * 10**6, "relation": "embassy"}, "1,000,000 characters"),
        ("facts", {"entity": "<script>"}, "<script>"),
        ("discover", {"top": 1000}, "top: "),
        ("relations", {"nothing": 1}, "nothing: "),
        ("times", {"head": "usa", "relation": "embassy", "tail": "uk"}, "time"),
        ("explode", {}, "there is no tool 'explode'; there are about"),
    ],
)
def test_errors_are_sentences(trained: Trained, tool: str, arguments: dict[str, Any], sentence: str) -> None:
    found = called(trained, tool, **arguments)
    assert found.is_error
    assert sentence in said(found)
    assert "Traceback" not in said(found) and "\n" not in said(found)
    assert len(said(found)) < 1000


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_mean_themselves(trained: Trained, name: str) -> None:
    found = called(trained, "facts", entity=name)
    assert found.structured_content is not None, said(found)
    assert [fact["head"] for fact in found.structured_content["facts"]] == [name]
    assert called(trained, "predict", head=name, relation="embassy").structured_content["question"]["head"] == name
    entities = called(trained, "search_entities", query=name[:100]).structured_content["entities"]
    assert name in [one["entity"] for one in entities]


def test_half_a_character_is_refused(trained: Trained) -> None:
    tool = next(tool for tool in TOOLS if tool.name == "search_entities")
    with pytest.raises(dura.BadInput, match="query must be text"):
        asyncio.run(tool.run(Served(trained, Settings(), Metrics()), {"query": "us\ud800"}))


def test_a_long_search_is_stopped(trained: Trained) -> None:
    found = called(trained, "discover", Settings(answer_seconds=1e-9))
    assert found.is_error


def test_times_of_a_dated_graph(tmp_path: Path) -> None:
    rows = [(f"a{i % 5}", "r", f"a{(i * 3 + 1) % 5}", str(2000 + i % 7)) for i in range(60)]
    model = dura.fit(dura.from_facts(rows), model="tcomplex", rank=4, epochs=1, progress=False)
    found = called(model, "times", head="a0", relation="r", tail="a1")
    assert [one["time"] for one in found.structured_content["times"]] == [str(year) for year in range(2000, 2007)]
    about = called(model, "about").structured_content
    assert about["times"] == {"first": "2000", "last": "2006", "count": 7}


# -- as it is started ---------------------------------------------------------------------------------------------------


def test_over_standard_input_and_output(run: Path, trained: Trained, tmp_path: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "dura", "serve", "--mcp", str(run)], env=dict(os.environ)
    )

    async def main(log: Any) -> tuple[Any, Any, Any]:
        async with Client(stdio_client(command, errlog=log)) as client:
            tools = await client.list_tools()
            right = await client.call_tool("predict", CALLS["predict"])
            return tools, right, await client.call_tool("predict", {"head": "nobody", "relation": "embassy"})

    with (tmp_path / "log").open("w") as log:
        tools, right, wrong = asyncio.run(main(log))
    assert len(tools.tools) == len(TOOLS)
    assert right.structured_content == json.loads(json.dumps(expected(trained)["predict"]))
    assert wrong.is_error
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_standard_output_holds_nothing_but_the_protocol(run: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    lines = [json.dumps(hello), "this is no JSON", '{"jsonrpc": "2.0", "method": "notifications/initialized"}']
    done = subprocess.run(
        [sys.executable, "-m", "dura", "serve", "--mcp", str(run)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0]["result"]["serverInfo"]["name"] == "dura"
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def address(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)
    command = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--mcp-http", "--token-file", str(token)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr
        line = service.stderr.readline()
        yield line.split(" at ")[1].split()[0] + "/mcp"
        service.terminate()


def test_over_http(address: str, trained: Trained) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def main(mode: Any) -> tuple[Any, Any, Any]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as web,
            Client(streamable_http_client(address, http_client=web), mode=mode) as client,
        ):
            tools = await client.list_tools()
            calls = [client.call_tool("predict", CALLS["predict"]) for _ in range(5)]
            return tools, await asyncio.gather(*calls), await client.call_tool("facts", {"entity": "nobody"})

    for mode in ("legacy", "auto"):
        tools, right, wrong = asyncio.run(main(mode))
        assert len(tools.tools) == len(TOOLS)
        wanted = [answer["entity"] for answer in expected(trained)["predict"]["answers"]]
        for found in right:  # questions that are collected into one product differ by rounding
            assert [answer["entity"] for answer in found.structured_content["answers"]] == wanted
        assert wrong.is_error


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"{}", 401),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"}, b"{}", 403),
        ({"Authorization": f"Bearer {TOKEN}"}, b"no json", 400),
        ({"Authorization": f"Bearer {TOKEN}"}, b" " * (1 << 21), 413),
        ({"Authorization": f"Bearer {TOKEN}"}, None, 405),
    ],
)
def test_bad_requests_are_refused(address: str, headers: dict[str, str], body: bytes | None, status: int) -> None:
    more = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with pytest.raises(HTTPError) as error:
        urlopen(Request(address, body, headers | more), timeout=30)
    assert error.value.code == status
    assert b"Traceback" not in error.value.read()
    error.value.close()
