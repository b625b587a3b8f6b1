"""Reproduce: run the cells of a table with workers, and continue where an earlier start was stopped.

All state is in the files of the tasks. So a start may end in any way, and two starts in one folder wait for each other's runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from dura.reproduction.cells import Cell
from dura.reproduction.estimates import Estimate, until_all_ended
from dura.reproduction.tasks import Step, Task, task_of
from dura.runs.build import checked_device
from dura.runs.cost import cores, free_memory, measured_speed
from dura.runs.workers import Crew, Ended, Limits
from dura.training.progress import Interrupted
from dura.types import BadInput, DuraError
from dura.words import duration


@dataclass(frozen=True)
class Standing:
    """How far a start is: how many tasks are over, how many of these failed, how many there are, and the running ones in words."""

    over: int
    failed: int
    tasks: int
    running: tuple[str, ...]


def _silent(_: object) -> None:
    """Nobody listens."""


def reproduce(
    chosen: Sequence[Cell],
    out: Path,
    *,
    seeds: int = 1,
    jobs: int = 0,
    device: str = "",
    stopped: Callable[[], bool] = lambda: False,
    warn: Callable[[str], None] = _silent,
    say: Callable[[str], None] = _silent,
    show: Callable[[Standing], None] = _silent,
) -> dict[str, str]:
    """Run what is left to do for these cells, cheapest first, all of one seed before the next; returns failures as `run_tasks`.

    Cells whose graph is not on this machine are left out: `warn` gets a sentence, and the graph is among the failures. `jobs` = 0
    means one worker per core, or one on a GPU.
    """
    limits = limits_for(jobs, device, len(chosen) * seeds)
    missing = list(dict.fromkeys(cell.graph for cell in chosen if not cell.at_hand))
    there = [cell for cell in chosen if cell.at_hand]
    if missing:
        get = "; ".join(f"dura data get {graph}" for graph in missing)
        lack = f"not on this machine: {', '.join(missing)}; get with: {get}, or name the folder above them in DURA_DATA"
        if not there:
            raise BadInput(lack)
        warn(f"{lack}; the cells of the other graphs are run")
    costs = costs_here(there, limits)
    tasks = [task_of(cell, seed, out, device) for cell in there for seed in range(seeds)]
    seconds = {name: inf if cost.seconds is None else cost.seconds for name, cost in costs.items()}
    tasks.sort(key=lambda task: (task.seed, seconds[task.cell.preset]))
    if device in ("", "cpu"):  # the estimates are those of a CPU
        say(_forecast([(task.left(), seconds[task.cell.preset]) for task in tasks], limits.jobs))
    failures = run_tasks(
        tasks, lambda task: costs[task.cell.preset].bytes or 0, limits, stopped=stopped, say=say, show=show
    )
    return failures | {graph: f"is not on this machine; get it with: dura data get {graph}" for graph in missing}


def costs_here(chosen: Sequence[Cell], limits: Limits) -> dict[str, Estimate]:
    """What each cell costs on this machine, by preset, with a worker's share of the cores."""
    speed = worker_speed(limits)
    return {cell.preset: cell.cost(speed) for cell in chosen}


def worker_speed(limits: Limits) -> float:
    """Floating point operations per second of a worker's products, while the other workers are busy as well."""
    measured_with, wanted = _threads_given() or cores(), limits.jobs * limits.threads
    return measured_speed() * limits.threads / measured_with * min(1.0, cores() / wanted)


