"""Real servers for tests: PostgreSQL, a SPARQL endpoint, and a web server that answers as a test says."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Handler = http.server.BaseHTTPRequestHandler


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# -- PostgreSQL ---------------------------------------------------------------------------------------------------------


class PostgreSQL:
    """A server in a temporary folder. It never runs as root, which PostgreSQL refuses."""

    PASSWORD = "s3cret-word"

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder, self.port = programs, folder, free_port()
        self.user = "nobody" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user)
        words = folder / "password"
        words.write_text(self.PASSWORD)
        words.chmod(0o644)
        self._run(
            "initdb", "-D", folder / "data", "-U", "ann", "-A", "scram-sha-256", f"--pwfile={words}", "-E", "UTF8"
        )
        self.start()

    @property
    def source(self) -> str:
        return f"postgresql://ann@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder} -c fsync=off"
        )
        self._run("pg_ctl", "-D", self.folder / "data", "-o", settings, "-l", self.folder / "log", "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [self.programs / program, *map(str, arguments)],
            check=True,
            user=self.user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        )


def _postgresql_programs() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "pg_ctl").exists()), None)


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL server; the test is skipped where its programs are not installed."""
    programs = _postgresql_programs()
    if programs is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("needs PostgreSQL's programs initdb and pg_ctl, and psycopg (pip install 'dura-kge[sql]')")
    folder = Path(tempfile.mkdtemp(prefix="dura-pg-"))  # not in pytest's folder, which other users cannot enter
    try:
        server = PostgreSQL(programs, folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- SPARQL -------------------------------------------------------------------------------------------------------------

_ENDPOINT = """
import sys, rdflib, uvicorn
from rdflib_endpoint import SparqlEndpoint
graph = rdflib.Dataset(default_union=True)
graph.parse(sys.argv[1], format="turtle")
endpoint = SparqlEndpoint(graph=graph, path="/", cors_enabled=False)
uvicorn.run(endpoint, host="127.0.0.1", port=int(sys.argv[2]), log_level="critical")
"""


@contextmanager
def sparql_endpoint(turtle: Path) -> Iterator[str]:
    """The address of a SPARQL endpoint over a Turtle file; the test is skipped where rdflib-endpoint is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("rdflib_endpoint", "uvicorn")):
        pytest.skip("needs rdflib-endpoint (pip install 'dura-kge[dev]')")
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", _ENDPOINT, str(turtle), str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, "the endpoint did not start"
                time.sleep(0.1)
        yield f"sparql:http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


# -- a web server -------------------------------------------------------------------------------------------------------


@contextmanager
def web_server(answer: Callable[[Handler, str], None]) -> Iterator[str]:
    """The address of a web server on this machine that calls `answer` with the handler and the body of each request."""

    class Answers(Handler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            try:
                answer(self, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client has had enough

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(handler: Handler, body: bytes, kind: str = "text/tab-separated-values", **headers: str) -> None:
    """A usual answer. Headers are given with _ in place of -, and replace the usual ones."""
    handler.send_response(200)
    usual = {"Content-Type": kind, "Content-Length": str(len(body))}
    for name, value in (usual | {name.replace("_", "-"): value for name, value in headers.items()}).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


# -- dura serve ---------------------------------------------------------------------------------------------------------


class Service:
    """A running `dura serve`, as operators start it: its address, its process and its log so far."""

    def __init__(self, process: subprocess.Popen[Any], address: str, log: Path) -> None:
        self.process, self.address, self._log = process, address, log
        host, port = address.split("//")[1].split(":")
        self.place = (host, int(port))

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, text: str, seconds: float = 60) -> str:
        """The log as soon as it holds a text."""
        end = time.monotonic() + seconds
        while text not in self.log:
            assert time.monotonic() < end and self.process.poll() is None, f"{text!r} is not in the log:\n{self.log}"
            time.sleep(0.05)
        return self.log

    def workers(self) -> list[int]:
        """The processes of the workers."""
        process = pytest.importorskip("psutil").Process(self.process.pid)
        return [child.pid for child in process.children()]


@contextmanager
def dura_service(run: Path, log: Path, *options: str) -> Iterator[Service]:
    """`dura serve RUN` with these options at a free port. It must end by itself when it is told to."""
    command = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--grace", "2", *options]
    environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, text=True, env=environment)
    try:
        service = Service(process, "http://x:0", log)
        first = next(line for line in service.until(" at http").splitlines() if line.startswith("serving "))
        yield Service(process, first.split()[-3], log)
        assert process.poll() is None, f"the service ended:\n{log.read_text()}"
        process.terminate()
        assert process.wait(30) == 0
        assert log.read_text().endswith("stopped\n")
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()
