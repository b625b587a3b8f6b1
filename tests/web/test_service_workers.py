"""Workers: several processes at one socket, which are started again, reloaded and ended without losing requests."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from urllib.request import urlopen

import pytest

import dura
from servers import Service, dura_service

psutil = pytest.importorskip("psutil")
ASK = "/predict?head=usa&relation=embassy&k=2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workers")
    for rank in (10, 12):
        dura.fit(dura.load("nations"), rank=rank, epochs=1, batch=50, out=folder / f"rank{rank}", progress=False)
    return folder


@pytest.fixture(scope="module")
def service(home: Path) -> Any:
    """Two workers that serve what a link points to."""
    (home / "now").symlink_to(home / "rank10")
    with dura_service(home / "now", home / "log", "--workers", "2", "-q") as started:
        yield started


def get(service: Service, address: str) -> Any:
    with urlopen(service.address + address, timeout=30) as reply:
        return reply.read().decode()


class Load:
    """Clients that ask all the time on connections that stay open, and count what they get."""

    def __init__(self, service: Service, clients: int = 4) -> None:
        self.service, self.end = service, Event()
        self.statuses: list[int] = []
        self.ranks: list[int] = []
        self.broken = 0
        self._threads = ThreadPoolExecutor(clients)
        self._running = [self._threads.submit(self._ask) for _ in range(clients)]

    def _ask(self) -> None:
        connection = http.client.HTTPConnection(*self.service.place, timeout=30)
        while not self.end.is_set():
            try:
                connection.request("GET", ASK)
                reply = connection.getresponse()
                reply.read()
                self.statuses.append(reply.status)
                connection.request("GET", "/")
                self.ranks.append(json.loads(connection.getresponse().read())["rank"])
            except (OSError, http.client.HTTPException):
                self.broken += 1
                connection.close()
        connection.close()

    def stop(self) -> None:
        self.end.set()
        for one in self._running:
            one.result()
        self._threads.shutdown()


def test_metrics_add_up_over_workers(service: Service) -> None:
    for _ in range(20):
        get(service, "/score?head=usa&relation=embassy&tail=uk")
    text = get(service, "/metrics")
    assert 'dura_requests_total{address="/score",method="GET",status="200"} 20.0' in text
    assert "dura_workers 2.0" in text


def test_workers_share_the_file_of_the_tables(service: Service) -> None:
    assert len(service.workers()) == 2
    for process in service.workers():
        mapped = [part.path for part in psutil.Process(process).memory_maps()]
        assert any("checkpoints" in path and path.endswith(".safetensors") for path in mapped)


def test_a_killed_worker_is_started_again_and_the_others_go_on(service: Service) -> None:
    load = Load(service)
    victim, other = service.workers()
    time.sleep(0.3)
    os.kill(victim, signal.SIGKILL)
    service.until("ended by the signal SIGKILL and is started again")
    end = time.monotonic() + 60
    while "dura_workers 2.0" not in get(service, "/metrics"):
        assert time.monotonic() < end
        time.sleep(0.2)
    load.stop()
    now = service.workers()
    assert len(now) == 2 and other in now and victim not in now
    assert set(load.statuses) == {200} and load.broken <= 4  # only the connections of the killed worker broke
    metrics = get(service, "/metrics")
    counted = next(row for row in metrics.splitlines() if row.startswith('dura_requests_total{address="/predict"'))
    assert float(counted.split()[-1]) >= len(load.statuses) - 4  # what the killed one counted is not forgotten


def test_a_reload_under_load_loses_nothing(service: Service, home: Path) -> None:
    load = Load(service)
    time.sleep(0.3)
    (home / "next").symlink_to(home / "rank12")
    (home / "next").replace(home / "now")
    service.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while 'dura_reloads_total{result="done"} 2.0' not in get(service, "/metrics"):
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.5)
    load.stop()
    assert load.broken == 0 and set(load.statuses) == {200}
    assert set(load.ranks) == {10, 12} and load.ranks[-4:] == [12] * 4
    # A run that cannot be opened does not replace the one that answers.
    shutil.copytree(home / "rank12", home / "damaged")
    (home / "damaged" / "run.json").write_text("{")
    (home / "next").symlink_to(home / "damaged")
    (home / "next").replace(home / "now")
    service.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60
    while 'dura_reloads_total{result="failed"} 2.0' not in get(service, "/metrics"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert json.loads(get(service, "/"))["rank"] == 12
    assert "was not reloaded, the old one goes on" in service.log
    (home / "next").symlink_to(home / "rank10")
    (home / "next").replace(home / "now")


def test_workers_end_when_their_supervisor_is_killed(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dura", "serve", str(home / "rank10"), "--port", "0", "--workers", "2", "-q"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        Service(process, "http://x:0", tmp_path / "log").until(" at http")
        workers = [psutil.Process(pid) for pid in Service(process, "http://x:0", tmp_path / "log").workers()]
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(workers, 20)
        assert not alive
    finally:
        process.kill()
        process.wait()


def test_a_run_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dura", "serve", str(tmp_path / "none"), "--port", "0", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert done.stderr == f"dura: there is no run folder {tmp_path / 'none'}\n"
