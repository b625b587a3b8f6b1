"""Tasks: one cell with one seed, its files, and what is left to do for it.

```
OUT/
  runs/CELL-seedN/            the run folder
  results/CELL-seedN.json     {"format", "dura", "preset", "seed", "settings", "training", "result"}
  logs/CELL-seedN.log         what its workers printed
```
What is left to do follows from these files alone: after a start that was interrupted or killed, or a power cut, there is nothing
to repair.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from dura.config import Experiment
from dura.records import Damage, RunFolder, curve, read_json, write_atomic
from dura.reproduction.cells import Cell
from dura.runs.build import complete
from dura.runs.store import read_settings
from dura.runs.work import ensemble_runs, evaluate_run, train_run
from dura.runs.workers import Call
from dura.types import DuraError, __version__

FORMAT = 1
"""The newest format of result files that this program reads, and the one it writes."""
_FREE = {"training": ("device", "threads", "checkpoint_every")}
"""Settings that say where a run was made and not what it is: a run with others is the same cell."""


class Step(NamedTuple):
    """What a task needs next: the call for a worker, and the word for it."""

    doing: str
    call: Call

    @property
    def last(self) -> bool:
        """True if the call returns the result."""
        return self.call.function in (evaluate_run, ensemble_runs)


@dataclass(frozen=True)
class Task:
    """One cell with one seed, in the folder `out`; new runs are made on `device` ("": the one that the preset names)."""

    cell: Cell
    seed: int
    out: Path
    device: str = ""

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.cell.preset.replace('/', '-')}-seed{self.seed}"

    @property
    def run(self) -> Path:
        """Its run folder."""
        return self.out / "runs" / self.name

    @property
    def log(self) -> Path:
        """What its workers printed."""
        return self.out / "logs" / f"{self.name}.log"

    @property
    def _result(self) -> Path:
        return self.out / "results" / f"{self.name}.json"

    @cached_property
    def settings(self) -> Experiment:
        """The settings that its run must have."""
        return complete(self.cell.experiment.with_value("training.seed", self.seed))

    def result(self) -> dict[str, Any] | None:
        """The result; None if there is none yet or its file is damaged. A result of other settings is an error."""
        try:
            found: Any = read_json(self._result.parent, self._result.name)
        except Damage:
            return None
        version = found.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise DuraError(f"{self._result} has format {version}, but this dura reads up to {FORMAT}; update dura")
        if not _whole(found):
            return None
        self._check(Experiment.from_dict(found["settings"], where=str(self._result)), self._result)
        return dict(found)

    def records(self) -> list[dict[str, Any]]:
        """The records of its run so far. A run of other settings is an error."""
        if not (self.run / "run.json").exists():
            return []
        folder = RunFolder.open(self.run)
        self._check(read_settings(folder), self.run)
        return folder.records()

    def _check(self, found: Experiment, where: Path) -> None:
        """Presets change; numbers of an old one must not appear under the name of the new one."""
        if difference := _difference(complete(found).to_dict(), self.settings.to_dict()):
            raise DuraError(
                f"{where} has other settings than the preset ({difference}); move it away or name another --out"
            )

    def ended(self) -> bool:
        """True if training has ended."""
        return any(record.get("kind") == "end" for record in self.records())

    def left(self) -> float:
        """The share of its training that is left to do, from 0 to 1; 0 also if its files are in the way, since it fails at once."""
        try:
            if self.result() is not None or self.ended():
                return 0.0
            return 1 - len(curve(self.records())) / max(1, self.settings.training.epochs)
        except DuraError:
            return 0.0

    def next(self) -> Step | None:
        """What it needs next; None if nothing is left to do."""
        if self.result() is not None:
            return None
        if self.ended():
            return Step("evaluating", Call(evaluate_run, {"run": str(self.run), "device": self.device or "cpu"}))
        begun = (self.run / "run.json").exists()
        wanted = self.settings.with_value("training.device", self.device) if self.device else self.settings
        call = Call(train_run, {"settings": wanted.to_toml(), "out": str(self.run)})
        return Step("resuming" if begun else "training", call)

    def in_use(self) -> bool:
        """True if another process trains it, such as a worker of another start."""
        import filelock

        if not self.run.is_dir():
            return False
        try:
            with filelock.FileLock(self.run / ".lock", timeout=0):
                return False
        except filelock.Timeout:
            return True

    def keep(self, result: Mapping[str, Any]) -> None:
        """Write the result of the evaluation, with the settings and what training took."""
        document = {
            "format": FORMAT,
            "dura": __version__,
            "preset": self.cell.preset,
            "seed": self.seed,
            "settings": self._made().to_dict(),
            "training": self._training(),
            "result": dict(result),
        }
        self._result.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._result, (json.dumps(document, indent=1) + "\n").encode())

    def _made(self) -> Experiment:
        """The settings that its run was made with."""
        return read_settings(RunFolder.open(self.run))

    def _training(self) -> dict[str, Any]:
        """What training took."""
        end = next(record for record in reversed(self.records()) if record.get("kind") == "end")
        return {key: end[key] for key in ("epoch", "best_epoch", "seconds")}

    def progress(self) -> str:
        """How far training is, in words."""
        epochs = curve(self.records())
        if not epochs:
            return "starting"
        valid = [f", valid MRR {record['valid']['mrr']:.4f}" for record in epochs if "valid" in record]
        return f"epoch {epochs[-1]['epoch']} of {self.settings.training.epochs}{valid[-1] if valid else ''}"


class Together(Task):
    """Two runs that answer together. They are the runs of the members' own tasks, so each is trained once for both uses."""

    @cached_property
    def members(self) -> tuple[Task, ...]:
        """The tasks of its two runs."""
        return tuple(Task(cell, self.seed, self.out, self.device) for cell in self.cell.members)

    def records(self) -> list[dict[str, Any]]:
        """The records of the run that is trained, or of the last one."""
        return next((task for task in self.members if not task.ended()), self.members[-1]).records()

    def ended(self) -> bool:
        """True if the training of both runs has ended."""
        return all(task.ended() for task in self.members)

    def left(self) -> float:
        """The mean share of its runs."""
        return fmean(task.left() for task in self.members)

    def next(self) -> Step | None:
        """Train one run, then the other, then let them answer together."""
        if self.result() is not None:
            return None
        for task in self.members:
            if not task.ended():
                step = task.next()
                assert step is not None, "a run that has not ended has no result"
                return step
        first, second = (str(task.run) for task in self.members)
        return Step("fitting", Call(ensemble_runs, {"first": first, "second": second, "out": str(self.run)}))

    def in_use(self) -> bool:
        """True if another process trains one of its runs."""
        return any(task.in_use() for task in self.members)

    def _made(self) -> Experiment:
        return self.members[0]._made()

    def _training(self) -> dict[str, Any]:
        """The time of both runs; the epochs of the first."""
        first, second = (task._training() for task in self.members)
        return first | {"seconds": first["seconds"] + second["seconds"]}


def task_of(cell: Cell, seed: int, out: Path, device: str = "") -> Task:
    """The task of a cell with a seed."""
    return (Together if cell.members else Task)(cell, seed, out, device)


def _whole(found: Any) -> bool:
    """True if a result file has everything that the tables show."""
    try:
        result, seconds = found["result"], found["training"]["seconds"]
        hits = (result["hits"]["1"], result["hits"]["10"])
        numbers = (seconds, result["mrr"], *hits, result["ties"]["pessimistic"]["mrr"])
        return isinstance(found["settings"], dict) and all(isinstance(number, int | float) for number in numbers)
    except (KeyError, TypeError):
        return False


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first setting in which two experiments differ, in words; empty if they mean the same."""
    for table in [table for table in wanted if isinstance(wanted[table], Mapping) and table != "expected"]:
        theirs, ours = found.get(table, {}), wanted[table]
        for key in dict.fromkeys([*ours, *theirs]):
            if key not in _FREE.get(table, ()) and theirs.get(key) != ours.get(key):
                return f"{table}.{key} is {theirs.get(key)!r} there and {ours.get(key)!r} here"
    return ""