def _forecast(left: Sequence[tuple[float, float]], jobs: int) -> str:
    """How long the runs will take, in words: of each the share of its training that is left, and its seconds in all."""
    runs = [share * seconds for share, seconds in left if share]
    known = [seconds for seconds in runs if seconds < inf]
    whole = f"{_runs(len(runs))} to do, about {duration(until_all_ended(known, jobs))} in all"
    together = f", {jobs} at once" if jobs > 1 and len(runs) > 1 else ""
    unknown = f"; {_runs(len(runs) - len(known))} of unknown length not counted" if len(known) < len(runs) else ""
    return f"{whole}{together}{unknown}" if runs else "nothing is left to train"


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _threads_given() -> int:
    """The threads that the user wants, 0 if nothing is said."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() else 0


def limits_for(jobs: int, device: str, tasks: int) -> Limits:
    """Cores and memory shared between the workers; a GPU has its own memory and runs one worker, unless `jobs` says more."""
    on_cpu = device in ("", "cpu")
    if not on_cpu:
        checked_device(device)
    jobs = min(jobs or (cores() if on_cpu else 1), tasks)
    threads = _threads_given() or max(1, cores() // jobs)
    return Limits(jobs, threads, free_memory() if on_cpu else None)


def run_tasks(
    tasks: Sequence[Task],
    bytes_of: Callable[[Task], int],
    limits: Limits,
    *,
    stopped: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = _silent,
    show: Callable[[Standing], None] = _silent,
) -> dict[str, str]:
    """Bring every task to its result, in this order as far as memory allows; returns why tasks failed, by their names.

    A task that fails does not stop the others. When `stopped()` is true, the workers end after their step and `Interrupted` is
    raised; the same call continues from there. `say` gets a sentence per event, `show` is often called with how far it is.
    """
    with Crew(limits) as crew:
        start = _Start(crew, list(tasks), bytes_of, say)
        while start.waiting or crew.running:
            if stopped():
                for ended in crew.drain():
                    start.collect(ended, stopping=True)
                raise Interrupted("stopped; the same command goes on from here")
            start.begin()
            show(start.standing(len(tasks)))
            for ended in crew.wait():
                start.collect(ended)
        return start.failures


class _Start:
    """The tasks of one start: waiting, with a worker, failed."""

    def __init__(
        self, crew: Crew, tasks: list[Task], bytes_of: Callable[[Task], int], say: Callable[[str], None]
    ) -> None:
        self.crew, self.waiting, self.bytes_of, self.say = crew, tasks, bytes_of, say
        self.running: dict[str, tuple[Task, Step]] = {}
        self.elsewhere: list[Task] = []
        self.failures: dict[str, str] = {}

    def begin(self) -> None:
        """Start what fits; a run that another process holds takes a place and is waited for."""
        self.elsewhere = [task for task in self.waiting if task.in_use()]
        held = {task.name for task in self.elsewhere}
        for task in [task for task in self.waiting if task.name not in held]:
            if len(self.running) + len(self.elsewhere) >= self.crew.limits.jobs:
                break
            if self._fits(task):
                self.waiting.remove(task)
                self._next(task)

    def _fits(self, task: Task) -> bool:
        """True if there is room for one more worker; a task that would not fit even alone is a failure and does not wait."""
        wanted, free = self.bytes_of(task), self.crew.limits.memory
        if free is not None and wanted > free:
            self.waiting.remove(task)
            self._fail(task, f"needs about {wanted / 1e9:.1f} GB of memory, but only {free / 1e9:.1f} GB are free")
            return False
        return self.crew.room(wanted)

    def _next(self, task: Task) -> None:
        """Start a worker with what the task needs next, if anything."""
        try:
            step = task.next()
            if step is None:
                return
            self.say(f"{task.name}: {step.doing}")
            self.crew.start(task.name, step.call, task.log, memory=self.bytes_of(task))
            self.running[task.name] = task, step
        except DuraError as error:
            self._fail(task, str(error))

    def _fail(self, task: Task, why: str) -> None:
        self.failures[task.name] = why
        self.say(f"{task.name}: failed: {why}")

    def collect(self, ended: Ended, stopping: bool = False) -> None:
        """Take in how a worker ended, and start what comes after it."""
        task, step = self.running.pop(ended.name)
        if not ended.failure:
            self._succeeded(task, step, ended, stopping)
        elif stopping:
            self.say(f"{task.name}: stopped {'while' if step.last else 'at'} {_progress(task, step)}")
        elif task.in_use():  # another start was faster
            self.waiting.append(task)
        else:
            self._fail(task, ended.failure)

    def _succeeded(self, task: Task, step: Step, ended: Ended, stopping: bool) -> None:
        if step.last:
            task.keep(ended.result)
            self.say(f"{task.name}: test MRR {ended.result['mrr']:.4f}")
        elif not task.ended() and (left := task.next()) is not None and left.call == step.call:
            self._fail(task, f"training returned, but its records have no end, see {task.log}")
        elif not stopping:
            self._next(task)

    def standing(self, tasks: int) -> Standing:
        """How far the start is."""
        running = [f"{name}: {_progress(task, step)}" for name, (task, step) in self.running.items()]
        held = [f"{task.name}: in use by another process, {task.progress()}" for task in self.elsewhere]
        over = tasks - len(self.waiting) - len(self.running)
        return Standing(over, len(self.failures), tasks, (*running, *held))


def _progress(task: Task, step: Step) -> str:
    """How far a worker is, in words."""
    return step.doing if step.last else task.progress()
