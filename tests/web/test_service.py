"""The service as clients see it: a real server, real requests, dense and packed models."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
import torch
import uvicorn
from pydantic import ValidationError

import dura
from dura.runs.trained import Trained
from dura.tables.packed import Csr
from dura.types import BadInput
from dura.web import replies, sentences, service
from dura.web.requests import MOST, ManyQuestions
from dura.web.sentences import EXAMPLE
from dura.web.settings import Settings
from graphs import dated_graph
from plain import table_of

WISH = "k, known, among, type, in_range, min_probability, coverage, approximate, explain"
QUIET = Settings(quiet=True)
ONE = {"head": "usa", "relation": "embassy"}


def get(address: str, **parameters: object) -> Any:
    return _answer(Request(f"{address}?{urlencode(parameters)}" if parameters else address))


def post(address: str, body: object) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _answer(Request(address, data=data, headers={"Content-Type": "application/json"}))


def _answer(request: Request) -> Any:
    try:
        with urlopen(request, timeout=30) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]


@contextmanager
def serving(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    servers: list[uvicorn.Server] = []

    class Kept(service.Server):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            servers.append(self)

    monkeypatch.setattr(service, "Server", Kept)
    ready, at = Event(), list[str]()

    def told(address: str) -> None:
        at.append(address)
        ready.set()

    thread = Thread(target=lambda: service.serve(trained, "127.0.0.1", 0, settings=QUIET, ready=told))
    thread.start()
    assert ready.wait(20)
    try:
        yield at[0]
    finally:
        servers[0].should_exit = True
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    model = dura.fit(
        dura.load("nations"), model="complex", rank=10, epochs=3, batch=50, out=folder / "dense", progress=False
    )
    model.export(folder / "sparse", sparse=0.5)
    model.export(folder / "smallest", sparse=0.5, dtype="int8")
    return folder


@pytest.mark.parametrize("name", ["dense", "sparse", "smallest"])
def test_a_client_gets_what_the_model_answers(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dense(_: Csr) -> None:
        raise AssertionError("a packed table was made dense")

    monkeypatch.setattr(Csr, "unpacked", dense)
    trained = dura.open(home / name)
    with serving(trained, monkeypatch) as address:
        about = get(address)
        one = get(f"{address}/predict", head="usa", relation="embassy", k=3, known="true")
        several = post(
            f"{address}/predict",
            {"questions": [{"head": "usa", "relation": "embassy"}, {"tail": "cuba", "relation": "treaties"}], "k": 2},
        )
    tables = {"dense": (False, "float32"), "sparse": (True, "float32"), "smallest": (True, "int8")}[name]
    assert (about["tables"]["sparse"], about["tables"]["dtype"]) == tables
    assert (about["run"], about["model"], about["rank"]) == (name, "complex", 10)
    sizes = {"name": "nations", "entities": 14, "relations": 55, "times": None}
    assert about["graph"] == {**sizes, "labels": {"entities": 0, "relations": 0}}
    if name == "dense":
        assert about["tables"]["bytes"] == 4 * 20 * (14 + 2 * 55)
    assert one == trained.predict(head="usa", relation="embassy", k=3, known=True).to_dict()
    asked = [("usa", "embassy", None), (None, "treaties", "cuba")]
    assert several == {"questions": [found.to_dict() for found in trained.predict_many(asked, 2)]}


def test_times_are_asked_at_and_for(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dated_graph()
    trained = dura.fit(graph, model="tcomplex", rank=4, epochs=1, batch=50, progress=False)
    assert graph.times is not None
    head, relation, tail = graph.entities.names([0])[0], graph.relations.names([0])[0], graph.entities.names([1])[0]
    time = graph.times.names([0])[0]
    with serving(trained, monkeypatch) as address:
        assert get(address)["graph"]["times"] == list(graph.times.span)
        at = get(f"{address}/predict", head=head, relation=relation, time=time, k=2)
        when = get(f"{address}/predict", head=head, relation=relation, tail=tail, time="?", k=2)
    assert at == trained.predict(head=head, relation=relation, time=time, k=2).to_dict()
    assert when == trained.when(head=head, relation=relation, tail=tail, k=2).to_dict()


def test_bad_requests_get_a_sentence_and_harm_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(dura.open(home / "dense"), monkeypatch) as address:
        ask = f"{address}/predict"
        unknown = "the entity 'us' is not in this graph; did you mean 'usa', 'ussr'?"
        assert get(ask, head="us", relation="embassy") == (400, unknown)
        assert get(ask, head="usa") == (
            400,
            "relation is missing; it is needed, such as /predict?head=Berlin&relation=located_in",
        )
        assert get(ask, relation="embassy")[1].startswith("a question has exactly one hole")
        assert get(ask, head="usa", relation="embassy", k=1001) == (
            400,
            "k must be a whole number from 1 to 1,000, not '1001'",
        )
        assert get(ask, head="usa", relation="embassy", top=3) == (
            400,
            f"top is not known; known are relation, head, tail, time, {WISH}",
        )
        assert get(ask, head="usa", relation="embassy", time="2014")[1].startswith(
            "the facts of this graph have no times"
        )
        assert post(ask, b'{"questions"')[1].startswith("the body is not JSON: ")
        assert post(ask, {"questions": []})[1] == "questions has 0 questions; 1 to 1,000 are allowed in one request"
        wrong = [{"head": "usa"}, 3, {"head": 5, "relation": "embassy"}, {"relation": "embassy"}, ONE, {**ONE, "k": 3}]
        several = post(ask, {"questions": [*wrong, {**ONE, "head": "us"}]})["questions"]
        assert [one.get("error", "")[:56] for one in several] == [
            "relation is missing; it is needed, such as " + EXAMPLE[15:28],
            'the question must be an object such as {"head": "Berlin"',
            "head must be text, not 5",
            "a question has exactly one hole: give the relation and e",
            "",
            "k is not known; known are relation, head, tail, time",
            "the entity 'us' is not in this graph; did you mean 'usa'",
        ]
        assert several[4] == get(ask, **ONE)
        many = [{"head": "usa", "relation": "embassy"}] * (MOST + 1)
        assert (
            post(ask, {"questions": many})[1] == "questions has 1,001 questions; 1 to 1,000 are allowed in one request"
        )
        assert post(ask, {"questions": many[:20], "k": 501})[1].startswith(
            "20 questions with k 501 are more than 10,000"
        )
        assert post(ask, b" " * (replies.LARGEST + 1)) == (413, "the body is larger than 1,048,576 bytes")
        assert post(ask, b"\xff")[1].startswith("the body is not JSON: ")
        assert post(ask, {"questions": many[:1], "query": 1}) == (
            400,
            f"query is not known; known are {WISH}, questions",
        )
        restricted = {"questions": many[:1], "among": ["uk", "china"], "in_range": True, "known": True}
        found = post(ask, restricted)["questions"][0]["answers"]
        assert {answer["entity"] for answer in found} <= {"uk", "china"} and found
        assert get(f"{ask}?head=usa&relation=embassy&known=true&among=uk&among=china&in_range=true")["answers"] == found
        assert get(ask, head="usa", relation="embassy", type="city")[1].startswith(
            "the entities of this graph have no types"
        )
        assert get(ask, head="usa", relation="embassy", min_probability=2)[1].startswith("min_probability is 2.0, but")
        assert post(ask, {"questions": many[:1], "among": 3})[1] == "among must be a list of names, not 3"
        assert post(ask, {"questions": many[:1], "type": ["x"] * 10_001})[1].startswith(
            "type has 10,001 names; at most"
        )
        assert post(ask, {"questions": 3})[1] == "questions must be a list of questions, not 3"
        assert post(ask, [])[1] == f"the body must be an object such as {EXAMPLE}, not a list"
        assert (
            get(ask, head="x" * 1001, relation="embassy")[1] == "head has 1,001 characters; at most 1,000 are allowed"
        )
        assert get(f"{ask}?head=usa&head=uk&relation=embassy")[1].startswith("'head' is given twice")
        assert get(ask, relation="embassy", query=1)[1].startswith("query is not known; known are relation, head")
        assert get(f"{address}/ask") == (404, f"GET /ask is not known here; known are {replies.ADDRESSES}")
        with pytest.raises(HTTPError) as raised:
            urlopen(Request(ask, method="DELETE"))
        with raised.value as error:
            assert (error.code, error.headers["Allow"]) == (405, "GET")
        with urlopen(Request(address, method="HEAD")) as response:
            assert response.status == 200
        plain = Request(ask, data=b'{"questions": [{"head": "usa", "relation": "embassy", "tail": "?"}]}')
        assert len(_answer(plain)["questions"]) == 1  # whatever the client calls the type of its body
        assert len(get(ask, head="usa", relation="embassy", k=2)["answers"]) == 2


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"k": True}, "k must be a whole number from 1 to 1,000, not true"),
        ({"k": "many"}, "k must be a whole number from 1 to 1,000, not 'many'"),
        ({"k": 10**30}, f"k must be a whole number from 1 to 1,000, not {10**30}"),
        ({"k": 2.5}, "k must be a whole number from 1 to 1,000, not 2.5"),
        ({"known": "maybe"}, "known must be true or false, not 'maybe'"),
        ({"questions": {}}, "questions must be a list of questions, not an object"),
        ({"among": ["uk", 3]}, "name 2 of among must be text, not 3"),
        ({"min_probability": "x"}, "min_probability must be a number from 0 to 1, not 'x'"),
    ],
)  # fmt: skip
def test_a_wrong_body_gets_one_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ManyQuestions.model_validate_json(json.dumps({"questions": [ONE], **body}))
    assert sentences.sentence(raised.value.errors(), "ManyQuestions") == sentence


def test_clients_do_not_disturb_each_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = dura.open(home / "sparse")
    heads = trained.graph.entities.names(range(14)) * 4
    with serving(trained, monkeypatch) as address, ThreadPoolExecutor(16) as clients:
        found = list(clients.map(lambda head: get(f"{address}/predict", head=head, relation="embassy", k=2), heads))
    for head, one in zip(heads, found, strict=True):
        wanted = trained.predict(head=head, relation="embassy", k=2)
        assert one["question"] == {"head": head, "relation": "embassy"}
        assert [answer["entity"] for answer in one["answers"]] == [answer.entity for answer in wanted]
        scores = [answer["score"] for answer in one["answers"]]  # a product for several questions may round differently
        assert scores == pytest.approx([answer.score for answer in wanted], rel=1e-4, abs=1e-5)


def test_a_busy_or_broken_model_is_no_silent_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, busy, go_on = dura.open(home / "dense"), Event(), Event()
    real = Trained.ask_each

    def slow(*arguments: Any, **options: Any) -> Any:
        if busy.is_set():
            return real(*arguments, **options)
        busy.set()
        assert go_on.wait(20)
        raise RuntimeError("not enough memory: you tried to allocate")

    with serving(trained, monkeypatch) as address, ThreadPoolExecutor(1) as client:
        monkeypatch.setattr(Trained, "ask_each", slow)
        waiting = client.submit(get, f"{address}/predict", head="usa", relation="embassy")
        assert busy.wait(20)
        assert get(address)["rank"] == 10
        go_on.set()
        assert waiting.result() == (500, "there is not enough memory for this request")
        with torch.no_grad():
            table_of(trained.model).fill_(torch.nan)
        assert get(f"{address}/predict", head="usa", relation="embassy")[0] == 500
        assert "not finite" in get(f"{address}/predict", head="usa", relation="embassy")[1]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_told_to_end(home: Path, end: signal.Signals) -> None:
    command = [sys.executable, "-m", "dura", "serve", "sparse", "--port", "0", "--grace", "1"]
    with subprocess.Popen(
        command,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            first = server.stderr.readline()
            assert first.startswith("serving sparse at http://127.0.0.1:"), first + server.stderr.read()
            address = first.split()[3]
            assert len(get(f"{address}/predict", head="usa", relation="embassy", k=2)["answers"]) == 2
            host, port = address.removeprefix("http://").split(":")
            begun = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(begun)
            with socket.create_connection((host, int(port))) as unfinished:
                unfinished.sendall(begun)
                server.send_signal(end)
                rest = server.stderr.read()  # though a client never ends
                assert server.wait(20) == 0
        finally:
            server.kill()
        assert server.stdout.read() == ""
    assert "GET /predict?head=usa&relation=embassy&k=2 HTTP/1.1" in rest
    assert rest.endswith("stopped\n")
    assert "Traceback" not in rest


def test_help_needs_no_fastapi_and_the_command_says_what_to_install(home: Path) -> None:
    for missing in ("fastapi", "uvicorn"):
        code = f"import sys; sys.modules[{missing!r}] = None; from dura.__main__ import main; main()"
        call = partial(subprocess.run, cwd=home, capture_output=True, text=True)
        shown = call([sys.executable, "-c", code, "serve", "--help"])
        assert (shown.returncode, "dura serve runs/mine" in shown.stdout) == (0, True)
        done = call([sys.executable, "-c", code, "serve", "dense"])
        sentence = "dura: the service needs fastapi and uvicorn; pip install 'dura-kge[serve]'\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


def test_a_port_that_is_taken_is_said(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            BadInput, match=rf"^the service cannot listen at 127\.0\.0\.1 port {port}: .*another with --host or"
        ):
            service.serve(dura.open(home / "dense"), "127.0.0.1", port, ready=print)
    with pytest.raises(BadInput, match=r"^the service cannot listen at a\.\.b port 1: "):
        service.serve(dura.open(home / "dense"), "a..b", 1, ready=print)
