"""Workers: several processes that answer at one socket, and the supervisor that starts them again when they die.

All workers accept from the same socket, which the supervisor keeps open: while one of them is missing, the others get its
connections. The tables of entities are mapped, so the workers share their memory. This module does not import torch.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dura.types import BadInput, DuraError
from dura.web.metrics import FOLDER, forget
from dura.web.settings import Settings

SHORTEST, LONGEST = 0.5, 30.0
"""Seconds until a worker that died soon after its start is started again: at first, and at most."""
LIVED = 30.0
"""A worker that lived this many seconds is started again at once."""


@dataclass
class _Worker:
    number: int
    process: subprocess.Popen[bytes]
    reports: int
    begun: float = field(default_factory=time.monotonic)
    ready: bool = False
    rest: bytes = b""

    def tell(self, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(sign)


class Supervisor:
    """Keeps `count` workers alive. `say` gets a sentence for each thing that an operator should know."""

    def __init__(
        self, run: Path, device: str, sock: socket.socket, settings: Settings, count: int, say: Callable[[str], None]
    ) -> None:
        self._run, self._device, self._socket, self._settings = run, device, sock, settings
        self._count, self._say = count, say
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = {}
        self._delay = dict.fromkeys(range(1, count + 1), 0.0)
        self._reload: list[int] = []
        self._stale: set[int] = set()
        self._signals: list[signal.Signals] = []
        self._selector = selectors.DefaultSelector()
        self._metrics = Path(tempfile.mkdtemp(prefix="dura-metrics-"))
        self._started = False

    def serve(self, ready: Callable[[], None]) -> None:
        """Run until SIGTERM or SIGINT. `ready` is called when all workers can be asked for the first time."""
        awake, signalled = socket.socketpair()
        signalled.setblocking(False)
        awake.setblocking(False)
        self._selector.register(awake, selectors.EVENT_READ, None)
        before = signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        heard = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        old = {
            sign: signal.signal(sign, lambda number, _: self._signals.append(signal.Signals(number))) for sign in heard
        }
        try:
            for number in range(1, self._count + 1):
                self._start(number)
            self._loop(awake, ready)
        finally:
            self._end()
            signal.set_wakeup_fd(before)
            for sign, handler in old.items():
                signal.signal(sign, handler)
            self._selector.close()
            awake.close()
            signalled.close()
            shutil.rmtree(self._metrics, ignore_errors=True)

    def _loop(self, awake: socket.socket, ready: Callable[[], None]) -> None:
        while True:
            now = time.monotonic()
            wait = min((at - now for at in self._due.values()), default=5.0)
            for key, _ in self._selector.select(max(0.0, min(wait, 5.0))):
                if key.data is None:
                    with suppress(BlockingIOError):
                        while awake.recv(1024):
                            pass
                else:
                    self._hear(key.data)
            heard, self._signals = self._signals, []
            if signal.SIGTERM in heard or signal.SIGINT in heard:
                return
            if signal.SIGHUP in heard:
                self._say(f"reloading {self._run}")
                self._reload = sorted(self._workers)
                self._reload_next()
            self._bury()
            for number in [number for number, at in self._due.items() if at <= time.monotonic()]:
                del self._due[number]
                self._start(number)
            if not self._started and sum(w.ready for w in self._workers.values()) == self._count:
                self._started = True
                ready()

    def _start(self, number: int) -> None:
        reading, writing = os.pipe()
        environment = {**os.environ, FOLDER: str(self._metrics)}
        command = [sys.executable, "-m", "dura.web.worker"]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[self._socket.fileno(), writing],
            env=environment,
        )
        os.close(writing)
        threads = max(1, len(os.sched_getaffinity(0)) // self._count) if hasattr(os, "sched_getaffinity") else 1
        given: dict[str, Any] = {"run": str(self._run), "device": self._device, "socket": self._socket.fileno()}
        given |= {"report": writing, "threads": threads, "settings": asdict(replace(self._settings, worker=number))}
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write((json.dumps(given) + "\n").encode())  # not as an argument: others may read those
            process.stdin.flush()
        worker = _Worker(number, process, reading)
        self._workers[number] = worker
        self._selector.register(reading, selectors.EVENT_READ, worker)

    def _hear(self, worker: _Worker) -> None:
        """Read what a worker reports."""
        data = os.read(worker.reports, 1 << 16)
        if not data:
            self._selector.unregister(worker.reports)
            os.close(worker.reports)
            worker.reports = -1
            return
        *lines, worker.rest = (worker.rest + data).split(b"\n")
        for report in map(json.loads, lines):
            if "error" in report:
                if not self._started:
                    raise (BadInput if report["bad"] else DuraError)(report["error"])
                self._say(f"worker {worker.number} cannot serve {self._run}: {report['error']}")
            if "ready" in report:
                worker.ready = True
                if worker.number in self._stale:
                    self._stale.discard(worker.number)
                    worker.tell(signal.SIGHUP)
            if "reload" in report or "ready" in report:
                self._reload_next()

    def _reload_next(self) -> None:
        """Let the next worker reload. One after the other, so that only one has two models in memory."""
        while self._reload:
            worker = self._workers.get(self._reload.pop(0))
            if worker is not None and not worker.ready:  # it may be reading the old files
                self._stale.add(worker.number)
            elif worker is not None:
                worker.tell(signal.SIGHUP)
                return

    def _bury(self) -> None:
        """Take note of workers that have died, and plan to start them again."""
        for number, worker in list(self._workers.items()):
            code = worker.process.poll()
            if code is None:
                continue
            while worker.reports >= 0:
                self._hear(worker)
            del self._workers[number]
            forget(self._metrics, worker.process.pid)
            assert worker.process.stdin is not None
            with suppress(BrokenPipeError):
                worker.process.stdin.close()
            if not self._started:
                raise DuraError(f"a worker of the service ended with code {code} before it was ready; its log says why")
            lived = time.monotonic() - worker.begun
            delay = 0.0 if lived > LIVED else min(LONGEST, max(SHORTEST, 2 * self._delay[number]))
            # The first death is not waited for: only one that comes again soon.
            self._due[number] = time.monotonic() + (0.0 if worker.ready and not self._delay[number] else delay)
            self._delay[number] = delay
            how = f"by the signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
            self._say(f"worker {number} ended {how} and is started again")
            self._reload_next()

    def _end(self) -> None:
        """Let all workers end what is running; end those that take too long."""
        for worker in self._workers.values():
            worker.tell(signal.SIGTERM)
        limit = time.monotonic() + self._settings.grace_seconds + 3
        for worker in self._workers.values():
            try:
                worker.process.wait(max(0.1, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            assert worker.process.stdin is not None
            with suppress(BrokenPipeError):
                worker.process.stdin.close()
            if worker.reports >= 0:
                os.close(worker.reports)
