"""Names that try to do something: as facts, as labels and in requests they are only text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import dura
from dura.web.service import application
from dura.web.settings import Settings

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "</title><svg/onload=alert(1)>",
    "\u202egnp.exe\u202c \u200f\u2067right to left\u2069",
    "'; DROP TABLE facts; --",
    "../../etc/passwd",
    "%00%0d%0aSet-Cookie: a=b",
    "{{7*7}} ${7*7} \\u003cscript\\u003e",
    "\x1b]0;owned\x07 \x00 \r",
    "=cmd|' /C calc'!A0",
    "Ω≈ç√ 😀 \U0001f468\u200d\U0001f469",
    "null",
    "?",
    "x" * 1_000_000,
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    names = [name for name in HOSTILE if name != "?"]
    facts = [(a, "<b>likes</b>" if at % 2 else "knows", b) for at, a in enumerate(names) for b in names if a != b]
    labels = {"null": "<script>alert('label')</script>", names[0]: "\u202eLabel\u202c \"'&<>"}
    graph = dura.from_facts(facts, labels=labels)
    folder: Path = tmp_path_factory.mktemp("hostile") / "run"
    return application(dura.fit(graph, rank=4, epochs=1, batch=50, out=folder, progress=False), Settings(quiet=True))


def test_hostile_names_are_text_in_every_answer(app: Any) -> None:
    with TestClient(app, raise_server_exceptions=False) as client:
        for name in [*HOSTILE[:-1], "x" * 1_001]:  # tests/web/test_limits.py sends a megabyte
            asked: list[tuple[str, dict[str, str]]] = [
                ("/predict", {"head": name, "relation": "knows"}),
                ("/predict", {"head": "null", "relation": name}),
                ("/score", {"head": name, "relation": "<b>likes</b>", "tail": "null"}),
                ("/explain", {"head": name, "relation": "knows", "tail": "null"}),
                ("/neighbours", {"entity": name}),
                ("/entities", {"query": name}),
                ("/facts", {"entity": name, "limit": "1000"}),
                ("/suggestions", {"entity": name}),
                ("/times", {"head": name, "relation": name, "tail": name}),
            ]
            for path, parameters in asked:
                reply = client.get(path, params=parameters)
                assert reply.status_code in (200, 400), (path, name[:40], reply.text[:200])
                assert reply.headers["content-type"] == "application/json"
                assert reply.headers["x-content-type-options"] == "nosniff"
                assert "set-cookie" not in reply.headers
                if reply.status_code == 400:
                    assert "Traceback" not in reply.text and len(json.loads(reply.text)["error"]) < 2_000
                elif path == "/facts":
                    assert json.loads(reply.text)["entity"] == name  # as it is, neither escaped nor cut
        everything = client.get("/entities", params={"query": "script", "limit": 20}).json()["entities"]
        assert {"null", HOSTILE[0]} <= {one["entity"] for one in everything}


def test_hostile_bodies_and_addresses_get_a_sentence(app: Any) -> None:
    with TestClient(app, raise_server_exceptions=False) as client:
        questions = [{"head": name, "relation": "knows"} for name in HOSTILE[:-1]]
        found = client.post("/predict", json={"questions": questions}).json()["questions"]
        assert [one.get("question", {}).get("head") for one in found] == [n if n != "?" else None for n in HOSTILE[:-1]]
        assert (
            "1,000,000 characters"
            in client.post("/predict", json={"questions": [{"head": HOSTILE[-1], "relation": "knows"}]}).text
        )
        decided = [{"head": HOSTILE[0], "relation": "knows", "tail": HOSTILE[3], "decision": "reject"}]
        assert client.post("/reviews", json={"decisions": decided}).status_code == 200
        assert client.get("/reviews").json()["decisions"][0]["tail"] == HOSTILE[3]
        for path in (
            "/%3Cscript%3E",
            "/page/%2e%2e/%2e%2e/service.py",
            "/docs/../service.py",
            "/docs/%2e%2e%2fservice.py",
        ):
            reply = client.get(path)
            assert reply.status_code == 404 and reply.headers["content-type"] == "application/json"
        deep = b'{"questions": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        lone = b'{"questions": [{"head": "\\ud800", "relation": "knows"}]}'
        for body in (
            deep,
            lone,
            b'{"questions": [NaN]}',
            b"\x00",
            b'{"questions": [{"k": 1e999}]}',
            b'{"k": 1' + b"0" * 5_000,
        ):
            reply = client.post("/predict", content=body)
            assert reply.status_code in (200, 400) and "error" in reply.text
