"""Workers: processes that each call one function, for rooms that make many runs.

A `Crew` starts workers and receives what they send:

```python
with Crew(Limits(jobs=2, threads=4)) as crew:
    crew.start("first", Call(train_run, {"settings": toml, "out": "runs/first"}), Path("logs/first.log"))
    while crew.running:
        for ended in crew.wait():
            print(ended.name, ended.failure or ended.result)
```

- The function is found by its module and name. Its arguments and its result are plain values (JSON). It takes two more arguments
  by keyword: `stopped()`, to be called between two steps, and `tell(value)`, which sends a value to the parent.
- Each worker has its own session, so Ctrl-C reaches only the parent. `Crew.stop` sends SIGTERM; `stopped()` is then true.
- What a worker prints goes to its log.
- No worker outlives its crew. If the parent dies in any way, its workers notice it and `stopped()` is true. A worker that does not
  end by itself is then ended. Its run can be continued, as after any kill.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dura.records import disk_error
from dura.types import DuraError

POLL = 0.3
"""The most seconds that `Crew.wait` waits."""
PATIENCE = 10.0
"""Seconds that a worker has to end after the crew was closed. Then it is killed."""
ORPHAN_PATIENCE = 60.0
"""Seconds that a worker has to end after its parent died. Then it exits at once."""
INTERRUPTED = 130
"""The exit code of errors that mean that work was stopped on request."""
NO_MEMORY = "there was not enough memory"

# The worker uses the parent's search path, so it finds the same packages, in whatever way the parent was started.
_BOOT = (
    "import json, sys; task = json.loads(sys.stdin.readline()); sys.path[:] = task['path']; "
    "from dura.runs.workers import obey; obey(task)"
)


@dataclass(frozen=True)
class Limits:
    """Limits of a crew: workers at once, threads per worker, and bytes of memory of all workers (None: no limit)."""

    jobs: int = 1
    threads: int = 1
    memory: int | None = None


@dataclass(frozen=True)
class Call:
    """A function at the top level of a module, and the plain values to call it with.

    >>> Call(obey, {"task": 1}).reference
    'dura.runs.workers:obey'
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """How the worker finds the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


@dataclass(frozen=True)
class Ended:
    """How a worker ended: with the `result` of its function, or with a `failure`, a sentence that says why there is no result."""

    name: str
    call: Call
    result: Any = None
    failure: str = ""
    killed: bool = False
    """True if a signal ended it."""
    interrupted: bool = False
    """True if its function stopped on request."""


@dataclass
class _Worker:
    """A running worker. `said` is its last message: a result or a failure."""

    name: str
    call: Call
    log: Path
    memory: int
    heard: Callable[[Any], None]
    process: subprocess.Popen[bytes]
    said: dict[str, Any] | None = None
    asked: bool = False

    def ended(self) -> Ended:
        """How it ended. The process must have ended."""
        code = self.process.returncode
        if self.said is not None:
            said = {"result": None, "failure": "", "interrupted": False, **self.said}
            return Ended(self.name, self.call, said["result"], said["failure"], interrupted=said["interrupted"])
        if code < 0:
            failure = f"killed by signal {-code} (memory may have run out)"
            return Ended(self.name, self.call, failure=failure, killed=True)
        return Ended(self.name, self.call, failure=f"ended with exit code {code}, see {self.log}")


class Crew:
    """The workers of one parent. A context manager: when it exits, no worker is left running."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._workers: dict[str, _Worker] = {}
        self._mail: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = queue.Queue()

    @property
    def running(self) -> dict[str, Call]:
        """The calls of the running workers, by the names of the workers."""
        return {name: worker.call for name, worker in self._workers.items()}

    def room(self, memory: int = 0) -> bool:
        """True if one more worker that needs this many bytes may start now."""
        used = sum(worker.memory for worker in self._workers.values())
        fits = self.limits.memory is None or used + memory <= self.limits.memory
        return fits and len(self._workers) < self.limits.jobs

    def start(
        self, name: str, call: Call, log: Path, *, memory: int = 0, heard: Callable[[Any], None] = lambda _: None
    ) -> None:
        """Start a worker that needs `memory` bytes. `heard` is called, during `wait`, with each value that its function tells."""
        assert name not in self._workers
        task = json.dumps(
            {
                "path": sys.path,
                "function": call.reference,
                "arguments": dict(call.arguments),
                "patience": ORPHAN_PATIENCE,
            }
        )
        process = _process(log, self.limits.threads)
        worker = _Worker(name, call, log, memory, heard, process)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        self._workers[name] = worker
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it died at once; `wait` reports how
            process.stdin.write(task.encode() + b"\n")
            process.stdin.flush()

    def _listen(self, worker: _Worker) -> None:
        """Put each message of a worker into the queue, then None when there are no more. Runs in a separate thread."""
        assert worker.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # killed in the middle of a line
            for line in worker.process.stdout:
                self._mail.put((worker, json.loads(line)))
        self._mail.put((worker, None))

    def wait(self, seconds: float = POLL) -> list[Ended]:
        """Receive messages for at most this many seconds. Returns early, with the workers that ended, as soon as one ends."""
        ended: list[Ended] = []
        end = time.monotonic() + seconds
        while not ended:
            try:
                worker, said = self._mail.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if said is None:
                ended.append(self._close(worker))
            elif "told" in said:
                worker.heard(said["told"])
            else:
                worker.said = said
        return ended

    def stop(self) -> None:
        """Ask every worker to end after its current step. Each worker is asked only once."""
        for worker in self._workers.values():
            if not worker.asked:
                worker.asked = True
                worker.process.terminate()

    def drain(self) -> Iterator[Ended]:
        """Ask every worker to end, and yield each of them when it has ended."""
        self.stop()
        while self._workers:
            yield from self.wait()

    def _close(self, worker: _Worker) -> Ended:
        """Wait for the process of a worker that sends no more messages, and remove the worker."""
        try:
            worker.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        self._workers.pop(worker.name, None)
        for pipe in (worker.process.stdin, worker.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        return worker.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        end = time.monotonic() + PATIENCE
        for worker in self._workers.values():
            worker.heard = lambda _: None
        while self._workers:
            if time.monotonic() > end:
                for worker in self._workers.values():
                    worker.process.kill()
            self.wait()


def _process(log: Path, threads: int) -> subprocess.Popen[bytes]:
    """A new interpreter that waits for its task. Its standard input stays open as long as this process lives."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    except OSError as error:
        raise disk_error(error, log, "no worker can be started without its log") from error
    with output:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def short_of_memory(error: BaseException) -> bool:
    """True for the errors by which Python and torch report that memory has run out."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


# -- inside a worker --------------------------------------------------------------------------------------------------


def obey(task: Mapping[str, Any]) -> None:
    """The work of a worker: call the function of its task and send the outcome. What it prints goes to the log."""
    channel = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on as SIGTERM
    threading.Thread(target=_watch_parent, args=(asked, task["patience"]), daemon=True).start()

    def send(message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            channel.write(json.dumps(message, allow_nan=False) + "\n")
            channel.flush()

    send(_outcome(task, asked.is_set, lambda value: send({"told": value})))


def _outcome(task: Mapping[str, Any], stopped: Callable[[], bool], tell: Callable[[Any], None]) -> dict[str, Any]:
    """The result of the task's function, or the sentence that says why there is none."""
    interrupted = False
    try:
        module, _, name = task["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        return {"result": function(**task["arguments"], stopped=stopped, tell=tell)}
    except DuraError as error:
        failure, interrupted = str(error), error.exit_code == INTERRUPTED
    except OSError as error:
        failure = f"{error.filename or 'a file'} cannot be used: {error.strerror or error}"
    except Exception as error:  # noqa: BLE001 (any error must reach the parent)
        traceback.print_exc()
        unexpected = f"an unexpected error, {type(error).__name__}: {error}"
        failure = NO_MEMORY if short_of_memory(error) else " ".join(unexpected.split())
    print(f"dura: {failure}", file=sys.stderr)  # noqa: T201
    return {"failure": failure, "interrupted": interrupted}


def _watch_parent(asked: threading.Event, patience: float) -> None:
    """Wait until standard input is closed, which the system does when the parent dies in any way. Then end this process."""
    while os.read(0, 1):
        pass
    asked.set()
    time.sleep(patience)
    os._exit(1)
