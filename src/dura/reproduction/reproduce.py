"""Reproduce: run the cells of a table, each in processes of its own, and go on where an earlier start was stopped.

Nothing is remembered beside the files of the tasks, so a start can end in any way, and two starts in one folder wait for each
other's runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from dura.reproduction.tasks import Task
from dura.training.trainer import Interrupted
from dura.types import DuraError

POLL = 0.3
"""Seconds between two looks at the processes."""
PATIENCE = 10.0
"""Seconds that a process has to end after it was told so twice; then it is killed."""


@dataclass(frozen=True)
class Limits:
    """What the processes may take: how many at once, threads each, bytes together (None: unknown), and on which device."""

    jobs: int = 1
    threads: int = 1
    memory: int | None = None
    device: str = ""


@dataclass(frozen=True)
class Standing:
    """How far a start has come: tasks that are over, failed ones among them, all, and the running ones in words."""

    over: int
    failed: int
    tasks: int
    running: tuple[str, ...]


def _silent(_: object) -> None:
    """Nobody listens."""


def reproduce(
    tasks: Sequence[Task],
    bytes_of: Callable[[Task], int],
    limits: Limits,
    *,
    stopped: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = _silent,
    show: Callable[[Standing], None] = _silent,
) -> dict[str, str]:
    """Bring every task to its result, in this order as far as memory allows; returns why tasks failed, by their names.

    A task that fails does not stop the others. When `stopped` says so, the processes end after their step and
    `Interrupted` is raised; the same call goes on from there. `say` hears what happens, `show` often how far it is.
    """
    start = _Start(list(tasks), bytes_of, limits, say)
    try:
        while start.waiting or start.running:
            if stopped():
                start.tell_to_end()
                while start.running:
                    start.collect(stopping=True)
                    time.sleep(POLL)
                raise Interrupted("stopped; the same command goes on from here")
            start.begin()
            show(start.standing(len(tasks)))
            time.sleep(POLL)
            start.collect()
        return start.failures
    finally:
        start.clear_away()


@dataclass
class _Process:
    """A command under way for a task."""

    task: Task
    arguments: list[str]
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    logged: int
    """How long the log was before."""

    def complaint(self) -> str:
        """Why it failed, in a sentence: its own last one if it said any."""
        said = self.task.log.read_bytes()[self.logged :].decode(errors="replace").splitlines()
        own = [line.removeprefix("dura: ") for line in said if line.startswith("dura: ")]
        code = self.process.returncode
        if code < 0:
            return f"killed by signal {-code} (memory may have run out)"
        return own[-1] if own else f"ended with exit code {code}, see {self.task.log}"


class _Start:
    """The tasks of one start: waiting, running, failed."""

    def __init__(
        self, tasks: list[Task], bytes_of: Callable[[Task], int], limits: Limits, say: Callable[[str], None]
    ) -> None:
        self.waiting, self.bytes_of, self.limits, self.say = tasks, bytes_of, limits, say
        self.running: list[_Process] = []
        self.elsewhere: list[Task] = []
        self.failures: dict[str, str] = {}

    def begin(self) -> None:
        """Start what fits; a run that another process holds takes a place and is waited for."""
        self.elsewhere = [task for task in self.waiting if task.in_use()]
        held = {task.name for task in self.elsewhere}
        for task in [task for task in self.waiting if task.name not in held]:
            if len(self.running) + len(self.elsewhere) >= self.limits.jobs:
                break
            if not self._fits(task):
                continue
            self.waiting.remove(task)
            self._next(task)

    def _fits(self, task: Task) -> bool:
        """Whether there is memory for one more; what would not even fit alone is a failure, not a wait."""
        if self.limits.memory is None:
            return True
        wanted, free = self.bytes_of(task), self.limits.memory
        if wanted > free:
            self.waiting.remove(task)
            self._fail(task, f"needs about {wanted / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free")
            return False
        return wanted + sum(self.bytes_of(process.task) for process in self.running) <= free

    def _next(self, task: Task) -> None:
        """Start the task's next command, if there is one."""
        try:
            arguments = task.command(self.limits.device)
        except DuraError as error:
            return self._fail(task, str(error))
        if arguments is None:
            return None
        what = {"evaluate": "evaluating"}.get(arguments[0], "resuming" if "--resume" in arguments else "training")
        self.say(f"{task.name}: {what}")
        task.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {"OMP_NUM_THREADS": str(self.limits.threads), **os.environ}
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it was read)
        with task.log.open("ab") as log:
            logged = log.tell()
            # A session of its own: Ctrl-C reaches this process alone, which then tells the others once.
            process = subprocess.Popen(
                [sys.executable, "-m", "dura", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self.running.append(_Process(task, arguments, process, output, logged))
        return None

    def _fail(self, task: Task, why: str) -> None:
        self.failures[task.name] = why
        self.say(f"{task.name}: failed: {why}")

    def collect(self, stopping: bool = False) -> None:
        """Take in what has ended, and start what comes after it."""
        for ended in [process for process in self.running if process.process.poll() is not None]:
            self.running.remove(ended)
            with ended.output:
                ended.output.seek(0)
                printed = ended.output.read()
            if ended.process.returncode == 0:
                self._succeeded(ended, printed, stopping)
            elif stopping:
                at = "while evaluating" if ended.arguments[0] == "evaluate" else f"at {ended.task.progress()}"
                self.say(f"{ended.task.name}: stopped {at}")
            elif ended.task.in_use():  # another start was faster
                self.waiting.append(ended.task)
            else:
                self._fail(ended.task, ended.complaint())

    def _succeeded(self, ended: _Process, printed: bytes, stopping: bool) -> None:
        task = ended.task
        if ended.arguments[0] == "evaluate":
            result = json.loads(printed)
            task.keep(result)
            self.say(f"{task.name}: test MRR {result['mrr']:.4f}")
        elif not task.ended():
            self._fail(task, f"training said it was done, but its records do not, see {task.log}")
        elif not stopping:
            self._next(task)

    def tell_to_end(self) -> None:
        """Ask every process to end after its step."""
        for process in self.running:
            process.process.terminate()

    def clear_away(self) -> None:
        """Leave no process behind, whatever happened."""
        self.tell_to_end()
        for left in self.running:
            try:
                left.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                left.process.kill()
                left.process.wait()
            left.output.close()

    def standing(self, tasks: int) -> Standing:
        """How far it is."""
        running = [
            f"{p.task.name}: {'evaluating' if p.arguments[0] == 'evaluate' else p.task.progress()}"
            for p in self.running
        ]
        held = [f"{task.name}: in use by another process, {task.progress()}" for task in self.elsewhere]
        over = tasks - len(self.waiting) - len(self.running)
        return Standing(over, len(self.failures), tasks, (*running, *held))
