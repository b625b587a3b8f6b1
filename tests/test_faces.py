"""The command line, the service and Python answer the same question in the same way, and refuse it with the same sentence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

import dura
from dura.__main__ import app
from dura.runs.trained import Trained
from dura.types import BadInput
from dura.web.service import application
from graphs import dated_graph

Given = dict[str, str | int]


def command(run: Path, asked: Given) -> Any:
    """The document that `dura predict` prints, or its error sentence."""
    options = [f"-k{value}" if key == "k" else f"--{key}={value}" for key, value in asked.items()]
    if asked.get("time") == "?":
        options = [option for option in options if option != "--time=?"] + ["--when"]
    done = CliRunner().invoke(app, ["predict", str(run), *options, "--json"])
    if isinstance(done.exception, BadInput):
        return str(done.exception)
    assert done.exit_code == 0, done.output
    return {key: value for key, value in json.loads(done.stdout).items() if key != "run"}


def service(trained: Trained, asked: Given) -> Any:
    """The document of GET /predict, or its error sentence; the application is called as a server calls it."""
    sent: list[Any] = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/predict", "raw_path": b"/predict", "root_path": "", "headers": [], "query_string": urlencode(asked).encode(),
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application(trained)(scope, receive, send))
    document = json.loads(b"".join(message.get("body", b"") for message in sent))
    assert sent[0]["status"] == (400 if "error" in document else 200)
    return document.get("error", document)


def python(trained: Trained, asked: Given) -> Any:
    question = tuple(asked.get(key) for key in ("head", "relation", "tail", "time"))
    try:
        return trained.ask([question], int(asked.get("k", 10)))[0].to_dict()  # type: ignore[list-item]
    except BadInput as error:
        return str(error)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two small runs: `plain`, and `dated` whose facts have times."""
    folder = tmp_path_factory.mktemp("faces")
    dura.fit(dura.load("nations"), rank=4, epochs=1, out=folder / "plain", progress=False)
    dura.fit(dated_graph(), rank=4, epochs=1, batch=50, out=folder / "dated", progress=False)
    return {"plain": folder / "plain", "dated": folder / "dated"}


USA: Given = {"head": "usa", "relation": "embassy"}


@pytest.mark.parametrize(
    ("run", "asked", "sentence"),
    [
        ("plain", {**USA, "head": "us"}, "the entity 'us' is not in this graph; did you mean 'usa', 'ussr'?"),
        ("plain", {**USA, "relation": "embasy"}, "the relation 'embasy' is not in this graph; did you mean 'embassy'"),
        ("plain", {"relation": "embassy"}, "a question has exactly one hole: "),
        ("plain", {**USA, "tail": "uk"}, "a question has exactly one hole: "),
        ("plain", {**USA, "k": 0}, "k is 0, but it must be at least 1"),
        ("plain", {**USA, "k": -3}, "k is -3, but it must be at least 1"),
        ("plain", {**USA, "time": "2014"}, "the facts of this graph have no times, but the question has the time '2014'"),
        ("plain", {**USA, "tail": "uk", "time": "?"}, "the facts of this graph have no times, so it cannot be asked when"),
        ("dated", {"head": "e001", "relation": "r1"}, "every fact of this graph has a time, from "),
        ("dated", {"head": "e001", "relation": "r1", "time": "1066"}, "the time '1066' is not in this graph"),
    ],
)  # fmt: skip
def test_the_same_wrong_question_gets_the_same_sentence(
    runs: dict[str, Path], run: str, asked: Given, sentence: str
) -> None:
    trained = dura.open(runs[run])
    said = command(runs[run], asked)
    assert isinstance(said, str) and said.startswith(sentence)
    assert service(trained, asked) == python(trained, asked) == said


@pytest.mark.parametrize("hole", ["tail", "head", "time"])
def test_the_same_question_gets_the_same_answer(runs: dict[str, Path], hole: str) -> None:
    trained = dura.open(runs["dated"])
    graph = trained.graph
    assert graph.times is not None
    fact = {"head": graph.entities.name(1), "relation": graph.relations.name(0), "tail": graph.entities.name(2)}
    asked: Given = {**fact, "time": graph.times.names([3])[0], "k": 3, **({"time": "?"} if hole == "time" else {})}
    if hole != "time":
        del asked[hole]
    found = python(trained, asked)
    assert len(found["times" if hole == "time" else "answers"]) == 3
    assert command(runs["dated"], asked) == service(trained, asked) == found
