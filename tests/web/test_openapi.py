"""OpenAPI: the description is complete and true, whatever is sent; and the page that shows it needs no other host."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from starlette.testclient import TestClient

import dura
from dura.web.openapi import FOLDER
from dura.web.service import application
from dura.web.settings import Settings
from graphs import dated_graph

with warnings.catch_warnings():  # what it imports is not ours
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("openapi")
    model = dura.fit(dated_graph(), rank=4, epochs=1, batch=50, out=folder / "dated", progress=False)
    return application(model, Settings(quiet=True))


@pytest.fixture(scope="module")
def api(app: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.filterwarnings("ignore")  # what it imports is not ours
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_whatever_is_sent_gets_a_described_answer(api: Any, mode: str) -> None:
    """Right and wrong requests that schemathesis makes of the description: no status 5xx, and none that is not described."""
    tried: list[str] = []
    for found in api.get_all_operations():
        operation = found.ok()
        strategy = operation.as_strategy(generation_mode=getattr(schemathesis.GenerationMode, mode))

        @settings(
            max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=strategy)
        def check(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        try:
            check()
        except Unsatisfiable:  # nothing can be wrong with a request without parameters
            continue
        tried.append(operation.label)
    wanted = {"POSITIVE": 18, "NEGATIVE": 11}[mode]
    assert len(tried) >= wanted, tried


def test_names_of_the_graph_get_described_answers(app: Any) -> None:
    """Random names are unknown ones, so right requests are checked by themselves."""
    described = app.openapi()
    fact = {"head": "e001", "relation": "r1", "tail": "e002", "time": "2014-01-03"}
    asked = {
        "/predict": {key: fact[key] for key in ("head", "relation", "time")},
        "/score": fact,
        "/explain": fact,
        "/neighbours": {"entity": "e001"},
        "/entities": {"query": "e00"},
        "/facts": {"entity": "e001"},
        "/suggestions": {"entity": "e001"},
        "/times": {key: fact[key] for key in ("head", "relation", "tail")},
    }
    bodies: dict[str, Any] = {
        "/predict": {"questions": [asked["/predict"], {"head": "nobody", "relation": "r1"}]},
        "/score": {"facts": [fact, {}]},
        "/reviews": {"decisions": [{**fact, "decision": "accept"}]},
    }
    with TestClient(app, raise_server_exceptions=False) as client:
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                given = {"json": bodies[path]} if method == "post" else {"params": asked.get(path, {})}
                reply = client.request(method, path, **given)
                assert reply.status_code == 200, (path, reply.text)
                right = operation["responses"]["200"]["content"]
                kind = reply.headers["content-type"].split(";")[0]
                assert kind in right
                if kind == "application/json" and "$ref" in right[kind]["schema"]:
                    schema = described["components"]["schemas"][right[kind]["schema"]["$ref"].split("/")[-1]]
                    assert set(schema["required"]) <= set(reply.json()), path
        for path in ("/predict", "/score", "/reviews"):
            reply = client.post(
                path, json=described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
            )
            assert reply.status_code in (200, 400) and "is missing" not in reply.text  # examples have the right form


def test_the_page_of_the_description_loads_nothing_from_elsewhere(app: Any) -> None:
    with TestClient(app) as client:
        page = client.get("/docs")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert {"/docs/docs.js", "/docs/docs.css", "/openapi.json"} <= set(linked)
        for address in linked:
            assert address.startswith(("/", "data:,"))
            assert address == "data:," or client.get(address).status_code == 200
    for file in Path(FOLDER).iterdir():
        assert not re.search(r"https?://", file.read_text()), file.name
