"""The files in examples/deploy: their commands parse, and systemd and nginx accept and run them where they are installed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

import dura
from commands import problem

FILES = Path(__file__).parents[2] / "examples" / "deploy"
TOKEN = "a-token-of-the-tests"


def test_commands_parse() -> None:
    unit = (FILES / "dura.service").read_text()
    container = (FILES / "Containerfile").read_text()
    start = re.search(r"^ExecStart=(.*)$", unit, re.M)
    entry, more = (re.search(rf"^{name} (\[.*\])$", container, re.M) for name in ("ENTRYPOINT", "CMD"))
    assert start and entry and more
    for command in (shlex.split(start[1]), json.loads(entry[1]) + json.loads(more[1])):
        assert Path(command[0]).name == "dura"
        # files that an option names must exist, so they are left out here
        at = command.index("--token-file")
        assert problem(command[1:at] + command[at + 2 :]) == ""
        assert problem(["serve", "RUN", "--token-file", "x"]) == ""


def test_the_container_file_has_known_instructions_and_copies_what_exists() -> None:
    text = (FILES / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {
        "FROM",
        "ARG",
        "WORKDIR",
        "COPY",
        "RUN",
        "USER",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert {line.split()[0] for line in lines} == known
    for line in lines:
        words = line.split()
        if words[0] == "COPY" and not words[1].startswith("--"):
            assert all((FILES.parents[1] / name).exists() for name in words[1:-1]), line
    extras = re.findall(r"'\.\[([a-z,]+)\]'", text)[0].split(",")
    assert all(f"\n{extra} = [" in (FILES.parents[1] / "pyproject.toml").read_text() for extra in extras)


def test_the_page_has_the_measured_numbers() -> None:
    page = (FILES.parents[1] / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    rows = json.loads((FILES.parents[1] / "docs" / "results" / "serve-memory.json").read_text())["rows"]
    assert len(rows) == 4
    for row in rows:
        tables = 4 * 2 * row["rank"] * (row["entities"] + 2 * 40)  # ComplEx, 40 relations with their reciprocals
        assert tables == row["tables"]
        one, four = row["workers 1"], row["workers 4"]
        sizes = [row["tables"], one["peak"], one["pss"], four["pss"]]
        counts = [row["entities"], row["facts"], row["rank"], *(round(size / 1e6) for size in sizes)]
        assert f"| {' | '.join(f'{count:,}' for count in counts)} |" in page


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (FILES / "dura.service").read_text()
    unit = unit.replace("/srv/dura/venv/bin/dura", "/bin/true")  # the program must exist
    (tmp_path / "dura.service").write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "dura.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    if re.search(r"Failed to (initialize|connect|create)", done.stderr):
        pytest.skip(f"systemd-analyze does not run here: {done.stderr.strip()[:200]}")
    assert [line for line in done.stderr.splitlines() if "dura" in line] == []


@pytest.fixture
def through_nginx(tmp_path: Path) -> Iterator[str]:
    """The address of nginx in front of dura serve, with the example's settings and other ports, names and files."""
    run, token = tmp_path / "run", tmp_path / "token"
    token.write_text(TOKEN)
    dura.fit(dura.load("nations"), rank=4, epochs=1, progress=False, out=run)
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*made, *files], check=True, capture_output=True)
    serve = [sys.executable, "-m", "dura", "serve", str(run), "--port", "0", "--mcp-http", "--token-file", str(token)]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr
        port = service.stderr.readline().split(" at ")[1].split()[0].rpartition(":")[2]
        tls, plain = free(), free()
        text = (FILES / "nginx.conf").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        text = text.replace("listen 80;", f"listen 127.0.0.1:{plain};").replace("listen 443", f"listen 127.0.0.1:{tls}")
        text = text.replace("rate=20r/s", "rate=1r/m").replace("burst=40", "burst=10")  # slow machines reach it too
        text = text.replace("/etc/ssl/dura", str(tmp_path)).replace("dura.example.org", "localhost")
        temporary = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        around = (
            f"daemon off;\npid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}"
        )
        (tmp_path / "nginx.conf").write_text(around + text + "}\n")
        command = [shutil.which("nginx") or "nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as front:
            wait(tls)
            yield f"https://localhost:{tls}"
            front.terminate()
        service.terminate()


def free() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait(port: int) -> None:
    for _ in range(100):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(port)


@pytest.mark.skipif(not (shutil.which("nginx") and shutil.which("openssl")), reason="nginx or openssl is not installed")
def test_requests_pass_nginx(through_nginx: str, tmp_path: Path) -> None:
    trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))

    def ask(path: str, body: bytes | None = None, token: str = TOKEN) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        headers["Accept"] = "application/json, text/event-stream"
        try:
            with urlopen(Request(through_nginx + path, body, headers), timeout=30, context=trust) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    status, body = ask("/predict?head=usa&relation=embassy&k=2")
    assert (status, len(json.loads(body)["answers"])) == (200, 2)
    assert ask("/predict?head=usa&relation=embassy", token="wrong")[0] == 401
    assert b"dura_requests_total" in ask("/metrics")[1]
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    assert b"search_entities" in ask("/mcp", listing)[1]
    assert ask("/predict", b" " * (2 << 20))[0] == 413
    assert 429 in [ask("/health")[0] for _ in range(20)]
    with pytest.raises(URLError):
        urlopen(through_nginx + "/health", timeout=10)  # the certificate is not trusted
