"""Limits: what a client can take from the service, and what it is told when it wants more."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

import dura
from dura.runs.trained import Trained
from dura.web.protocol import MOST_HEAD
from dura.web.service import application
from dura.web.settings import Settings
from servers import Service, dura_service

ASK = "/predict?head=usa&relation=embassy&k=2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    dura.fit(dura.load("nations"), rank=10, epochs=3, batch=50, out=folder / "run", progress=False)
    return folder / "run"


@pytest.fixture(scope="module")
def service(run: Path) -> Any:
    """One server with short limits, a token, and a log in JSON."""
    (run.parent / "token").write_text("s3cret-token\n")
    options = ["--header-timeout", "1", "--body-timeout", "1", "--timeout", "20", "--log", "json"]
    options += ["--token-file", str(run.parent / "token"), "--cors", "https://a.example", "--read-only"]
    with dura_service(run, run.parent / "log", *options) as started:
        yield started


def ask(service: Service, address: str, method: str = "GET", body: Any = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection(*service.place, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, address, body, {"Authorization": "Bearer s3cret-token", **named})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, dict(reply.getheaders()), text


def raw(service: Service, *parts: bytes, pause: float = 0.0) -> bytes:
    """What the server sends until it closes the connection."""
    with socket.create_connection(service.place, timeout=20) as client:
        found = b""
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(pause)
        except OSError:  # it is closed already; what it sent can still be read
            pass
        try:
            while data := client.recv(1 << 16):
                found += data
        except ConnectionResetError:
            pass
        return found


def test_slow_heads_and_silent_connections_are_closed(service: Service) -> None:
    clients = [socket.create_connection(service.place, timeout=20) for _ in range(200)]
    for number, client in enumerate(clients):
        client.sendall([b"", b"GET /predict HTT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n"][number % 3])
    begun, closed = time.monotonic(), 0
    for client in clients:
        try:
            answer = client.recv(1 << 16)
            assert answer == b"" or b"408" in answer
            while client.recv(1 << 16):
                pass
            closed += 1
        except ConnectionResetError:
            closed += 1
        client.close()
    assert closed == 200
    assert time.monotonic() - begun < 15
    # A later head on the same connection has a clock too, and dripping bytes do not stop it.
    first = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    drip = raw(service, first, *[b"G", b"E", b"T", b" ", b"/", b" "], pause=0.3)
    assert b"200 OK" in drip and b"408 Request Timeout" in drip
    assert b"did not arrive within 1 seconds" in drip


def test_slow_and_large_bodies_and_heads_get_a_sentence(service: Service) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret-token\r\n"
    assert b"408 Request Timeout" in raw(service, head + b"Connection: close\r\nContent-Length: 100\r\n\r\n{")
    status, _, text = ask(service, "/predict", "POST", b"[" + b" " * (1 << 20))
    assert (status, json.loads(text)["error"]) == (413, "the body is larger than 1,048,576 bytes")
    for huge in (b"GET /entities?query=" + b"x" * 1_000_000, b"GET / HTTP/1.1\r\nX-A: " + b"y" * (2 * MOST_HEAD)):
        answer = raw(service, huge)
        assert answer == b"" or (b"431 " in answer and b"has more than 65,536 bytes" in answer)
    answer = raw(service, b"\x16\x03\x01 hello\r\n\r\n")
    assert b"400 Bad Request" in answer and b'{"error": "this is not a valid HTTP request"}' in answer
    assert ask(service, ASK)[0] == 200


def test_only_those_who_know_the_token_are_answered(service: Service) -> None:
    for wrong in ("", "Bearer", "Bearer wrong", "Basic s3cret-token", "s3cret-token", "Bearer s3cret-token x"):
        status, headers, text = ask(service, ASK, Authorization=wrong)
        assert (status, headers["www-authenticate"]) == (401, "Bearer") and "error" in json.loads(text)
    for closed in ("/metrics", "/about", "/"):
        assert ask(service, closed, Authorization="")[0] == 401
    for free in ("/health", "/ready", "/docs", "/openapi.json", "/docs/docs.js"):
        assert ask(service, free, Authorization="")[0] == 200
    page = ask(service, "/", Authorization="", Accept="text/html")
    assert page[0] in (200, 401) and '"rank"' not in page[2]
    assert ask(service, ASK, Authorization="bearer s3cret-token")[0] == 200


def test_scripts_of_other_pages_may_ask_only_from_named_origins(service: Service) -> None:
    allowed = ask(service, ASK, Origin="https://a.example")[1]
    assert allowed["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in ask(service, ASK, Origin="https://b.example")[1]
    asked = {"Access_Control_Request_Method": "GET", "Access_Control_Request_Headers": "authorization"}
    status, headers, _ = ask(service, ASK, "OPTIONS", Origin="https://a.example", Authorization="", **asked)
    assert status == 200 and "authorization" in headers["access-control-allow-headers"].lower()


def test_the_log_has_one_json_object_per_request(service: Service) -> None:
    ask(service, "/entities?query=%3Cscript%3E%0a%e2%80%ae&limit=1")
    ask(service, "/no/such\u0007".encode().decode("ascii", "ignore").replace("\x07", "%07"))
    service.until("/no/such")
    lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    searched = next(line for line in lines if line["address"].startswith("/entities"))
    assert (searched["method"], searched["status"], searched["client"]) == ("GET", 200, "127.0.0.1")
    assert searched["address"] == "/entities?query=%3Cscript%3E%0a%e2%80%ae&limit=1" and searched["ms"] > 0
    assert "s3cret-token" not in service.log


def test_metrics_count_requests(service: Service) -> None:
    def count() -> float:
        line = 'dura_requests_total{address="/score",method="GET",status="200"}'
        found = [row for row in ask(service, "/metrics")[2].splitlines() if row.startswith(line)]
        return float(found[0].split()[-1]) if found else 0.0

    before = count()
    for _ in range(3):
        assert ask(service, "/score?head=usa&relation=embassy&tail=uk")[0] == 200
    ask(service, "/invented/by/a/client")
    assert count() == before + 3
    text = ask(service, "/metrics")[2]
    assert "invented" not in text and 'address="other"' in text
    assert "dura_workers 1.0" in text and "dura_request_seconds_bucket" in text


def test_answers_are_sent_at_once(service: Service) -> None:
    """With Nagle's algorithm, an answer in two packets waits for the client's delayed acknowledgement: 40 ms or more."""
    connection, taken = http.client.HTTPConnection(*service.place), []
    for _ in range(15):
        begun = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        taken.append(time.perf_counter() - begun)
    connection.close()
    assert sorted(taken)[3] < 0.03


def client(run: Path, **settings: Any) -> TestClient:
    app = application(dura.open(run), Settings(quiet=True, **settings))
    return TestClient(app, raise_server_exceptions=False)


def test_too_many_waiting_questions_are_refused_and_late_answers_given_up(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, go_on, real = Event(), Event(), Trained.ask_each

    def slow(*given: Any, **options: Any) -> Any:
        busy.set()
        assert go_on.wait(20)
        return real(*given, **options)

    monkeypatch.setattr(Trained, "ask_each", slow)
    with client(run, queue=3) as asked, ThreadPoolExecutor(4) as threads:
        first = threads.submit(asked.get, ASK)
        assert busy.wait(20)
        waiting = [threads.submit(asked.get, ASK) for _ in range(2)]
        while "dura_waiting_questions 3.0" not in asked.get("/metrics").text:
            time.sleep(0.01)
        refused = asked.get(ASK)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"] == "3 questions are waiting, and 3 may; try again"
        assert asked.get("/health").status_code == 200
        go_on.set()
        assert [one.result().status_code for one in (first, *waiting)] == [200, 200, 200]
        many = {"questions": [{"head": "usa", "relation": "embassy"}] * 10}
        assert asked.post("/predict", json=many).status_code == 200  # alone, any size may go in
    go_on.clear()
    with client(run, answer_seconds=0.2) as asked:
        late = asked.get(ASK)
        go_on.set()
        assert (late.status_code, late.json()["error"]) == (504, "the answer took longer than 0.2 seconds")
        assert asked.get(ASK).status_code == 200


def test_concurrent_questions_become_one_product_and_stay_apart(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[int] = []
    busy, go_on, real = Event(), Event(), Trained.ask_each

    def counted(self: Trained, questions: Any, *given: Any, **options: Any) -> Any:
        products.append(len(questions))
        busy.set()
        assert go_on.wait(20)
        return real(self, questions, *given, **options)

    monkeypatch.setattr(Trained, "ask_each", counted)
    trained = dura.open(run)
    heads = trained.graph.entities.names(range(14))
    addresses = [f"/predict?head={head}&relation=embassy&k=2" for head in heads]
    addresses += ["/predict?head=nobody&relation=embassy&k=2", "/predict?head=usa&relation=embassy&k=3"]
    for collect_ms in (2.0, 0.0):
        products.clear()
        busy.clear()
        go_on.clear()
        with client(run, collect_ms=collect_ms) as asked, ThreadPoolExecutor(20) as threads:
            first = threads.submit(asked.get, ASK)
            assert busy.wait(20)
            replies = [threads.submit(asked.get, address) for address in addresses]
            while "dura_waiting_questions 17.0" not in asked.get("/metrics").text:
                time.sleep(0.01)
            go_on.set()
            assert first.result().status_code == 200
            found = [reply.result() for reply in replies]
        assert sorted(products) == ([1, 1, 15] if collect_ms else [1] * 17)
        assert [one.status_code for one in found] == [200] * 14 + [400, 200]
        for head, one in zip(heads, found, strict=False):
            direct = real(trained, [(head, "embassy", None)], trained.asker(_wanted(2)).wanted)[0].to_dict()  # type: ignore[union-attr]
            assert [a["entity"] for a in one.json()["answers"]] == [a["entity"] for a in direct["answers"]]
            for mine, theirs in zip(one.json()["answers"], direct["answers"], strict=True):
                assert mine["score"] == pytest.approx(theirs["score"], rel=1e-5)
        assert "'nobody' is not in this graph" in found[14].json()["error"] and len(found[15].json()["answers"]) == 3


def _wanted(k: int) -> Any:
    from dura.inference.answers import Wanted

    return Wanted(k)


def test_a_failed_product_is_asked_again_one_by_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Trained.ask_each

    def short(self: Trained, questions: Any, *given: Any, **options: Any) -> Any:
        if len(questions) > 1:
            raise RuntimeError("not enough memory: you tried to allocate")
        return real(self, questions, *given, **options)

    monkeypatch.setattr(Trained, "ask_each", short)
    with client(run) as asked, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: asked.get(ASK).status_code, range(40)))
    assert found == [200] * 40


def test_https_is_spoken_with_a_certificate(run: Path, tmp_path: Path) -> None:
    pair = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *pair, *subject], capture_output=True
    )
    if made.returncode:
        pytest.skip("needs openssl")
    options = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    with dura_service(run, tmp_path / "log", *options) as started:
        assert started.address.startswith("https://")
        trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        connection = http.client.HTTPSConnection(*started.place, context=trust, timeout=20)
        connection.request("GET", ASK)
        assert connection.getresponse().status == 200
        connection.close()
        assert b"200" not in raw(started, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")[:20]
